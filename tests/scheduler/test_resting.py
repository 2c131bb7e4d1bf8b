"""What failed rests, longer each time, and what failed together comes back together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hekla.scheduler.cache import Cache
from hekla.scheduler.resting import Resting
from hekla.scheduler.rows import PodStatus
from tests import make
from tests.integration.virtual_loop import run_virtually


def moments(script: Callable[[Resting], None], seconds: float) -> list[float]:
    """When the scheduler was woken."""

    async def main() -> list[float]:
        loop, woken, cache = asyncio.get_running_loop(), list[float](), Cache()
        for name in "abc":
            cache.put_pod(make.pod(name, spec={"schedulerName": "volcano"}, uid=name))
        script(Resting(cache, period=1.0, wake=lambda: woken.append(loop.time())))
        await asyncio.sleep(seconds)
        return woken

    return run_virtually(main())


def test_a_gang_rests_as_long_as_its_unluckiest_pod_and_wakes_once() -> None:
    def script(resting: Resting) -> None:
        resting.begin(["a"])
        resting.end("a")
        resting.begin(["a", "b", "c"])

    assert moments(script, 100) == [0.0, 2.0]


def test_rests_grow_to_half_a_minute() -> None:
    def script(resting: Resting) -> None:
        for _ in range(9):
            resting.begin(["a"])
            resting.end("a")
        resting.begin(["a"])

    assert moments(script, 100)[-1] == 30.0


def test_a_pod_that_rests_already_rests_anew_and_the_others_as_before() -> None:
    def script(resting: Resting) -> None:
        resting.begin(["a", "b"])
        resting.begin(["a"])

    assert moments(script, 100) == [1.0, 2.0]


def test_the_end_of_a_rest_does_not_undo_an_eviction_begun_since() -> None:
    async def main() -> None:
        cache = Cache()
        cache.put_pod(make.pod("a", spec={"schedulerName": "volcano", "nodeName": "n1"}, uid="a"))
        resting = Resting(cache, period=1.0, wake=lambda: None)
        resting.begin(["a"])
        pod = cache.pod("a")
        assert pod is not None
        assert cache.assume_evicted(pod)
        resting.leave("a")
        await asyncio.sleep(10)
        pod = cache.pod("a")
        assert pod is not None
        assert pod.status is PodStatus.RELEASING

    run_virtually(main())


def test_failures_of_pods_that_are_gone_are_forgotten() -> None:
    async def main() -> None:
        cache = Cache()
        resting = Resting(cache, period=1.0, wake=lambda: None)
        for number in range(2500):
            cache.put_pod(make.pod(str(number), spec={"schedulerName": "volcano"}, uid=str(number)))
            resting.begin([str(number)])
            await asyncio.sleep(5)
            cache.remove_pod(str(number))
        assert 1 <= len(resting._failures) <= 1001

    run_virtually(main())


def test_success_is_forgotten_failure() -> None:
    def script(resting: Resting) -> None:
        resting.begin(["a"])
        resting.succeeded("a")
        resting.begin(["a"])

    assert moments(script, 100)[-1] == 1.0
