"""A namespace holds no more than its quotas allow, whoever asks in whatever way, and refuses in Kubernetes' words."""

from __future__ import annotations

import asyncio

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from hekla.api.kinds import (
    CONFIG_MAP,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    RESOURCE_QUOTA,
    SERVICE,
    SERVICE_ACCOUNT,
    Obj,
)
from hekla.client.rest import Client
from hekla.errors import AlreadyExists, ApiError, Forbidden
from tests.apiserver.live import LiveServer
from tests.apiserver.quota_cases import CASES, Case, claim, plain, pod, quota, service, tell
from tests.apiserver.rig import WIDGET, Rig, widget, with_server

HERE = "default"


async def limit(rig: Rig, hard: dict[str, str], name: str = "q") -> None:
    assert await tell(rig.client, quota(hard, name), HERE) == ""


def here(obj: Obj) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "namespace": HERE}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_quota_lets_in_what_fits_and_refuses_what_does_not(case: Case) -> None:
    async def script(rig: Rig) -> list[str]:
        await rig.client.create(NAMESPACE, {"metadata": {"name": "limited"}})
        for kind, name in ((SERVICE_ACCOUNT, "default"), (CONFIG_MAP, "kube-root-ca.crt")):
            await rig.client.create(kind, {"metadata": {"name": name, "namespace": "limited"}})
        assert await tell(rig.client, case.quota, "limited") == ""
        return [await tell(rig.client, obj, "limited") for obj, _ in case.steps]

    assert with_server(script) == [told for _, told in case.steps]


def test_a_quota_counts_what_was_there_before_it_and_holds_at_once() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create_many(POD, [here(pod(f"old-{n}")) for n in range(3)])
        await limit(rig, {"pods": "2"})
        told = await tell(rig.client, pod("new"), HERE)
        assert told == "exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=2"

    with_server(script)


def test_what_ends_or_goes_makes_room_and_what_has_ended_is_still_an_object() -> None:
    async def script(rig: Rig) -> None:
        await limit(rig, {"pods": "1", "count/pods": "2"})
        assert await tell(rig.client, pod("a"), HERE) == ""
        assert await tell(rig.client, pod("b"), HERE) != ""
        await rig.client.patch(POD, "a", {"status": {"phase": "Succeeded"}}, HERE, subresource="status")
        assert await tell(rig.client, pod("b"), HERE) == ""
        await rig.client.patch(POD, "b", {"status": {"phase": "Failed"}}, HERE, subresource="status")
        told = await tell(rig.client, pod("c"), HERE)
        assert told == "exceeded quota: q, requested: count/pods=1, used: count/pods=2, limited: count/pods=2"
        await rig.client.delete(POD, "a", HERE)
        assert await tell(rig.client, pod("c"), HERE) == ""

    with_server(script)


def test_a_pod_that_cannot_be_got_rid_of_counts_until_it_has_had_its_grace_twice() -> None:
    async def script(rig: Rig) -> None:
        await limit(rig, {"pods": "1"})
        await rig.client.create(POD, here(pod("stuck", nodeName="lost", terminationGracePeriodSeconds=30)))
        await rig.client.delete(POD, "stuck", HERE)
        await asyncio.sleep(58)
        assert await tell(rig.client, pod("next"), HERE) != ""
        await asyncio.sleep(4)
        assert await tell(rig.client, pod("next"), HERE) == ""

    with_server(script)


def test_a_pod_that_is_given_a_deadline_moves_to_the_quota_of_those() -> None:
    async def script(rig: Rig) -> None:
        assert await tell(rig.client, quota({"pods": "1"}, scopes=["NotTerminating"]), HERE) == ""
        assert await tell(rig.client, pod("a"), HERE) == ""
        assert await tell(rig.client, pod("b"), HERE) != ""
        await rig.client.patch(POD, "a", {"spec": {"activeDeadlineSeconds": 100}}, HERE)
        assert await tell(rig.client, pod("b"), HERE) == ""

    with_server(script)


