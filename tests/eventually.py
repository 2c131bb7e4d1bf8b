"""Waiting for other programs: ask again until it holds, or fail with what was seen last."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

# Another process's progress cannot be awaited in any other way than by looking again.
_LOOK_SECONDS = 0.05
# What has not come by then will not come: nobody asserts how long something takes on a busy machine.
LIMIT_SECONDS = 90.0


def eventually(look: Callable[[], T], *, seconds: float = LIMIT_SECONDS, what: str = "") -> T:
    """The first truthy answer of `look`; an AssertionError or OSError it raises counts as "not yet"."""
    deadline = time.monotonic() + seconds
    seen: object = None
    while True:
        try:
            answer = look()
            if answer:
                return answer
            seen = answer
        except (AssertionError, OSError) as error:
            seen = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what or look}; last seen: {seen!r}")
        time.sleep(_LOOK_SECONDS)


async def soon(look: Callable[[], object], *, seconds: float = LIMIT_SECONDS, what: str = "") -> None:
    """`eventually`, for tests whose own event loop must go on meanwhile."""
    await asyncio.to_thread(eventually, look, seconds=seconds, what=what)


async def until(holds: Callable[[], Awaitable[T]], *, seconds: float = LIMIT_SECONDS, what: str = "") -> T:
    """The first truthy answer of `holds`, which asks a server; TimeoutError when there is none."""
    answer: object = None
    try:
        async with asyncio.timeout(seconds):
            while not (answer := await holds()):
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise TimeoutError(f"not within {seconds:.0f} s: {what or holds}; last seen: {answer!r}") from None
    return answer


async def _anything(_: object) -> bool:
    return True


async def at_rest(
    look: Callable[[], Awaitable[T]],
    *,
    quiet: float,
    seconds: float,
    every: float = _LOOK_SECONDS,
    expected: Callable[[T], Awaitable[bool]] = _anything,
) -> T:
    """What `look` sees, once that has been the same for `quiet` seconds of the event loop's time.

    A busy machine can keep others from changing anything for longer than that: what is quiet and not as `expected` is
    given until `seconds` are over, and then given back as it is. What is never quiet is an error.
    """
    loop = asyncio.get_running_loop()
    seen, begun = await look(), loop.time()
    since, judged = begun, False
    while True:
        is_over = loop.time() - begun > seconds
        is_quiet = loop.time() - since >= quiet
        if is_quiet and (is_over or (not judged and await expected(seen))):
            return seen
        assert not is_over, f"not at rest within {seconds:.0f} s; last seen: {seen!r}"
        judged = is_quiet
        await asyncio.sleep(every)
        if (now := await look()) != seen:
            seen, since, judged = now, loop.time(), False
