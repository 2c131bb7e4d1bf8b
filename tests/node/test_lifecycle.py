from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hekla.api.kinds import Obj
from hekla.api.meta import timestamp
from hekla.node.lifecycle import back_off, grace_seconds, next_steps
from hekla.node.runtime import Attempt, ContainerRuntime, PodRuntime

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def a_pod(
    policy: str = "Never",
    *,
    init: tuple[str, ...] = (),
    sidecars: tuple[str, ...] = (),
    main: tuple[str, ...] = ("main",),
) -> Obj:
    first = [{"name": name, "restartPolicy": "Always"} for name in sidecars] + [{"name": name} for name in init]
    containers = [{"name": name} for name in main]
    return {
        "metadata": {"name": "p"},
        "spec": {"restartPolicy": policy, "initContainers": first, "containers": containers},
    }


def ran(name: str, *codes: int | None, ago: float = 0.0, lasted: float = 1.0) -> ContainerRuntime:
    """A container whose attempts ended with `codes`; None is running."""
    ended = timestamp(NOW - timedelta(seconds=ago))
    begun = timestamp(NOW - timedelta(seconds=ago + lasted))
    attempts = [
        Attempt(number, begun, None, None if code is None else {"code": code, "finishedAt": ended})
        for number, code in enumerate(codes)
    ]
    return ContainerRuntime(name, tuple(attempts))


def steps(pod: Obj, *containers: ContainerRuntime) -> Any:
    return next_steps(pod, PodRuntime({each.name: each for each in containers}), NOW)


def test_all_main_containers_start_together() -> None:
    assert steps(a_pod(main=("a", "b"))).start == ("a", "b")


def test_init_containers_go_one_after_the_other_before_the_main_ones() -> None:
    pod = a_pod(init=("i", "j"))
    assert steps(pod).start == ("i",)
    assert steps(pod, ran("i", None)).start == ()
    assert steps(pod, ran("i", 0)).start == ("j",)
    assert steps(pod, ran("i", 0), ran("j", 0)).start == ("main",)


def test_a_failed_init_container_ends_a_pod_that_never_restarts() -> None:
    assert steps(a_pod(init=("i",)), ran("i", 1)).finished
    assert steps(a_pod("OnFailure", init=("i",)), ran("i", 1)).start == ("i",)


def test_a_sidecar_is_started_first_and_does_not_keep_the_pod_alive() -> None:
    pod = a_pod(sidecars=("s",))
    assert steps(pod).start == ("s",)
    assert steps(pod, ran("s", None)).start == ("main",)
    assert steps(pod, ran("s", None), ran("main", 0)).finished


@pytest.mark.parametrize(
    ("policy", "code", "restarts"),
    [("Never", 0, False), ("Never", 1, False), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Always", 0, True)],
)
def test_the_restart_policy_decides_whether_it_runs_again(policy: str, code: int, restarts: bool) -> None:
    found = steps(a_pod(policy), ran("main", code))
    assert found.finished != restarts
    assert bool(found.start) == restarts


def test_the_back_off_grows_to_five_minutes_and_is_forgotten_after_a_good_run() -> None:
    assert [back_off(ran("main", *[1] * count)) for count in range(1, 9)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert back_off(ran("main", 1, 1, 1, lasted=700)) == 0


def test_a_crashed_container_waits_for_the_rest_of_its_back_off() -> None:
    found = steps(a_pod("Always"), ran("main", 1, 1, ago=4))
    assert found.start == ()
    assert found.wake_after == pytest.approx(6)


def test_a_clock_set_back_does_not_lengthen_the_back_off() -> None:
    assert steps(a_pod("Always"), ran("main", 1, 1, ago=-3600)).wake_after == 10


def test_a_clock_that_stays_behind_does_not_keep_a_container_that_has_rested_from_starting() -> None:
    pod, runtime = a_pod("Always"), PodRuntime({"main": ran("main", 1, 1, ago=-3600)})
    assert next_steps(pod, runtime, NOW, lambda _: 4.0).wake_after == 6
    assert next_steps(pod, runtime, NOW, lambda _: 10.0).start == ("main",)


def test_the_shorter_grace_of_a_second_delete_counts() -> None:
    pod = a_pod()
    assert grace_seconds(pod) == 30
    pod["spec"]["terminationGracePeriodSeconds"] = 5
    assert grace_seconds(pod) == 5
    pod["metadata"]["deletionGracePeriodSeconds"] = 0
    assert grace_seconds(pod) == 0