def test_every_quota_of_the_namespace_must_have_room_and_no_other() -> None:
    async def script(rig: Rig) -> None:
        await limit(rig, {"pods": "5"}, "wide")
        await limit(rig, {"pods": "1"}, "narrow")
        assert await tell(rig.client, pod("a"), HERE) == ""
        assert (await tell(rig.client, pod("b"), HERE)).startswith("exceeded quota: narrow, ")
        assert await tell(rig.client, pod("b", automountServiceAccountToken=False), "kube-system") == ""
        await rig.client.delete(RESOURCE_QUOTA, "narrow", HERE)
        assert await tell(rig.client, pod("b"), HERE) == ""

    with_server(script)


def test_a_changed_quota_holds_as_it_is() -> None:
    async def script(rig: Rig) -> None:
        await limit(rig, {"pods": "0"})
        for most in (1, 2):
            assert await tell(rig.client, pod(f"p{most}"), HERE) != ""
            await rig.client.patch(RESOURCE_QUOTA, "q", {"spec": {"hard": {"pods": str(most)}}}, HERE)
            assert await tell(rig.client, pod(f"p{most}"), HERE) == ""

    with_server(script)


def test_custom_resources_are_counted_and_events_never_are() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        await limit(rig, {"count/widgets.example.org": "1", "count/events": "0"})
        await rig.client.create(WIDGET, widget("a"))
        with pytest.raises(
            Forbidden, match=r"requested: count/widgets.example.org=1, used: count/widgets.example.org=1"
        ):
            await rig.client.create(WIDGET, widget("b"))
        reference = {"involvedObject": {"kind": "Pod", "name": "p", "namespace": HERE}}
        assert await tell(rig.client, plain("Event", "e", **reference), HERE) == ""

    with_server(script)


def test_what_grows_is_held_to_its_quota_and_what_shrinks_is_not() -> None:
    async def script(rig: Rig) -> None:
        await limit(rig, {"services.nodeports": "1"})
        assert await tell(rig.client, service("s", 2), HERE) == ""
        with pytest.raises(Forbidden, match=r"requested: services.nodeports=2, used: services.nodeports=0"):
            await rig.client.patch(SERVICE, "s", {"spec": {"type": "NodePort"}}, HERE)
        one = {"spec": {"type": "NodePort", "ports": [{"name": "p0", "port": 80}]}}
        await rig.client.patch(SERVICE, "s", one, HERE)
        await rig.client.patch(SERVICE, "s", {"metadata": {"labels": {"a": "b"}}}, HERE)
        await rig.client.patch(SERVICE, "s", {"spec": {"type": "ClusterIP"}}, HERE)

    with_server(script)


def test_a_claim_that_asks_for_more_is_held_to_the_quota() -> None:
    async def script(rig: Rig) -> None:
        await limit(rig, {"requests.storage": "3Gi"})
        await rig.client.create(PERSISTENT_VOLUME_CLAIM, here(claim("c", "2Gi", "s")))
        more = {"spec": {"resources": {"requests": {"storage": "4Gi"}}}}
        with pytest.raises(Forbidden, match=r"requested: requests.storage=2Gi, used: requests.storage=2Gi"):
            await rig.client.patch(PERSISTENT_VOLUME_CLAIM, "c", more, HERE)

    with_server(script)


def test_a_name_that_is_taken_is_told_of_and_a_dry_run_is_held_to_the_quota() -> None:
    async def script(rig: Rig) -> None:
        await limit(rig, {"pods": "1"})
        path = f"{POD.path(HERE)}?dryRun=All"
        assert [(await rig.send("POST", path, here(pod("a"))))[0] for _ in range(2)] == [201, 201]
        await rig.client.create(POD, here(pod("a")))
        with pytest.raises(AlreadyExists):
            await rig.client.create(POD, here(pod("a")))
        assert (await rig.send("POST", path, here(pod("b"))))[0] == 403

    with_server(script)


