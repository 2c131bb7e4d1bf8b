"""Wrong objects of Kubernetes' own kinds are refused in the words that a real server was heard to use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hekla.api.kinds import (
    CONFIG_MAP,
    EVENT,
    LIMIT_RANGE,
    POD,
    POD_DISRUPTION_BUDGET,
    RESOURCE_QUOTA,
    SECRET,
    SERVICE,
    Obj,
    kind_of,
)
from hekla.errors import BadRequest, Invalid
from tests.apiserver.rig import Rig, with_server
from tests.cluster.mutations import answer, mutated

HERE = Path(__file__).parent
RICH = {each["metadata"]["name"]: each for each in yaml.safe_load_all((HERE / "rich-objects.yaml").read_text())}
FAULTS = yaml.safe_load((HERE / "kind-faults.yaml").read_text())


@pytest.mark.parametrize("name", RICH)
def test_what_is_wrong_is_told_as_a_real_server_tells_it(name: str) -> None:
    async def script(rig: Rig) -> None:
        assert await refusals(rig, RICH[name]) == []
        for fault in (each for each in FAULTS if each["of"] == name):
            wrong = mutated(RICH[name], tuple(fault["at"]), fault["is"])
            assert await refusals(rig, wrong) == fault["said"], fault

    with_server(script)


def test_at_the_edge_of_what_is_right_it_is_told_as_well() -> None:
    async def script(rig: Rig) -> None:
        for each in yaml.safe_load((HERE / "wrong-objects.yaml").read_text()):
            kind = kind_of(each["object"])
            assert kind is not None
            said = await answer(rig.client, kind.path("default"), each["object"], lambda message: False)
            assert said == each["said"], each["object"]

    with_server(script)


async def refusals(rig: Rig, obj: Obj) -> list[str]:
    kind = kind_of(obj)
    assert kind is not None
    status, answer, _ = await rig.send("POST", f"{kind.path('default')}?dryRun=All", obj)
    if status < 300:
        return []
    return sorted({f"{cause.get('field', '')}: {cause['message']}" for cause in answer["details"]["causes"]})


def named(**fields: Any) -> Obj:
    return {"metadata": {"name": "x", "namespace": "default"}, **fields}


def test_one_object_has_one_controller() -> None:
    async def script(rig: Rig) -> None:
        owners = [
            {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in ("a", "b")
        ]
        obj = named()
        obj["metadata"]["ownerReferences"] = owners
        with pytest.raises(Invalid, match="Only one reference can have Controller set to true"):
            await rig.client.create(CONFIG_MAP, obj)

    with_server(script)


def test_an_owner_told_twice_is_kept_once() -> None:
    async def script(rig: Rig) -> None:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "controller": True}
        obj = named()
        obj["metadata"]["ownerReferences"] = [owner, dict(owner)]
        assert (await rig.client.create(CONFIG_MAP, obj))["metadata"]["ownerReferences"] == [owner]

    with_server(script)


def test_a_secret_holds_a_mebibyte_however_long_that_is_in_base64() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SECRET, named(data={"a": "AAAA" * (1024 * 1024 // 3)}))
        with pytest.raises(Invalid, match="Too long: may not be more than 1048576 bytes"):
            await rig.client.create(SECRET, named(data={"a": "AAAA" * (1024 * 1024 // 3 + 1)}))

    with_server(script)


def test_a_limit_range_without_a_name_gets_one_and_its_defaults() -> None:
    async def script(rig: Rig) -> None:
        item = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Gi"}}
        obj = {"metadata": {"namespace": "default"}, "spec": {"limits": [item]}}
        made = await rig.client.create(LIMIT_RANGE, obj)
        assert made["metadata"]["name"]
        filled = made["spec"]["limits"][0]
        assert filled["default"] == {"cpu": "2"}
        assert filled["defaultRequest"] == {"cpu": "2", "memory": "1Gi"}

    with_server(script)


def test_a_service_that_keeps_clients_at_one_pod_does_so_for_three_hours() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(SERVICE, named(spec={"ports": [{"port": 80}], "sessionAffinity": "ClientIP"}))
        assert made["spec"]["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}

    with_server(script)


def test_sizes_are_counted_in_bytes() -> None:
    async def script(rig: Rig) -> None:
        too_much = "é" * (512 * 1024 + 1)
        with pytest.raises(Invalid, match="Too long: may not be more than 1048576 bytes"):
            await rig.client.create(CONFIG_MAP, named(data={"a": too_much}))
        obj = named()
        obj["metadata"]["annotations"] = {"a": "é" * (128 * 1024)}
        with pytest.raises(Invalid, match="Too long: may not be more than 262144 bytes"):
            await rig.client.create(CONFIG_MAP, obj)

    with_server(script)


def test_numbers_longer_than_any_number_are_refused() -> None:
    async def script(rig: Rig) -> None:
        with pytest.raises(Invalid, match="must not be greater than 100%"):
            await rig.client.create(POD_DISRUPTION_BUDGET, named(spec={"minAvailable": f"{'9' * 5000}%"}))
        with pytest.raises(BadRequest, match="quantities must match the regular expression"):
            await rig.client.create(RESOURCE_QUOTA, named(spec={"hard": {"cpu": f"{'9' * 32}e50"}}))

    with_server(script)


def test_an_event_with_a_time_of_its_own_may_lie_where_the_system_is() -> None:
    async def script(rig: Rig) -> None:
        event = named(involvedObject={"kind": "Node", "name": "n"})
        event["metadata"]["namespace"] = "kube-system"
        with pytest.raises(Invalid, match=r"does not match event\.namespace"):
            await rig.client.create(EVENT, event)
        await rig.client.create(EVENT, {**event, "eventTime": "2020-01-01T00:00:00.000000Z"})

    with_server(script)


def test_what_a_service_of_another_type_has_no_use_for_goes_with_its_type() -> None:
    async def script(rig: Rig) -> None:
        balanced = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000}
        spec = {**balanced, "loadBalancerClass": "a/b", "ports": [{"port": 80}]}
        await rig.client.create(SERVICE, named(spec=spec))
        changed = await rig.client.patch(SERVICE, "x", {"spec": {"externalTrafficPolicy": "Cluster"}}, "default")
        assert "healthCheckNodePort" not in changed["spec"]
        assert changed["spec"]["loadBalancerClass"] == "a/b"
        changed = await rig.client.patch(SERVICE, "x", {"spec": {"type": "ClusterIP"}}, "default")
        assert "loadBalancerClass" not in changed["spec"]

    with_server(script)


def test_what_admission_gave_a_pod_need_not_be_said_again() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, named(spec={"containers": [{"name": "c", "image": "i"}]}))
        spec = {field: value for field, value in made["spec"].items() if field not in ("priority", "preemptionPolicy")}
        metadata = {**made["metadata"], "labels": {"a": "b"}}
        assert (await rig.client.update(POD, {**made, "metadata": metadata, "spec": spec}))["spec"] == made["spec"]

    with_server(script)
