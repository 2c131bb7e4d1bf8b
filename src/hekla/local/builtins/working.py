"""The loop of every builtin: take a key, look at what it names, look again later if that did not succeed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from hekla.client.workqueue import WorkQueue
from hekla.errors import HeklaError
from hekla.log import FieldLogger

K = TypeVar("K", bound=Hashable)


async def work(queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[None]], log: FieldLogger) -> None:
    """Until cancelled. Nothing is given up: what fails is looked at again, later and later."""
    while True:
        key = await queue.get()
        try:
            await reconcile(key)
            queue.forget(key)
        except (HeklaError, OSError) as error:
            delay = queue.retry(key)
            log.debug("will look again", key=key, seconds=delay, error=error)
        except Exception:
            # One odd object must not end what looks after all the others.
            queue.retry(key)
            log.exception("look broke", key=key)
        finally:
            queue.done(key)
