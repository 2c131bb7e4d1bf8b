"""Admission is asked between defaulting and the schema check, and its refusals read like a webhook's."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from hekla.admission.review import VolcanoAdmission
from hekla.api.crds import load_crds
from hekla.api.kinds import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    JOB,
    NAMESPACE,
    POD,
    POD_GROUP,
    QUEUE,
    SERVICE_ACCOUNT,
    Kind,
    Obj,
)
from hekla.api.review import Reader
from hekla.apiserver.admitting import StoreReader
from hekla.apiserver.store.store import Key
from hekla.client.rest import Client
from hekla.errors import ApiError, BadRequest, InternalError, Invalid
from tests import make
from tests.apiserver.rig import WIDGET, Rig, config_map, widget, with_server


class Probe:
    """An admission that does what the object's `free` field says."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def interested(self, kind: Kind, operation: str) -> bool:
        return kind.kind == "Widget"

    def fills_in(self, kind: Kind, operation: str) -> bool:
        return self.interested(kind, operation)

    async def mutate(self, review: Obj) -> Obj:
        request = review["request"]
        orders = ((request["object"].get("spec") or {}).get("free")) or {}
        if "deny" in orders:
            return _answer(request, allowed=False, status={"message": orders["deny"]})
        patch = base64.b64encode(msgspec.json.encode(orders.get("patch"))).decode() if "patch" in orders else None
        return _answer(request, allowed=True, patch=patch, patchType="JSONPatch")

    async def validate(self, review: Obj) -> Obj:
        request = review["request"]
        if request["operation"] == "DELETE":
            kept = await self.reader.find(CONFIG_MAP, "keep", "default")
            return _answer(request, allowed=kept is None, status={"message": "it is kept"})
        color = request["object"]["spec"]["color"]
        return _answer(request, allowed=color != "blue", status={"message": f"no {color}"})


class Meddler:
    """An admission during whose first look at an update somebody else writes the same ConfigMap."""

    client: Client | None = None

    def interested(self, kind: Kind, operation: str) -> bool:
        return (kind, operation) == (CONFIG_MAP, "UPDATE")

    def fills_in(self, kind: Kind, operation: str) -> bool:
        return False

    async def mutate(self, review: Obj) -> Obj:
        return _answer(review["request"], allowed=True)

    async def validate(self, review: Obj) -> Obj:
        client, self.client = self.client, None
        if client is not None:
            await client.patch(CONFIG_MAP, "a", {"data": {"other": "2"}}, "default")
        return _answer(review["request"], allowed=True)


def _answer(request: Obj, **response: Any) -> Obj:
    return {"response": {"uid": request["uid"], **response}}


def test_a_refusal_reads_as_from_a_webhook() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        for obj, message in (
            (widget(free={"deny": "never"}), 'admission webhook "mutatewidget.volcano.sh" denied the request: never'),
            (widget(color="blue"), 'admission webhook "validatewidget.volcano.sh" denied the request: no blue'),
        ):
            status, answer, _ = await rig.send("POST", WIDGET.path("default"), obj)
            assert status == 400
            assert answer["message"] == message
            assert "reason" not in answer
            assert "details" not in answer

    with_server(script, admission=Probe)


def test_a_patch_sees_defaults_and_is_seen_by_the_schema() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        size = [
            {"op": "test", "path": "/spec/color", "value": "red"},
            {"op": "replace", "path": "/spec/size", "value": 9},
        ]
        made = await rig.client.create(WIDGET, widget(free={"patch": size}))
        assert made["spec"]["size"] == 9
        bad = [{"op": "replace", "path": "/spec/size", "value": 99}]
        with pytest.raises(Invalid, match="should be less than or equal to 10"):
            await rig.client.create(WIDGET, widget("x", free={"patch": bad}))
        missing = [{"op": "add", "path": "/nope/x", "value": 1}]
        with pytest.raises(
            InternalError, match='add operation does not apply: doc is missing path: "/nope/x": missing value'
        ):
            await rig.client.create(WIDGET, widget("y", free={"patch": missing}))

    with_server(script, admission=Probe)


def test_what_a_patch_adds_is_pruned_and_filled_in_like_everything_else() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        patch = [
            {"op": "add", "path": "/spec/nope", "value": 1},
            {"op": "add", "path": "/spec/parts", "value": [{"name": "a", "odd": 2}]},
            {"op": "remove", "path": "/spec/color"},
            {"op": "add", "path": "/metadata/odd", "value": "x"},
            {"op": "add", "path": "/status", "value": {"a": 1}},
        ]
        made = await rig.client.create(WIDGET, widget(free={"patch": patch}))
        assert made["spec"] == {
            "size": 3,
            "color": "red",
            "free": {"patch": patch},
            "parts": [{"name": "a", "weight": 7}],
        }
        assert made.keys() == {"apiVersion", "kind", "metadata", "spec"}
        assert "odd" not in made["metadata"]
        plain = await rig.client.create(WIDGET, widget("plain", free={}))
        changed = await rig.client.update(WIDGET, {**plain, "spec": {"size": 3, "free": {"patch": patch}}})
        assert changed["spec"] == made["spec"]
        assert changed.keys() == made.keys()
        null = [{"op": "add", "path": "/spec/parts", "value": None}]
        with pytest.raises(Invalid, match=r"spec\.parts in body must be of type array"):
            await rig.client.create(WIDGET, widget("null", free={"patch": null}))
        wrong = [{"op": "add", "path": "/metadata/labels", "value": 7}]
        with pytest.raises(InternalError, match="cannot unmarshal number"):
            await rig.client.create(WIDGET, widget("wrong", free={"patch": wrong}))

    with_server(script, admission=Probe)


