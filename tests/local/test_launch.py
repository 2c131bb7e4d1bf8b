from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from hekla.cli.private_cluster import completion
from hekla.errors import UsageError
from hekla.local.launch import LaunchedCluster, Stage


@pytest.fixture
def supervisor() -> Iterator[tuple[LaunchedCluster, int]]:
    """A cluster as its starter sees it, and where its supervisor says how far it has come."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    yield LaunchedCluster(0, read_end), write_end
    for descriptor in (read_end, write_end):
        try:
            os.close(descriptor)
        except OSError:
            continue  # the test has closed it


def test_a_stage_is_waited_for_and_the_next_is_not(supervisor: tuple[LaunchedCluster, int]) -> None:
    launched, telling = supervisor
    os.write(telling, b"takes-jobs\n")
    launched.wait_until(Stage.TAKES_JOBS)
    assert not launched.has_reached(Stage.READY)
    os.write(telling, b"rea")
    launched.listen()
    assert not launched.has_reached(Stage.READY)
    os.write(telling, b"dy\n")
    launched.wait_until(Stage.READY)


def test_a_cluster_that_fails_after_it_took_jobs_is_heard_of(supervisor: tuple[LaunchedCluster, int]) -> None:
    launched, telling = supervisor

    async def main() -> None:
        completing = asyncio.create_task(completion(launched))
        os.write(telling, b"takes-jobs\n")
        done, _ = await asyncio.wait([completing], timeout=0.05)
        assert not done
        os.write(telling, b"failed the node\0could not start\n")
        await asyncio.wait_for(completing, 60)

    with pytest.raises(UsageError, match="the node\ncould not start"):
        asyncio.run(main())


def test_one_that_ends_without_a_word_is_noticed(supervisor: tuple[LaunchedCluster, int]) -> None:
    launched, telling = supervisor
    os.close(telling)
    with pytest.raises(UsageError, match="could not start"):
        launched.wait_until(Stage.READY)
