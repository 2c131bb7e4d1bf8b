"""The store without a disk or a thread: for simulation and tests."""

from __future__ import annotations

import asyncio

from hekla.apiserver.store.sequencer import Sequenced, Sequencer


class MemoryStore(Sequencer):
    """Commits in the next turn of the event loop, so that callers meet the same interleavings as with a disk."""

    def _persist(self, sequenced: Sequenced) -> None:
        asyncio.get_running_loop().call_soon(self._committed, [sequenced])
