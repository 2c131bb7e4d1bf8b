"""Work on an event loop and a thread of its own, for what must go on while the caller's loop is busy with something
long."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

Main = Callable[[], Coroutine[Any, Any, None]]
_Begun = Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]]


async def run_apart(main: Main, name: str) -> None:
    """Until `main` ends; whoever cancels this cancels it, and it has ended by the time this returns."""
    begun: _Begun = Future()
    ended: Future[None] = Future()
    threading.Thread(target=_work, args=(main, begun, ended), name=name, daemon=True).start()
    answer = asyncio.wrap_future(ended)
    try:
        await asyncio.shield(answer)
    except asyncio.CancelledError:
        loop, task = begun.result()
        with contextlib.suppress(RuntimeError):  # it has just ended by itself
            loop.call_soon_threadsafe(task.cancel)
        await asyncio.wait([answer])
        raise


def _work(main: Main, begun: _Begun, ended: Future[None]) -> None:
    try:
        asyncio.run(_begin(main, begun))
        ended.set_result(None)
    except asyncio.CancelledError:
        ended.set_result(None)
    except BaseException as error:
        ended.set_exception(error)


async def _begin(main: Main, begun: _Begun) -> None:
    task = asyncio.current_task()
    assert task is not None
    begun.set_result((asyncio.get_running_loop(), task))
    await main()
