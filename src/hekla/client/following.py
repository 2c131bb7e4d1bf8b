"""List, then watch, for ever: the loop under everything that follows a kind.

It resumes from the last revision seen whenever a connection ends, and lists again only when the server says that this
revision is gone. What is read, and how much of it, is its source's business (`watch.py`, `partial.py`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Protocol, TypeVar

from hekla.api.kinds import Kind
from hekla.errors import ApiError, Disconnected, Expired, Forbidden, HeklaError, NotFound
from hekla.log import get_logger

log = get_logger("client")

_FIRST_DELAY = 0.05
_LONGEST_DELAY = 10.0
_LONGEST_UNTIL_SERVED = 1.0
_FAILURES_TOLD = 6  # in a row, some three seconds of them: what passes by itself is over by then

News = TypeVar("News", covariant=True)


class Source(Protocol[News]):
    """How a kind is listed and watched. Both give news with the revision it leads up to."""

    @property
    def kind(self) -> Kind: ...

    def listed(self) -> AsyncIterator[tuple[News, str]]:
        """The whole state, in one or more parts; the last one has a revision, those before have none."""

    def watched(self, revision: str) -> AsyncGenerator[tuple[News | None, str], None]:
        """What happened after a revision, until the server ends it; None where only the revision moved."""


async def follow_source(
    source: Source[News], *, rng: random.Random, on_trouble: Callable[[Exception], None] | None = None
) -> AsyncIterator[News]:
    """First what is listed, then every change for ever. Only cancelling ends it; errors are waited out.

    `on_trouble` hears of each failed attempt, for those who want to tell a person; else the log does, when it lasts.
    """
    kind, revision, delay, failures = source.kind.plural, "", _FIRST_DELAY, 0
    while True:
        trouble: HeklaError | None = None
        try:
            if not revision:
                async for part, reached in source.listed():
                    yield part
                    revision = reached
            async with aclosing(source.watched(revision)) as stream:
                async for news, reached in stream:
                    revision, delay, failures = reached, _FIRST_DELAY, 0
                    if news is not None:
                        yield news
        except Expired:
            log.info("revision compacted, listing again", kind=kind, revision=revision)
            revision = ""
        except (Disconnected, ApiError) as error:
            log.debug("watch broken, resuming", kind=kind, revision=revision, error=error)
            trouble = error
            failures += 1
            if on_trouble is not None:
                on_trouble(error)
            elif failures == _FAILURES_TOLD:
                log.warning("cannot be read, trying again", kind=kind, error=_with_remedy(error))
        # Spread out, so that a server coming back is not met by everybody at once.
        await asyncio.sleep(delay * (0.5 + rng.random()))
        delay = min(delay * 2, _longest_delay(trouble))


def _with_remedy(error: HeklaError) -> str:
    if isinstance(error, Forbidden):
        return f"{error}: `hekla install` gives our components the rights they need, those of a new version too"
    return str(error)


def _longest_delay(trouble: HeklaError | None) -> float:
    if isinstance(trouble, NotFound):
        # Somebody is about to install the kind, and then waits for us.
        return _LONGEST_UNTIL_SERVED
    # What the server asks for is come to step by step: one that makes ready for a new kind asks for a second, the
    # shortest it can say, and needs less.
    return trouble.retry_after or _LONGEST_DELAY if isinstance(trouble, ApiError) else _LONGEST_DELAY
