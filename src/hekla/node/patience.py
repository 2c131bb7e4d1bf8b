"""When to look again: as soon as there is a reason to, and after a look that failed by itself, later each time."""

from __future__ import annotations

import asyncio
import contextlib

_FIRST_RETRY = 1.0
_LONGEST_RETRY = 30.0


class Patience:
    def __init__(self) -> None:
        self._wake = asyncio.Event()
        self._delay = _FIRST_RETRY

    def wake(self) -> None:
        """Something may be different now."""
        self._wake.set()

    async def wait(self, *, failed: bool) -> None:
        """Until the next look; a wake since the last one ended counts. `failed` is what became of the last one."""
        at_most = self._delay if failed else None
        self._delay = min(self._delay * 2, _LONGEST_RETRY) if failed else _FIRST_RETRY
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self._wake.wait()
        self._wake.clear()
