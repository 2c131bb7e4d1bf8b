"""What a server fills in."""

from __future__ import annotations

from hekla.api.kinds import EVENT, POD, Obj
from tests.apiserver.rig import Rig, pod, with_server

EMPTY_PROBE = {"timeoutSeconds": 0, "periodSeconds": 0, "successThreshold": 0, "failureThreshold": 0}


def probed(name: str, probe: Obj, port: Obj, container: Obj, **spec: str) -> Obj:
    get: Obj = {"port": 80, **({"path": "", "scheme": ""} if probe else {})}
    main = {"name": "main", "image": "x:1", "ports": [{"containerPort": 80, **port}], **container}
    wish = pod(
        containers=[{**main, "livenessProbe": {"httpGet": get, **probe}}], automountServiceAccountToken=False, **spec
    )
    return {**wish, "metadata": {**wish["metadata"], "name": name}}


def test_what_is_empty_is_filled_in_like_what_is_missing() -> None:
    texts = ("terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy")
    empty = probed(
        "empty", EMPTY_PROBE, {"protocol": ""}, dict.fromkeys(texts, ""),
        restartPolicy="", dnsPolicy="", schedulerName="",
    )  # fmt: skip

    async def script(rig: Rig) -> None:
        filled = await rig.client.create(POD, empty)
        plain = await rig.client.create(POD, probed("plain", {}, {}, {}))
        assert filled["spec"] == plain["spec"]
        assert filled["spec"]["restartPolicy"] == "Always"

    with_server(script)


def test_an_event_about_nothing_says_so() -> None:
    """As it is read everywhere: who looks for what an event is about finds something that is nothing."""

    async def script(rig: Rig) -> None:
        made = await rig.client.create(EVENT, {"metadata": {"name": "x", "namespace": "default"}})
        assert (made["involvedObject"], made["source"]) == ({}, {})

    with_server(script)
