"""What Jobs go through while their controller is killed: each script ends in a summary of everything there is.

`test_crashes.py` kills the controllers at their writes, before and after each takes effect, and compares.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hekla.api.kinds import (
    COMMAND,
    CONFIG_MAP,
    JOB,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    QUEUE,
    SECRET,
    SERVICE,
    Obj,
)
from hekla.api.meta import annotations_of, name_of, uid_of
from hekla.client.informer import Update
from tests import make
from tests.controllers.bench import Bench

Summary = dict[str, Any]
NOTHING: Summary = {"phase": "gone", "pods": {}, "PodGroup": 0, "Command": 0, "Service": 0, "ConfigMap": 0}
PLUGINS: dict[str, list[str]] = {"env": [], "svc": []}
_TWO_PARTITIONS = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 2}
# Time for a pod to be bound, to run and to fail before anybody looks after its Job again.
_AWAY_SECONDS = 10.0
_ONE_GIGABYTE = {"requests": {"storage": "1Gi"}}


async def summary(bench: Bench) -> Summary:
    await bench.settle()
    status = bench.job("demo").get("status") or {"state": {"phase": "gone"}}
    kinds = (POD_GROUP, COMMAND, SERVICE, CONFIG_MAP)
    counters = ("retryCount", "pending", "running", "succeeded", "failed", "terminating", "taskStatusCount")
    return {
        "phase": status["state"]["phase"],
        **{counter: status.get(counter) for counter in counters},
        "pods": bench.pod_phases(),
        # The server has a Service of its own, `kubernetes`.
        **{kind.kind: sum(name_of(obj) != "kubernetes" for obj in bench.store.objects(kind)) for kind in kinds},
    }


async def completes(bench: Bench) -> Summary:
    await bench.create(make.new_job("demo", make.task("worker", 3), plugins=PLUGINS))
    for pod in await bench.until_running(3):
        await bench.end(name_of(pod))
    await bench.until_phase("Completed")
    return await summary(bench)


async def restarts_the_job_after_a_failure(bench: Bench) -> Summary:
    policies = [make.policy("PodFailed", "RestartJob"), make.policy("PodEvicted", "TerminateJob")]
    await bench.create(make.new_job("demo", make.task("worker", 3), policies=policies, plugins=PLUGINS))
    await bench.until_running(3)
    await bench.end("demo-worker-1", "Failed", 3)
    await bench.until_running(3)
    return await summary(bench)


async def restarts_a_task_after_a_failure(bench: Bench) -> Summary:
    restart = [make.policy("PodFailed", "RestartTask")]
    tasks = (make.task("a", 2, policies=restart), make.task("b", 1))
    await bench.create(make.new_job("demo", *tasks, policies=[make.policy("PodEvicted", "TerminateJob")]))
    before = {name_of(pod): uid_of(pod) for pod in await bench.until_running(3)}
    await bench.end("demo-a-0", "Failed", 3)
    await bench.until_running(3)
    result = await summary(bench)
    after = {name_of(pod): uid_of(pod) for pod in bench.pods()}
    return {**result, "untouched": [name for name in before if before[name] == after[name]]}


async def restarts_the_job_after_an_eviction(bench: Bench) -> Summary:
    policies = [make.policy("PodEvicted", "RestartJob"), make.policy("PodFailed", "TerminateJob")]
    await bench.create(make.new_job("demo", make.task("worker", 3), policies=policies))
    await bench.until_running(3)
    await bench.client.delete(POD, "demo-worker-2", "default")
    await bench.until_running(3)
    return await summary(bench)


async def aborts_after_a_failure(bench: Bench) -> Summary:
    policies = [make.policy("PodFailed", "AbortJob"), make.policy("PodEvicted", "TerminateJob")]
    await bench.create(make.new_job("demo", make.task("worker", 3), policies=policies, plugins=PLUGINS))
    await bench.until_running(3)
    await bench.end("demo-worker-0", "Failed", 3)
    await bench.until_phase("Aborted")
    return await summary(bench)


async def is_suspended_and_resumed(bench: Bench) -> Summary:
    job = await bench.create(make.new_job("demo", make.task("worker", 2), make.task("quick", 1), plugins=PLUGINS))
    await bench.until_running(3)
    await bench.end("demo-quick-0")
    await bench.until_running(2)
    await bench.command("AbortJob", job)
    await bench.until_phase("Aborted")
    await bench.command("ResumeJob", job)
    await bench.until_running(2)
    return await summary(bench)


async def completes_with_a_task(bench: Bench) -> Summary:
    main = make.task("main", 1, policies=[make.policy("TaskCompleted", "CompleteJob")])
    job = make.new_job("demo", main, make.task("helper", 2), policies=[make.policy("PodEvicted", "TerminateJob")])
    await bench.create(job)
    await bench.until_running(3)
    await bench.end("demo-main-0")
    await bench.until_phase("Completed")
    return await summary(bench)


async def scales_down(bench: Bench) -> Summary:
    job = make.new_job("demo", make.task("worker", 3), policies=[make.policy("PodEvicted", "TerminateJob")])
    await bench.create(job)
    await bench.until_running(3)
    await bench.scale("demo", 0, 1)
    await bench.until_running(1)
    return await summary(bench)


async def uses_up_its_retries(bench: Bench) -> Summary:
    policies = [make.policy("PodFailed", "RestartJob"), make.policy("PodEvicted", "TerminateJob")]
    await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies, maxRetry=2, plugins=PLUGINS))
    for _ in range(2):
        await bench.until_running(2)
        await bench.end("demo-worker-1", "Failed", 3)
        await bench.settle()
    return await summary(bench)


async def scales_up(bench: Bench) -> Summary:
    await bench.create(make.new_job("demo", make.task("worker", 1), plugins={"svc": [], "ssh": []}))
    await bench.until_running(1)
    await bench.scale("demo", 0, 3)
    await bench.until_running(3)
    result = await summary(bench)
    hosts = (await bench.client.get(CONFIG_MAP, "demo-svc", "default"))["data"]["VC_WORKER_NUM"]
    return {**result, "hosts": hosts, "keys": len(bench.store.objects(SECRET))}


async def restarts_a_pod_until_its_retries_are_used_up(bench: Bench) -> Summary:
    policies = [make.policy("PodFailed", "RestartPod"), make.policy("PodEvicted", "TerminateJob")]
    await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies, maxRetry=2, plugins=PLUGINS))
    for _ in range(2):
        await bench.until_running(2)
        await bench.end("demo-worker-1", "Failed", 3)
        await bench.settle()
    return await summary(bench)


async def every_attempt_of_the_job_fails(bench: Bench) -> Summary:
    return await _fails_at_every_attempt(bench, "RestartJob")


async def every_attempt_of_a_task_fails(bench: Bench) -> Summary:
    return await _fails_at_every_attempt(bench, "RestartTask")


async def every_attempt_of_a_pod_fails(bench: Bench) -> Summary:
    return await _fails_at_every_attempt(bench, "RestartPod")


async def every_attempt_of_a_partition_fails(bench: Bench) -> Summary:
    return await _fails_at_every_attempt(bench, "RestartPartition")


async def two_pods_fail_in_turn(bench: Bench) -> Summary:
    """The second has not been restarted before, so that only the first tells that there was a restart."""
    bench.away_seconds = _AWAY_SECONDS
    policies = [make.policy("PodFailed", "RestartPod"), make.policy("PodEvicted", "TerminateJob")]
    await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies, maxRetry=3))
    first = await _another_runs(bench, "demo-worker-0")
    await bench.end("demo-worker-0", "Failed", 3)
    await _another_runs(bench, "demo-worker-0", first)
    await bench.end("demo-worker-1", "Failed", 3)
    await bench.settle()
    return await summary(bench)


async def is_restarted_by_commands(bench: Bench) -> Summary:
    bench.away_seconds = _AWAY_SECONDS
    made = _pods_made(bench)
    job = await bench.create(make.new_job("demo", make.task("worker", 1), maxRetry=3))
    pod = ""
    for _ in range(3):
        pod = await _another_runs(bench, "demo-worker-0", pod)
        await bench.command("RestartJob", job)
    await bench.until_phase("Failed")
    return {**await summary(bench), "attempts": len(made)}


async def completes_at_the_second_attempt(bench: Bench) -> Summary:
    bench.away_seconds = _AWAY_SECONDS
    policies = [make.policy("PodFailed", "RestartJob"), make.policy("TaskCompleted", "CompleteJob")]
    made = _pods_made(bench)
    await bench.create(make.new_job("demo", make.task("worker", 1), make.task("helper", 1), policies=policies))
    first = await _another_runs(bench, "demo-worker-0")
    await bench.end("demo-worker-0", "Failed", 3)
    await _another_runs(bench, "demo-worker-0", first)
    await bench.end("demo-worker-0")
    await bench.until_phase("Completed")
    return {**await summary(bench), "attempts": sum(name == "demo-worker-0" for name, _ in made)}


async def follows_a_chain_of_tasks(bench: Bench) -> Summary:
    first, second = make.task("a", 1), make.task("b", 1, dependsOn={"name": ["a"]})
    third = make.task("c", 1, dependsOn={"name": ["b"]})
    await bench.create(make.new_job("demo", first, second, third, minAvailable=1))
    await bench.until_running(3)
    for task in ("a", "b", "c"):
        await bench.end(f"demo-{task}-0")
    await bench.until_phase("Completed")
    return await summary(bench)


async def is_removed_some_time_after_its_end(bench: Bench) -> Summary:
    await bench.create(make.new_job("demo", make.task("worker", 2), ttlSecondsAfterFinished=5, plugins=PLUGINS))
    for pod in await bench.until_running(2):
        await bench.end(name_of(pod))
    await bench.until_gone()
    return await summary(bench)


async def is_deleted_while_it_starts(bench: Bench) -> Summary:
    await bench.create(make.new_job("demo", make.task("worker", 3), plugins=PLUGINS))
    await bench.until(lambda: bench.pod_phases(), "the first pods are made")
    await bench.client.delete(JOB, "demo", "default")
    await bench.until_gone()
    return await summary(bench)


async def is_deleted_while_it_restarts(bench: Bench) -> Summary:
    policies = [make.policy("PodFailed", "RestartJob")]
    await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies, plugins=PLUGINS))
    await bench.until_running(2)
    await bench.end("demo-worker-0", "Failed", 1)
    await bench.client.delete(JOB, "demo", "default")
    await bench.until_gone()
    return await summary(bench)


async def is_deleted_while_it_is_suspended(bench: Bench) -> Summary:
    job = await bench.create(make.new_job("demo", make.task("worker", 2), plugins=PLUGINS))
    await bench.until_running(2)
    await bench.command("AbortJob", job)
    await bench.client.delete(JOB, "demo", "default")
    await bench.until_gone()
    return await summary(bench)


async def its_queue_is_closed_and_opened(bench: Bench) -> Summary:
    await bench.create(make.new_job("demo", make.task("worker", 2), plugins=PLUGINS))
    await bench.until_running(2)
    states = []
    for action in ("CloseQueue", "OpenQueue"):
        queue = await bench.client.get(QUEUE, "default")
        await bench.client.create(COMMAND, make.command(action, queue, "Queue"))
        await bench.settle()
        states.append((await bench.client.get(QUEUE, "default"))["status"]["state"])
    return {**await summary(bench), "states": states}


async def its_queues_parent_is_closed_and_opened(bench: Bench) -> Summary:
    for name, parent in (("parent", "root"), ("child", "parent")):
        queue = make.queue(name, "", parent=parent)
        await bench.client.create(QUEUE, {**queue, "metadata": {"name": name}})
    await bench.until(lambda: _state(bench, "child") == "Open", "the child is open")
    states = []
    for action, state in (("CloseQueue", "Closed"), ("OpenQueue", "Open")):
        parent_queue = await bench.client.get(QUEUE, "parent")
        await bench.client.create(COMMAND, make.command(action, parent_queue, "Queue"))
        await bench.until(lambda state=state: _state(bench, "child") == state, f"the child is {state}")
        await bench.settle()
        child = await bench.client.get(QUEUE, "child")
        states.append((child["status"]["state"], annotations_of(child).get("volcano.sh/closed-by-parent")))
    return {**await summary(bench), "states": states}


async def a_partition_is_restarted(bench: Bench) -> Summary:
    worker = make.task(
        "worker", 4, policies=[make.policy("PodFailed", "RestartPartition")], partitionPolicy=_TWO_PARTITIONS
    )
    await bench.create(make.new_job("demo", worker, plugins=PLUGINS))
    before = {name_of(pod): uid_of(pod) for pod in await bench.until_running(4)}
    await bench.end("demo-worker-3", "Failed", 3)
    await bench.until_running(4)
    result = await summary(bench)
    after = {name_of(pod): uid_of(pod) for pod in bench.pods()}
    return {**result, "untouched": [name for name in before if before[name] == after[name]]}


async def keeps_its_claim(bench: Bench) -> Summary:
    volume = {"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": _ONE_GIGABYTE}}
    job = make.new_job(
        "demo", make.task("worker", 2), volumes=[volume], policies=[make.policy("PodFailed", "RestartJob")]
    )
    await bench.create(job)
    await bench.until_running(2)
    await bench.end("demo-worker-0", "Failed", 3)
    await bench.until_running(2)
    return {**await summary(bench), "claims": len(bench.store.objects(PERSISTENT_VOLUME_CLAIM))}


async def has_the_objects_of_all_plugins(bench: Bench) -> Summary:
    tasks = (make.task("mpimaster", 1), make.task("mpiworker", 2))
    plugins = {"mpi": ["--master=mpimaster", "--worker=mpiworker"], "ssh": [], "svc": [], "env": []}
    await bench.create(make.new_job("demo", *tasks, plugins=plugins))
    await bench.until_running(3)
    running = await summary(bench)
    policies = len(bench.store.objects(NETWORK_POLICY))
    keys = len(bench.store.objects(SECRET))
    for pod in bench.pods():
        await bench.end(name_of(pod))
    await bench.until_phase("Completed")
    return {**await summary(bench), "while running": running, "policies": policies, "keys": keys}


async def is_scaled_while_it_is_suspended(bench: Bench) -> Summary:
    job = await bench.create(make.new_job("demo", make.task("worker", 2), plugins=PLUGINS))
    await bench.until_running(2)
    await bench.command("AbortJob", job)
    await bench.until_phase("Aborted")
    await bench.scale("demo", 0, 3)
    await bench.command("ResumeJob", job)
    await bench.until_running(3)
    return await summary(bench)


async def is_deleted_while_it_scales(bench: Bench) -> Summary:
    await bench.create(make.new_job("demo", make.task("worker", 1), plugins=PLUGINS))
    await bench.until_running(1)
    await bench.scale("demo", 0, 4)
    await bench.client.delete(JOB, "demo", "default")
    await bench.until_gone()
    return await summary(bench)


async def is_deleted_while_its_chain_goes_on(bench: Bench) -> Summary:
    tasks = (make.task("a", 1), make.task("b", 1, dependsOn={"name": ["a"]}))
    await bench.create(make.new_job("demo", *tasks, minAvailable=1, plugins=PLUGINS))
    await bench.until(lambda: "demo-a-0" in bench.pod_phases(), "the first task has its pod")
    await bench.client.delete(JOB, "demo", "default")
    await bench.until_gone()
    return await summary(bench)


async def is_deleted_and_made_again(bench: Bench) -> Summary:
    old = await bench.create(make.new_job("demo", make.task("worker", 2), plugins=PLUGINS))
    await bench.until_running(2)
    await bench.client.delete(JOB, "demo", "default", propagation="Background")
    await bench.create(make.new_job("demo", make.task("worker", 3), plugins=PLUGINS))
    await bench.until_running(3)
    mine = {owner["uid"] for pod in bench.pods() for owner in pod["metadata"]["ownerReferences"]}
    return {**await summary(bench), "owners": len(mine), "of the old": uid_of(old) in mine}


async def is_terminated(bench: Bench) -> Summary:
    job = await bench.create(make.new_job("demo", make.task("worker", 3), plugins=PLUGINS))
    await bench.until_running(3)
    await bench.command("TerminateJob", job)
    await bench.until_phase("Terminated")
    return await summary(bench)


async def restarts_a_task_in_vain_when_its_gang_is_lost(bench: Bench) -> Summary:
    return await _loses_its_gang(bench, make.policy("Unknown", "RestartTask"))


async def restarts_some_time_after_its_gang_is_lost(bench: Bench) -> Summary:
    return await _loses_its_gang(bench, make.policy("Unknown", "RestartJob", timeout="30s"))


async def restarts_a_task_some_time_after_it_fails(bench: Bench) -> Summary:
    frail = make.task("frail", 2, maxRetry=2, policies=[make.policy("TaskFailed", "RestartTask", timeout="5s")])
    await bench.create(make.new_job("demo", frail, make.task("firm", 1), plugins=PLUGINS))
    await bench.until_running(3)
    status = {"phase": "Running", "containerStatuses": [{**make.container_status("Running"), "restartCount": 2}]}
    await bench.client.patch(POD, "demo-frail-0", {"status": status}, "default", subresource="status")
    await bench.settle()
    await bench.until_running(3)
    return await summary(bench)


async def _fails_at_every_attempt(bench: Bench, action: str) -> Summary:
    """One pod fails whenever it runs, whether anybody controls its Job by then or not."""
    bench.away_seconds = _AWAY_SECONDS
    made = _pods_made(bench)
    bench.watch(POD, lambda update: _fail(bench, update))
    worker = make.task("worker", 4, policies=[make.policy("PodFailed", action)], partitionPolicy=_TWO_PARTITIONS)
    await bench.create(make.new_job("demo", worker, policies=[make.policy("PodEvicted", "TerminateJob")], maxRetry=3))
    await bench.until_phase("Failed")
    return {**await summary(bench), "attempts": sum(name == "demo-worker-1" for name, _ in made)}


def _fail(bench: Bench, update: Update) -> None:
    pod = update.new
    if pod is not None and name_of(pod) == "demo-worker-1" and pod["status"].get("phase") == "Running":
        bench.start(bench.end("demo-worker-1", "Failed", 3))


def _pods_made(bench: Bench) -> set[tuple[str, str]]:
    """The name and the uid of every pod there has been, from now on."""
    made: set[tuple[str, str]] = set()
    bench.store.observers.append(lambda _: made.update((name_of(pod), uid_of(pod)) for pod in bench.pods()))
    return made


async def _another_runs(bench: Bench, name: str, before: str = "") -> str:
    """Wait until a pod of this name runs that is not the one before; its uid."""

    def found() -> str:
        pods = [pod for pod in bench.pods() if name_of(pod) == name and uid_of(pod) != before]
        return next((uid_of(pod) for pod in pods if pod["status"].get("phase") == "Running"), "")

    return await bench.until(found, f"another {name} runs")


async def _loses_its_gang(bench: Bench, policy: Obj) -> Summary:
    await bench.create(make.new_job("demo", make.task("worker", 2), policies=[policy], plugins=PLUGINS))
    await bench.until_running(2)
    (group,) = bench.store.objects(POD_GROUP)
    await bench.client.patch(POD_GROUP, name_of(group), {"status": {"phase": "Unknown"}}, "default")
    for _ in range(3):
        await bench.settle()
    return await summary(bench)


def _state(bench: Bench, queue: str) -> str:
    found = bench.store.object(QUEUE, queue) or {}
    return str((found.get("status") or {}).get("state") or "")


SCRIPTS: dict[Callable[[Bench], Awaitable[Summary]], Summary] = {
    completes: {"phase": "Completed", "succeeded": 3, "PodGroup": 0, "Service": 0},
    restarts_the_job_after_a_failure: {"phase": "Running", "retryCount": 1, "running": 3, "Service": 1},
    restarts_a_task_after_a_failure: {"phase": "Running", "retryCount": 1, "running": 3, "untouched": ["demo-b-0"]},
    restarts_the_job_after_an_eviction: {"phase": "Running", "retryCount": 1, "running": 3},
    aborts_after_a_failure: {"phase": "Aborted", "retryCount": None, "failed": 1, "pods": {"demo-worker-0": "Failed"}},
    is_suspended_and_resumed: {"phase": "Running", "retryCount": 1, "succeeded": 1, "running": 2, "Command": 0},
    completes_with_a_task: {"phase": "Completed", "succeeded": 1, "pods": {"demo-main-0": "Succeeded"}},
    scales_down: {"phase": "Running", "running": 1, "pods": {"demo-worker-0": "Running"}},
    scales_up: {"phase": "Running", "running": 3, "hosts": "3", "keys": 1},
    restarts_a_pod_until_its_retries_are_used_up: {"phase": "Failed", "retryCount": 2, "pods": {}, "Service": 0},
    every_attempt_of_the_job_fails: {"phase": "Failed", "retryCount": 3, "attempts": 3},
    every_attempt_of_a_task_fails: {"phase": "Failed", "retryCount": 3, "attempts": 3},
    every_attempt_of_a_pod_fails: {"phase": "Failed", "retryCount": 3, "attempts": 3},
    every_attempt_of_a_partition_fails: {"phase": "Failed", "retryCount": 3, "attempts": 3},
    two_pods_fail_in_turn: {"phase": "Running", "retryCount": 2, "running": 2},
    is_restarted_by_commands: {"phase": "Failed", "retryCount": 3, "attempts": 3},
    completes_at_the_second_attempt: {"phase": "Completed", "retryCount": 1, "attempts": 2},
    follows_a_chain_of_tasks: {"phase": "Completed", "succeeded": 3},
    is_removed_some_time_after_its_end: NOTHING,
    is_deleted_while_it_starts: NOTHING,
    is_deleted_while_it_restarts: NOTHING,
    is_deleted_while_it_is_suspended: NOTHING,
    its_queue_is_closed_and_opened: {"phase": "Running", "running": 2, "states": ["Closing", "Open"], "Command": 0},
    uses_up_its_retries: {"phase": "Failed", "retryCount": 2, "pods": {"demo-worker-1": "Failed"}, "Service": 0},
    its_queues_parent_is_closed_and_opened: {"phase": "gone", "states": [("Closed", "true"), ("Open", "false")]},
    a_partition_is_restarted: {"phase": "Running", "retryCount": 1, "untouched": ["demo-worker-0", "demo-worker-1"]},
    keeps_its_claim: {"phase": "Running", "retryCount": 1, "running": 2, "claims": 1},
    has_the_objects_of_all_plugins: {"phase": "Completed", "Service": 0, "ConfigMap": 0, "policies": 1, "keys": 1},
    is_scaled_while_it_is_suspended: {"phase": "Running", "retryCount": 1, "running": 3, "PodGroup": 1},
    is_deleted_while_it_scales: NOTHING,
    is_deleted_while_its_chain_goes_on: NOTHING,
    is_deleted_and_made_again: {"phase": "Running", "retryCount": None, "owners": 1, "of the old": False},
    restarts_a_task_in_vain_when_its_gang_is_lost: {"phase": "Running", "retryCount": 1, "running": 2},
    restarts_some_time_after_its_gang_is_lost: {"phase": "Running", "retryCount": 1, "running": 2},
    restarts_a_task_some_time_after_it_fails: {"phase": "Running", "retryCount": 1, "running": 3},
    is_terminated: {"phase": "Terminated", "retryCount": None, "pods": {}, "PodGroup": 0, "Service": 0, "Command": 0},
}
