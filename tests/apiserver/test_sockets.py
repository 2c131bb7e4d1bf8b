from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from hekla.apiserver.listener import Listener
from hekla.apiserver.sockets import open_sockets
from hekla.errors import UsageError


def test_whoever_comes_before_the_server_waits_for_it(tmp_path: Path) -> None:
    sockets = open_sockets(tmp_path / "run" / "api.sock", 0)
    try:
        with (
            socket.create_connection(("127.0.0.1", sockets.port)) as early,
            socket.socket(socket.AF_UNIX) as neighbour,
        ):
            neighbour.connect(str(tmp_path / "run" / "api.sock"))
            early.sendall(b"by tcp")
            neighbour.sendall(b"by path")
            assert sockets.tcp is not None
            for listening, said in ((sockets.tcp, b"by tcp"), (sockets.unix, b"by path")):
                with listening.accept()[0] as accepted:
                    assert accepted.recv(16) == said
    finally:
        sockets.close()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_server_that_ends_leaves_the_path_to_the_next(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Python 3.13 and later remove it unless they are told not to."""
    sockets = open_sockets(tmp_path / "api.sock", None)

    async def serve_and_stop() -> None:
        listener = Listener(None, sockets.unix.dup())
        await listener.start()
        await listener.stop()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(serve_and_stop())
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "api.sock"))
    sockets.close()


def test_nobody_but_the_owner_can_use_the_path_and_it_goes_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "run" / "api.sock"
    sockets = open_sockets(path, None)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert sockets.port == 0
    sockets.close()
    assert not path.exists()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port}: Address already in use"):
            open_sockets(tmp_path / "api.sock", port)


def test_a_path_where_somebody_answers_is_not_taken_away_and_one_left_behind_is(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    first = open_sockets(path, None)
    with pytest.raises(UsageError, match="another API server answers"):
        open_sockets(path, None)
    first.unix.close()
    assert path.exists()
    open_sockets(path, None).close()
