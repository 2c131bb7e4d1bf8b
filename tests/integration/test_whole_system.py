"""The whole system, simulated: what a job goes through, with kills at every place, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hekla.api.kinds import CONFIG_MAP, JOB, POD, POD_GROUP, SERVICE, Obj
from hekla.api.meta import annotations_of, name_of
from hekla.api.reasons import MESSAGE_ANNOTATION
from hekla.apiserver.store.store import ChangeType
from tests.integration.world import World, in_world


def job(name: str, replicas: int = 3, *, seconds: float = 10, exit_code: int = 0, cpu: str = "1", **spec: Any) -> Obj:
    annotations = {"hekla.dev/simulated-seconds": str(seconds), "hekla.dev/simulated-exit-code": str(exit_code)}
    container = {"name": "main", "image": "any", "command": ["x"], "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "minAvailable": replicas,
            "plugins": {"env": [], "svc": []},
            "tasks": [{"name": "main", "replicas": replicas, "template": template}],
            **spec,
        },
    }


async def run_to_completion(world: World) -> list[str]:
    await world.client.create(JOB, job("steady"))
    finished = await world.until_phase("Completed", "steady")
    return [condition["status"] for condition in finished["status"]["conditions"]]


def test_a_job_goes_through_its_phases() -> None:
    phases, _ = in_world(run_to_completion)
    assert phases == ["Pending", "Running", "Completed"]


def test_the_same_seed_gives_the_same_history() -> None:
    _, first = in_world(run_to_completion, seed=7)
    _, second = in_world(run_to_completion, seed=7)
    assert first.trace_hash() == second.trace_hash()
    assert first.commits > 20


def test_a_gang_that_does_not_fit_starts_no_pod_until_there_is_room() -> None:
    async def script(world: World) -> None:
        await world.client.create(JOB, job("first", 1, seconds=60))
        await world.until_phase("Running", "first")
        await world.client.create(JOB, job("second", 4, seconds=5))

        def told() -> bool:
            groups = [group for group in world.store.objects(POD_GROUP) if name_of(group).startswith("second-")]
            return any("cpu" in annotations_of(group).get(MESSAGE_ANNOTATION, "") for group in groups)

        await world.until(told, "the group says what is missing")
        assert not [pod for pod in world.pods() if pod["spec"].get("nodeName") and "second" in pod["metadata"]["name"]]
        await world.until_phase("Completed", "second")

    in_world(script)


def test_a_failed_pod_restarts_the_job_until_its_retries_are_used_up() -> None:
    async def script(world: World) -> Obj:
        policies = [{"event": "PodFailed", "action": "RestartJob"}]
        await world.client.create(JOB, job("unlucky", seconds=1, exit_code=3, maxRetry=3, policies=policies))
        return await world.until_phase("Failed", "unlucky")

    finished, _ = in_world(script)
    assert finished["status"]["retryCount"] == 3


def test_deleting_a_job_removes_everything_it_made() -> None:
    async def script(world: World) -> None:
        await world.client.create(JOB, job("gone", seconds=600))
        await world.until_phase("Running", "gone")
        await world.client.delete(JOB, "gone", "default")

        def left() -> list[Obj]:
            kinds = (JOB, CONFIG_MAP, SERVICE, POD, POD_GROUP)
            return [obj for kind in kinds for obj in world.store.objects(kind) if "gone" in obj["metadata"]["name"]]

        await world.until(lambda: not left(), "all is gone")

    in_world(script)


@pytest.mark.parametrize("component", ["controllers", "scheduler", "nodes", "builtins"])
@pytest.mark.parametrize("moment", [0.0, 0.02, 0.1, 0.5, 5.0, 10.2])
def test_a_component_killed_at_any_moment_changes_nothing_of_the_outcome(component: str, moment: float) -> None:
    async def script(world: World) -> Obj:
        await world.client.create(JOB, job("steady"))
        await asyncio.sleep(moment)
        await world.kill(component)
        await asyncio.sleep(1)
        world.start(component)
        return await world.until_phase("Completed", "steady")

    finished, world = in_world(script, seed=int(moment * 100))
    assert finished["status"].get("retryCount", 0) == 0
    created = [
        change for change in world.store.changes("/pods", world.store.compacted) if change.type is ChangeType.ADDED
    ]
    assert len(created) == 3