def test_of_a_batch_those_are_made_that_fit() -> None:
    async def script(rig: Rig) -> None:
        await limit(rig, {"requests.cpu": "3", "configmaps": "0"})
        results = await rig.client.create_many(POD, [here(pod(f"p{n}", {"cpu": "1"})) for n in range(5)])
        assert [isinstance(each, dict) for each in results] == [True, True, True, False, False]
        assert "used: requests.cpu=3, limited: requests.cpu=3" in str(results[4])
        (refused,) = await rig.client.create_many(CONFIG_MAP, [here(plain("ConfigMap", "c"))])
        assert isinstance(refused, Forbidden)

    with_server(script)


_WISHES = st.lists(
    st.one_of(
        st.tuples(st.just("one"), st.sampled_from([100, 700, 1500])),
        st.tuples(st.just("batch"), st.sampled_from([100, 700, 1500])),
        st.tuples(st.just("end"), st.integers(0, 30)),
        st.tuples(st.just("delete"), st.integers(0, 30)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(wishes=_WISHES, remembered=st.sampled_from([3, 1000]))
def test_pods_made_at_the_same_time_in_any_way_never_exceed_a_quota(
    wishes: list[tuple[str, int]], remembered: int
) -> None:
    """Also where the server forgets most of what has happened before anybody counts it."""

    async def script(rig: Rig) -> None:
        await limit(rig, {"requests.cpu": "4", "pods": "7"})
        watching = asyncio.create_task(watch(rig))
        async with asyncio.TaskGroup() as group:
            for number, (what, amount) in enumerate(wishes):
                group.create_task(carry_out(rig, number, what, amount))
        await asyncio.sleep(1)
        watching.cancel()
        await asyncio.wait([watching])
        assert watching.cancelled(), "it has seen too much"
        # What is left can be had: nothing was counted twice, and nothing stayed counted.
        cpu, pods = using(await rig.client.find_all(POD))
        assert (await tell(rig.client, pod("rest", {"cpu": f"{4000 - cpu}m"}), HERE) == "") == (pods < 7)

    with_server(script, keep_changes=remembered)


def test_many_clients_at_the_same_time_get_what_there_is_and_no_more(fresh: LiveServer) -> None:
    """Over HTTP, on a disk: most writes are decided while others are on their way to it."""

    async def ask() -> tuple[int, int]:
        clients = [fresh.client() for _ in range(8)]
        try:
            await tell(clients[0], quota({"pods": "100"}), HERE)
            async with asyncio.TaskGroup() as group:
                for number, client in enumerate(clients):
                    group.create_task(make_pods(client, number))
            pods = await clients[0].find_all(POD, HERE)
            return len(pods), len({each["metadata"]["uid"] for each in pods})
        finally:
            for client in clients:
                await client.close()

    assert uvloop.run(ask()) == (100, 100)


async def make_pods(client: Client, number: int) -> None:
    for turn in range(5):
        await client.create_many(POD, [here(pod(f"p{number}-{turn}-{n}")) for n in range(5)])
        await tell(client, pod(f"p{number}-{turn}"), HERE)


async def carry_out(rig: Rig, number: int, what: str, amount: int) -> None:
    try:
        if what == "one":
            await rig.client.create(POD, here(pod(f"p{number}", {"cpu": f"{amount}m"})))
        elif what == "batch":
            await rig.client.create_many(POD, [here(pod(f"p{number}-{n}", {"cpu": f"{amount}m"})) for n in range(3)])
        elif what == "end":
            await rig.client.patch(POD, f"p{amount}", {"status": {"phase": "Failed"}}, HERE, subresource="status")
        else:
            await rig.client.delete(POD, f"p{amount}", HERE)
    except ApiError:
        pass


async def watch(rig: Rig) -> None:
    """Every state there ever was is within the quota."""
    while True:
        cpu, pods = using([entry.decode() for entry in rig.store.entries("/pods")])
        assert cpu <= 4000
        assert pods <= 7
        await rig.store.changed("/pods", rig.store.revision)


def using(pods: list[Obj]) -> tuple[int, int]:
    living = [each for each in pods if each["status"]["phase"] not in ("Succeeded", "Failed")]
    amounts = [each["spec"]["containers"][0]["resources"]["requests"]["cpu"] for each in living]
    return sum(int(text[:-1]) if text.endswith("m") else 1000 * int(text) for text in amounts), len(living)
