"""The job controller is killed at each of its writes, before and after it takes effect, and the outcome is the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hekla.api.kinds import COMMAND, CONFIG_MAP, JOB, POD, POD_GROUP, QUEUE, SECRET, SERVICE
from hekla.api.meta import name_of, uid_of
from tests import make
from tests.controllers.bench import Bench, on_bench

Summary = dict[str, Any]
NOTHING: Summary = {"phase": "gone", "pods": {}, "PodGroup": 0, "Command": 0, "Service": 0, "ConfigMap": 0}
PLUGINS: dict[str, list[str]] = {"env": [], "svc": []}


async def summary(bench: Bench) -> Summary:
    await bench.settle()
    job = await bench.client.find(JOB, "demo", "default")
    status = (job or {}).get("status") or {"state": {"phase": "gone"}}
    kinds = (POD_GROUP, COMMAND, SERVICE, CONFIG_MAP)
    counters = ("retryCount", "pending", "running", "succeeded", "failed", "terminating", "taskStatusCount")
    return {
        "phase": status["state"]["phase"],
        **{counter: status.get(counter) for counter in counters},
        "pods": {name_of(pod): pod["status"]["phase"] for pod in await bench.client.find_all(POD)},
        **{kind.kind: len(await bench.client.find_all(kind, "default")) for kind in kinds},
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
    after = {name_of(pod): uid_of(pod) for pod in await bench.client.find_all(POD)}
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
    return {**result, "hosts": hosts, "keys": len(await bench.client.find_all(SECRET, "default"))}


async def restarts_a_pod_until_its_retries_are_used_up(bench: Bench) -> Summary:
    policies = [make.policy("PodFailed", "RestartPod"), make.policy("PodEvicted", "TerminateJob")]
    await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies, maxRetry=2, plugins=PLUGINS))
    for _ in range(2):
        await bench.until_running(2)
        await bench.end("demo-worker-1", "Failed", 3)
        await bench.settle()
    return await summary(bench)


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


async def is_deleted_at_once(bench: Bench) -> Summary:
    await bench.create(make.new_job("demo", make.task("worker", 3), plugins=PLUGINS))
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
    follows_a_chain_of_tasks: {"phase": "Completed", "succeeded": 3},
    is_removed_some_time_after_its_end: NOTHING,
    is_deleted_at_once: NOTHING,
    is_deleted_while_it_restarts: NOTHING,
    is_deleted_while_it_is_suspended: NOTHING,
    its_queue_is_closed_and_opened: {"phase": "Running", "running": 2, "states": ["Closing", "Open"], "Command": 0},
    uses_up_its_retries: {"phase": "Failed", "retryCount": 2, "pods": {"demo-worker-1": "Failed"}, "Service": 0},
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_outcome_is_the_same_wherever_the_controller_dies(script: Callable[[Bench], Awaitable[Summary]]) -> None:
    expected, writes = on_bench(script)
    assert {key: expected[key] for key in SCRIPTS[script]} == SCRIPTS[script]
    # Before a write the server is as it was after the one before it, so that the first is the only other moment.
    for number, before in [(1, True), *((number, False) for number in range(1, writes + 1))]:
        result, _ = on_bench(script, break_at=number, before=before)
        assert result == expected, f"killed {'before' if before else 'after'} write {number} of {writes}"


def test_a_pod_deleted_while_the_controller_is_away_is_evicted_when_it_returns() -> None:
    async def script(bench: Bench) -> Summary:
        policies = [make.policy("PodEvicted", "TerminateJob")]
        await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies))
        await bench.until_running(2)
        await bench.stop_controllers()
        await bench.client.delete(POD, "demo-worker-0", "default")
        await bench.settle()
        bench.start_controllers()
        await bench.until_phase("Terminated")
        return await summary(bench)

    assert on_bench(script)[0]["pods"] == {}


def test_a_pod_that_failed_while_the_controller_was_away_restarts_the_job() -> None:
    async def script(bench: Bench) -> Summary:
        policies = [make.policy("PodFailed", "RestartJob")]
        await bench.create(make.new_job("demo", make.task("worker", 1), policies=policies))
        await bench.until_running(1)
        await bench.stop_controllers()
        await bench.end("demo-worker-0", "Failed", 1)
        bench.start_controllers()
        await bench.until_running(1)
        return await summary(bench)

    result, _ = on_bench(script)
    assert (result["phase"], result["retryCount"]) == ("Running", 1)