def test_a_replacement_that_lost_a_race_replaces_what_won_it() -> None:
    meddler = Meddler()

    async def script(rig: Rig) -> None:
        made = await rig.client.create(CONFIG_MAP, config_map())
        meddler.client = rig.client
        wanted = {**config_map(), "data": {"y": "3"}}
        written = await rig.client.update(CONFIG_MAP, wanted)
        assert meddler.client is None
        assert written["data"] == {"y": "3"}
        assert int(written["metadata"]["resourceVersion"]) == int(made["metadata"]["resourceVersion"]) + 2

    with_server(script, admission=lambda _: meddler)


def test_status_is_not_admitted_and_deletes_are() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        await rig.client.create(WIDGET, widget())
        await rig.client.patch(
            WIDGET, "w", {"spec": {"color": "blue"}, "status": {"a": 1}}, "default", subresource="status"
        )
        with pytest.raises(ApiError, match="no blue"):
            await rig.client.patch(WIDGET, "w", {"spec": {"color": "blue"}}, "default")
        await rig.client.create(CONFIG_MAP, config_map("keep"))
        with pytest.raises(ApiError, match="it is kept"):
            await rig.client.delete(WIDGET, "w", "default")
        await rig.client.delete(CONFIG_MAP, "keep", "default")
        await rig.client.delete(WIDGET, "w", "default")

    with_server(script, admission=Probe)


def test_what_admission_makes_of_an_object_that_stays_is_checked() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        order = {"patch": [{"op": "replace", "path": "/spec/size", "value": 99}]}
        key = Key("example.org/widgets", "default", "w")
        stored = widget(color="red", free=order)
        stored["metadata"] = {**stored["metadata"], "uid": "u", "generation": 1}
        await rig.store.write(key, lambda _: stored)
        with pytest.raises(Invalid, match="should be less than or equal to 10"):
            await rig.client.patch(WIDGET, "w", {"metadata": {"labels": {"a": "b"}}}, "default")

    with_server(script, admission=Probe)


def test_what_admission_looks_up_is_left_as_it_is() -> None:
    """Everybody is shown the same dict."""

    async def script(rig: Rig) -> None:
        for definition in load_crds():
            await rig.client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        for name, spec in (("root", {}), ("default", {"parent": "root"}), ("leaf", {"parent": "root"})):
            await rig.client.create(QUEUE, {"metadata": {"name": name}, "spec": spec})
            await rig.client.patch(QUEUE, name, {"status": {"state": "Open"}}, subresource="status")
        await rig.client.create(JOB, make.new_job("j", queue="leaf"))
        for kind, spec in ((POD_GROUP, {"queue": "leaf"}), (POD, {"containers": [make.container()]})):
            await rig.client.create(kind, {"metadata": {"name": "x", "namespace": "default"}, "spec": spec})
        kinds = (QUEUE, NAMESPACE, SERVICE_ACCOUNT)
        entries = [entry for kind in kinds for entry in rig.store.entries(f"{kind.group}/{kind.plural}")]
        assert {"default", "leaf", "root"} <= {entry.key.name for entry in entries}
        await rig.client.delete(QUEUE, "leaf")
        assert [entry.peek() for entry in entries] == [entry.decode() for entry in entries]

    with_server(script, admission=VolcanoAdmission)


def test_however_many_there_are_what_admission_looks_up_is_decoded_once() -> None:
    async def script(rig: Rig) -> None:
        for number in range(600):
            await rig.client.create(CONFIG_MAP, config_map(f"m{number}"))
        reader = StoreReader(rig.store)
        first, second = await reader.find_all(CONFIG_MAP), await reader.find_all(CONFIG_MAP)
        assert len(first) == 600
        assert all(one is other for one, other in zip(first, second, strict=True))

    with_server(script)


def test_a_job_may_have_headers_and_kernel_parameters_that_are_empty() -> None:
    """Their value has to be there, be it empty; that of a variable has not."""
    get = {"port": 80, "httpHeaders": [{"name": "X-Empty", "value": ""}]}
    main = make.container(livenessProbe={"httpGet": get}, env=[{"name": "EMPTY", "value": ""}])
    tuned = {"sysctls": [{"name": "kernel.domainname", "value": ""}]}

    async def script(rig: Rig) -> None:
        for crd in load_crds():
            await rig.client.create(CUSTOM_RESOURCE_DEFINITION, crd)
        queue = {"metadata": {"name": "default"}, "spec": {"weight": 1}}
        await rig.client.create(QUEUE, queue)
        await rig.client.patch(QUEUE, "default", {"status": {"state": "Open"}}, subresource="status")
        wish = make.new_job("demo", make.task("a", pod={"containers": [main], "securityContext": tuned}))
        made = (await rig.client.create(JOB, wish))["spec"]["tasks"][0]["template"]["spec"]
        assert made["containers"][0]["livenessProbe"]["httpGet"] == get
        assert made["containers"][0]["env"] == [{"name": "EMPTY"}]
        assert made["securityContext"] == tuned
        wrong = make.new_job("wrong", make.task("a", pod={"containers": [main], "securityContext": {"sysctls": [3]}}))
        with pytest.raises(BadRequest, match=r"of type v1\.Sysctl"):
            await rig.client.create(JOB, wrong)

    with_server(script, admission=VolcanoAdmission)
