"""The store without a disk or a thread: for simulation and tests."""

from __future__ import annotations

import asyncio

from hekla.apiserver.store.sequencer import KEEP_CHANGES, KEEP_SECONDS, Sequenced, Sequencer
from hekla.clock import Clock, LoopClock


class MemoryStore(Sequencer):
    """Commits in the next turn of the event loop, so that callers meet the same interleavings as with a disk."""

    def __init__(
        self, clock: Clock | None = None, *, keep_changes: int = KEEP_CHANGES, keep_seconds: float = KEEP_SECONDS
    ) -> None:
        super().__init__(clock or LoopClock(), keep_changes=keep_changes, keep_seconds=keep_seconds)

    def _persist(self, unit: list[Sequenced]) -> None:
        asyncio.get_running_loop().call_soon(self._committed, unit)
