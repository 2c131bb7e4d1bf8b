"""Each invariant is shown a world in which it is broken, and says so."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hekla.api.kinds import COMMAND, JOB, NODE, POD, POD_GROUP, QUEUE, SECRET, SERVICE, Obj
from hekla.api.meta import owner_reference, uid_of
from hekla.apiserver.store.store import Change, ChangeType, Entry, Key
from tests import make
from tests.integration import invariants
from tests.integration.fencing import unfenced
from tests.integration.history import SOMEBODYS, History
from tests.integration.invariants import ALWAYS, AT_REST
from tests.integration.stage import Commit, Stage, actor, perform, storage_of

Script = Callable[[Stage], Awaitable[None]]


async def a_job(stage: Stage, name: str = "demo", phase: str = "", **status: Any) -> Obj:
    made = await stage.client.create(JOB, make.new_job(name, make.task("main", 2)))
    return await set_job(stage, name, phase, **status) if phase else made


async def set_job(stage: Stage, name: str, phase: str, **status: Any) -> Obj:
    job = await stage.client.get(JOB, name, "default")
    return await stage.client.update_status(JOB, {**job, "status": {"state": {"phase": phase}, **status}})


async def a_pod(
    stage: Stage, name: str, owner: Obj | None = None, group: str = "", cpu: str = "1", task: str = ""
) -> Obj:
    container = make.container(resources=make.resources(cpu))
    given = {"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": task}
    annotations = {key: value for key, value in given.items() if value}
    metadata: Obj = {"name": name, "namespace": "default", "annotations": annotations}
    if owner is not None:
        metadata["ownerReferences"] = [owner_reference(owner, JOB)]
    return await stage.client.create(POD, {"metadata": metadata, "spec": {"containers": [container]}})


async def a_bound_pod(stage: Stage, name: str, owner: Obj | None = None, group: str = "", cpu: str = "1") -> Obj:
    pod = await a_pod(stage, name, owner, group, cpu)
    await stage.client.bind("default", name, "node", uid=uid_of(pod))
    return pod


async def a_group(stage: Stage, name: str, members: int, **status: Any) -> Obj:
    group = make.pod_group(name, members)
    return await stage.client.create(
        POD_GROUP, {**group, "metadata": {"name": name, "namespace": "default"}, "status": status}
    )


async def set_pod(stage: Stage, name: str, **status: Any) -> None:
    await stage.client.patch(POD, name, {"status": status}, "default", subresource="status")


async def two_large_pods_on_one_node(stage: Stage) -> None:
    await a_bound_pod(stage, "a", cpu="3")
    await a_bound_pod(stage, "b", cpu="3")


async def half_a_gang_is_bound(stage: Stage) -> None:
    await a_group(stage, "gang", 2)
    await a_bound_pod(stage, "a", group="gang")


async def a_retry_is_counted_twice(stage: Stage) -> None:
    await a_job(stage, phase="Pending")
    await set_job(stage, "demo", "Restarting", retryCount=2)


async def a_retry_is_counted_without_a_restart(stage: Stage) -> None:
    await a_job(stage, phase="Pending")
    await set_job(stage, "demo", "Running", retryCount=1)


async def retries_go_back(stage: Stage) -> None:
    await a_job(stage, phase="Restarting", retryCount=1)
    await set_job(stage, "demo", "Pending", retryCount=0)


async def a_completed_job_runs_again(stage: Stage) -> None:
    await a_job(stage, phase="Pending")
    await set_job(stage, "demo", "Running")
    await set_job(stage, "demo", "Completed")
    await set_job(stage, "demo", "Pending")


async def a_job_counts_a_strangers_pods(stage: Stage) -> None:
    await a_pod(stage, "strange")
    await a_job(stage, phase="Pending", pending=1)


async def a_pod_changes_its_owner(stage: Stage) -> None:
    one, other = await a_job(stage, "one"), await a_job(stage, "other")
    pod = await a_pod(stage, "a", one)
    pod["metadata"]["ownerReferences"] = [owner_reference(other, JOB)]
    await stage.client.update(POD, pod)


async def a_victim_for_nobody(stage: Stage) -> None:
    await a_group(stage, "gang", 1)
    await a_bound_pod(stage, "a", group="gang")
    condition = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": make.CREATED}
    await set_pod(stage, "a", conditions=[condition])


async def an_orphan(stage: Stage) -> None:
    await a_pod(stage, "a", await a_job(stage))
    await stage.client.delete(JOB, "demo", "default", propagation="Background")


async def a_job_without_a_group(stage: Stage) -> None:
    await a_job(stage, phase="Pending")


async def a_job_without_its_pods(stage: Stage) -> None:
    job = await a_job(stage, phase="Pending")
    group = make.pod_group("demo", 2)
    metadata = {"name": "demo", "namespace": "default", "ownerReferences": [owner_reference(job, JOB)]}
    await stage.client.create(POD_GROUP, {**group, "metadata": metadata, "status": {"phase": "Inqueue"}})


async def a_failed_job_with_a_running_pod(stage: Stage) -> None:
    job = await a_job(stage, phase="Pending")
    await a_pod(stage, "a", job)
    await set_job(stage, "demo", "Restarting", retryCount=1)
    await set_job(stage, "demo", "Failed", retryCount=1)


async def a_completed_group_with_a_running_pod(stage: Stage) -> None:
    await a_group(stage, "gang", 1, phase="Completed")
    await a_bound_pod(stage, "a", group="gang")


async def a_pod_too_many(stage: Stage) -> None:
    job = await a_job(stage)
    for name in ("a", "b", "c"):
        await a_pod(stage, name, job)


async def a_forgotten_command(stage: Stage) -> None:
    await stage.client.create(COMMAND, make.command("AbortJob", await a_job(stage)))


async def a_queue_that_tells_stories(stage: Stage) -> None:
    status = {"allocated": {"cpu": "3"}}
    await stage.client.patch(QUEUE, "default", {"status": status}, subresource="status")


async def a_queue_that_forgets_a_pod(stage: Stage) -> None:
    await a_group(stage, "gang", 1)
    await a_bound_pod(stage, "a", group="gang")


async def a_closed_queue_with_a_group(stage: Stage) -> None:
    await a_group(stage, "gang", 1)
    await stage.client.patch(QUEUE, "default", {"status": {"state": "Closed"}}, subresource="status")


async def a_secret_of_somebody_is_overwritten(stage: Stage) -> None:
    metadata = {"name": "mine", "namespace": "default", "labels": SOMEBODYS}
    await stage.client.create(SECRET, {"metadata": metadata})
    actor.set("controllers")
    await stage.client.patch(SECRET, "mine", {"data": {"key": "bm8="}}, "default")


async def a_task_comes_before_the_one_it_waits_for(stage: Stage) -> None:
    tasks = make.task("first", 1, minAvailable=1), make.task("second", 1, dependsOn={"name": ["first"]})
    job = await stage.client.create(JOB, make.new_job("demo", *tasks))
    await a_pod(stage, "demo-second-0", job, task="second")


async def an_ended_job_with_a_service(stage: Stage) -> None:
    job = await a_job(stage, phase="Terminating")
    await set_job(stage, "demo", "Terminated")
    metadata = {"name": "demo", "namespace": "default", "ownerReferences": [owner_reference(job, JOB)]}
    await stage.client.create(SERVICE, {"metadata": metadata, "spec": {"clusterIP": "None"}})


async def a_gang_of_another_size(stage: Stage) -> None:
    job = await a_job(stage, phase="Pending")
    metadata = {"name": "demo", "namespace": "default", "ownerReferences": [owner_reference(job, JOB)]}
    await stage.client.create(POD_GROUP, {**make.pod_group("demo", 7), "metadata": metadata})


PLANTED: dict[Script, Any] = {
    two_large_pods_on_one_node: invariants.no_node_holds_more_than_it_has,
    half_a_gang_is_bound: invariants.a_gang_is_bound_together,
    a_retry_is_counted_twice: invariants.retries_grow_by_one_with_each_restart,
    a_retry_is_counted_without_a_restart: invariants.retries_grow_by_one_with_each_restart,
    retries_go_back: invariants.retries_grow_by_one_with_each_restart,
    a_completed_job_runs_again: invariants.phases_follow_the_graph,
    a_job_counts_a_strangers_pods: invariants.a_job_counts_only_its_own_pods,
    a_pod_changes_its_owner: invariants.a_pods_owner_is_the_job_it_names,
    a_victim_for_nobody: invariants.a_victim_has_somebody_to_make_room_for,
    an_orphan: invariants.nothing_outlives_its_owner,
    a_job_without_a_group: invariants.live_jobs_have_their_group_and_pods,
    a_job_without_its_pods: invariants.live_jobs_have_their_group_and_pods,
    a_failed_job_with_a_running_pod: invariants.an_ended_job_runs_nothing,
    a_completed_group_with_a_running_pod: invariants.a_completed_group_has_no_pod_left,
    a_pod_too_many: invariants.no_job_has_more_pods_than_it_asks_for,
    a_forgotten_command: invariants.every_command_was_carried_out,
    a_secret_of_somebody_is_overwritten: invariants.what_is_somebodys_is_left_alone,
    a_task_comes_before_the_one_it_waits_for: invariants.a_task_waits_for_those_it_depends_on,
    an_ended_job_with_a_service: invariants.an_ended_job_leaves_only_pods,
    a_gang_of_another_size: invariants.a_gang_is_what_its_job_says,
    a_queue_that_tells_stories: invariants.queues_tell_what_they_hold,
    a_queue_that_forgets_a_pod: invariants.queues_tell_what_they_hold,
    a_closed_queue_with_a_group: invariants.a_closed_queue_is_empty,
}
PLANTED_TOO: dict[Script, Any] = {
    half_a_gang_is_bound: invariants.no_gang_is_half_there,
    a_pod_too_many: invariants.counts_equal_reality,
}


def complaints(script: Script) -> dict[str, list[str]]:
    """What each invariant has to say to a script."""
    stage, history, said = Stage(), History(), {holds.__name__: [] for holds in (*ALWAYS, *AT_REST)}

    def judge(commit: Commit) -> None:
        moment = history.take(commit)
        for holds in ALWAYS:
            said[holds.__name__] += holds(history, moment)

    async def main() -> None:
        await stage.open_server()
        stage.store.observers.append(judge)
        await stage.client.create(NODE, {"metadata": {"name": "node"}})
        await stage.client.patch(NODE, "node", {"status": make.node("node")["status"]}, subresource="status")
        queue = make.queue("default")
        await stage.client.create(QUEUE, {**queue, "metadata": {"name": "default"}})
        await stage.client.patch(QUEUE, "default", {"status": {"state": "Open"}}, subresource="status")
        await script(stage)
        for holds in AT_REST:
            said[holds.__name__] += holds(history)

    perform(main)
    return said


@pytest.mark.parametrize(("script", "holds"), [*PLANTED.items(), *PLANTED_TOO.items()])
def test_a_planted_violation_is_found(script: Script, holds: Any) -> None:
    assert complaints(script)[holds.__name__]


def test_an_untroubled_world_breaks_nothing() -> None:
    async def script(stage: Stage) -> None:
        await a_pod(stage, "a", cpu="1")

    assert not any(complaints(script).values())


def test_what_no_server_would_take_is_judged_too() -> None:
    """Bound twice, and for an owner long gone: our own server refuses the one and nobody is that late."""
    history, key = History(), Key(storage_of(POD), "default", "a")
    owners = [{"kind": "Job", "name": "demo", "uid": "gone", "controller": True}]
    pods = [make.pod("a", spec={"nodeName": node}, ownerReferences=owners) for node in ("one", "two")]
    entries = [Entry(key, number, json.dumps(pod).encode()) for number, pod in enumerate(pods, 1)]
    history.gone["gone"] = -1000.0
    first = history.take(Commit(0.0, "", (Change(ChangeType.ADDED, entries[0], None),)))
    assert list(invariants.nothing_is_made_for_an_owner_long_gone(history, first))
    second = history.take(Commit(1.0, "", (Change(ChangeType.MODIFIED, entries[1], entries[0]),)))
    assert list(invariants.a_pod_is_bound_once(history, second))
    gap = history.take(
        Commit(2.0, "", tuple(Change(ChangeType.MODIFIED, Entry(key, n, entries[1].value), None) for n in (5, 7)))
    )
    assert list(invariants.revisions_grow_by_one(history, gap))


def test_every_invariant_has_its_planted_violation() -> None:
    shown = {holds.__name__ for holds in (*PLANTED.values(), *PLANTED_TOO.values())}
    by_hand = {"a_pod_is_bound_once", "nothing_is_made_for_an_owner_long_gone", "revisions_grow_by_one"}
    assert shown | by_hand == {holds.__name__ for holds in (*ALWAYS, *AT_REST)}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/api/v1/namespaces/default/pods/a", {}),
        ("PATCH", "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/a/status", {"status": {}}),
        ("PUT", "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/a", {"metadata": {"name": "a"}}),
        ("POST", "/api/v1/namespaces/default/pods/a/binding", {"metadata": {"name": "a"}}),
        ("POST", "/apis/hekla.dev/v1/bindingbatches", {"items": [{"metadata": {"name": "a"}}]}),
    ],
)
def test_a_write_that_does_not_say_which_object_it_means_is_found(method: str, path: str, body: Obj) -> None:
    assert unfenced(method, path, json.dumps(body).encode())
    fences = {"preconditions": {"uid": "u"}, "metadata": {"uid": "u"}, "items": [{"metadata": {"uid": "u"}}]}
    assert not unfenced(method, path, json.dumps({**body, **fences}).encode())
