"""Plugins that take too long."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from hekla.controllers.job.patience import Patience, TakesTooLong
from tests.integration.stage import Stage, perform


def spins() -> None:
    while True:
        pass


def sleeps() -> None:
    time.sleep(3600)


def waits() -> None:
    threading.Event().wait()


def goes_on() -> None:
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(3600)
            continue
        time.sleep(3600)


@pytest.mark.parametrize("hangs", [spins, sleeps, waits, goes_on])
def test_b34_a_plugin_that_hangs_is_woken_up_and_left_alone_for_a_while(hangs: Callable[[], None]) -> None:
    stage = Stage()

    async def main() -> None:
        patience = Patience(stage.clock, 0.05)
        with (
            pytest.raises(TakesTooLong, match=r"^took longer than 0.05 s and is left alone for 1.5 s$"),
            patience.calling("a"),
        ):
            hangs()
        with pytest.raises(TakesTooLong, match=r"^took longer than 0.05 s"), patience.calling("a"):
            raise AssertionError("called again")
        with patience.calling("b"):
            pass
        await asyncio.sleep(1.6)
        with patience.calling("a"):
            time.sleep(0.01)
        # The time that is left is not somebody else's.
        time.sleep(0.06)

    perform(main)


def test_b34_loading_a_plugin_may_take_longer() -> None:
    stage = Stage()

    async def main() -> None:
        with Patience(stage.clock, 0.05).calling("a", loading=True):
            time.sleep(0.1)

    perform(main)


def test_b34_a_knock_while_a_call_begins_or_ends_is_not_the_callers() -> None:
    stage = Stage()

    async def main() -> None:
        patience = Patience(stage.clock)
        calling: Any = patience.calling("a")
        with calling:
            knock = signal.getsignal(signal.SIGALRM)
            assert callable(knock)
            # Where the alarm is about to be taken back, an exception would leave it set, for others to hear.
            knock(signal.SIGALRM, calling.gen.gi_frame)
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
        knock(signal.SIGALRM, sys._getframe())

    perform(main)
