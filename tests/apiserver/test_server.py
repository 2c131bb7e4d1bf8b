"""The server as a process: who is let in, what it leaves behind, how it stops and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

import pytest

from hekla.api.kinds import CONFIG_MAP, NAMESPACE
from hekla.client.rest import Client
from hekla.client.watch import watch
from hekla.errors import Disconnected
from tests.apiserver.live import LiveServer
from tests.apiserver.rig import config_map


def test_nothing_is_answered_without_the_token(live: LiveServer) -> None:
    for path in ("/api/v1/pods", "/apis", "/openapi/v3", "/", "/metrics", "/api/v1/namespaces/default/secrets"):
        assert live.ask(path)[0] == 401, path
        assert live.ask(path, Authorization="Bearer wrong")[0] == 401
        assert live.ask(path, Authorization=f"Basic {live.token}")[0] == 401
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert live.ask(path)[0] == 200
    assert live.ask("/api/v1/pods", Authorization=f"Bearer {live.token}")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:6443"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": "[::ffff:127.0.0.1]"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_web_pages_and_rebound_names_are_refused_even_with_the_token(live: LiveServer, headers: dict[str, str]) -> None:
    assert live.ask("/api/v1/pods", Authorization=f"Bearer {live.token}", **headers)[0] == 403
    assert live.ask("/version", **headers)[0] == 403


def test_files_and_socket_are_for_their_owner_only(live: LiveServer) -> None:
    socket = live.directory / "run" / "api.sock"
    assert socket.stat().st_mode & 0o777 == 0o600
    assert socket.parent.stat().st_mode & 0o777 == 0o700
    state = live.directory / "state"
    assert state.stat().st_mode & 0o777 == 0o700
    for file in state.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
        assert live.token.encode() not in file.read_bytes()


def test_a_server_listens_on_loopback_only(live: LiveServer) -> None:
    wanted = f":{live.port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    listening = [line.split()[1] for line in lines if line.split()[3] == "0A" and line.split()[1].endswith(wanted)]
    assert listening == [f"0100007F{wanted}"]


def test_open_watches_do_not_hinder_the_end(fresh: LiveServer) -> None:
    async def follow(client: Client) -> None:
        with contextlib.suppress(Disconnected):
            async for _ in watch(client, CONFIG_MAP, resource_version="1"):
                continue

    async def main() -> None:
        client = fresh.client()
        watching = [asyncio.create_task(follow(client)) for _ in range(20)]
        await client.create(CONFIG_MAP, config_map())
        fresh.process.send_signal(signal.SIGTERM)
        await asyncio.gather(*watching)
        await asyncio.to_thread(fresh.process.wait, 60)
        await client.close()

    asyncio.run(main())
    assert fresh.process.returncode == 0
    assert not (fresh.directory / "run" / "api.sock").exists()


def test_acknowledged_objects_survive_kill_9_and_watches_resume(fresh: LiveServer) -> None:
    async def write() -> list[str]:
        client = fresh.client()
        done: list[str] = []
        enough = asyncio.Event()

        async def writer(lane: int) -> None:
            with contextlib.suppress(Disconnected):
                for number in range(10_000):
                    await client.create(CONFIG_MAP, config_map(f"m{lane}-{number}"))
                    done.append(f"m{lane}-{number}")
                    if len(done) == 300:
                        enough.set()

        writers = [asyncio.create_task(writer(lane)) for lane in range(8)]
        await enough.wait()
        fresh.process.kill()
        await asyncio.gather(*writers)
        await client.close()
        return done

    async def check(done: list[str]) -> None:
        client = fresh.client()
        listed = await client.list(CONFIG_MAP)
        names = {obj["metadata"]["name"] for obj in listed.items}
        assert names >= set(done)
        seen = 0
        async for change in watch(client, CONFIG_MAP, resource_version="6"):
            seen += change.obj["metadata"]["name"] in names
            if seen == len(names):
                break
        assert await client.find(NAMESPACE, "default") is not None
        await client.close()

    done = asyncio.run(write())
    fresh.process.communicate()
    fresh.start()
    asyncio.run(check(done))


def test_a_second_server_on_the_same_data_does_not_start(fresh: LiveServer) -> None:
    second = LiveServer(fresh.directory)
    with pytest.raises(AssertionError, match="ended before it was ready"):
        second.start()
    assert (fresh.directory / "run" / "api.sock").exists()
    assert fresh.ask("/healthz") == (200, b"ok")
