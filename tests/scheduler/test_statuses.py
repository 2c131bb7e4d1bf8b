"""What is remembered of what is to be written, and for how long."""

from __future__ import annotations

from typing import cast

from hekla.client.recorder import Recorder
from hekla.client.rest import Client
from hekla.clock import LoopClock
from hekla.scheduler.config import default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.statuses import Statuses
from tests.integration.virtual_loop import run_virtually
from tests.scheduler.miniature import queue_object
from tests.scheduler.test_binder import Events
from tests.scheduler.test_cache import made, small_cache


def test_a_queue_that_is_gone_is_forgotten() -> None:
    async def main() -> None:
        cache = small_cache(pods=0)
        queue = made(queue_object({"name": "other"}), "o")
        statuses = Statuses(
            cast(Client, None), cache, cast(Recorder, Events()), clock=LoopClock(), period=1.0, in_flight=1, wake=bool
        )
        cache.put_queue(queue)
        statuses.take(run_cycle(cache.snapshot(), default_config()))
        assert set(statuses._held) == {"default", "other"}
        cache.remove_queue(queue)
        statuses.take(run_cycle(cache.snapshot(), default_config()))
        assert set(statuses._held) == {"default"}

    run_virtually(main())
