"""How long an answer is waited for, on one connection and in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from hekla.client.http1 import Connection
from tests.integration.virtual_loop import run_virtually

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Line(asyncio.Transport):
    """What is sent goes nowhere; what comes is what a test hands to the connection."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def is_closing(self) -> bool:
        return False


def connected() -> Connection:
    connection = Connection()
    connection.connection_made(Line())
    return connection


def test_a_later_request_has_its_own_time() -> None:
    async def work() -> float:
        connection, now = connected(), asyncio.get_running_loop().time
        connection.request(b"", deadline=now() + 1)
        connection.data_received(OK)
        assert await connection.whole() == b"ok"
        connection.request(b"", deadline=now() + 2)
        with pytest.raises(TimeoutError):
            await connection.whole()
        return now()

    assert run_virtually(work()) == pytest.approx(2)


def test_an_answer_that_came_too_late_takes_no_time_from_the_next() -> None:
    async def work() -> None:
        connection, now = connected(), asyncio.get_running_loop().time
        connection.request(b"", deadline=now() + 1)
        await asyncio.sleep(2)
        connection.data_received(OK)
        assert await connection.whole() == b"ok"
        assert connection.reusable
        connection.request(b"", deadline=now() + 1)
        asyncio.get_running_loop().call_later(0.5, connection.data_received, OK)
        assert await connection.whole() == b"ok"

    run_virtually(work())
