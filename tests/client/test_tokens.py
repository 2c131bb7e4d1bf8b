"""Tokens that are replaced while somebody uses them."""

from __future__ import annotations

import asyncio
import json
import stat
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hekla.api.meta import parse_timestamp
from hekla.client.kubeconfig import client_from_files, load_access, service_account_access
from hekla.client.tokens import ExecToken, FileToken
from hekla.client.transport import HttpTransport, Request
from hekla.clock import LoopClock, SystemClock
from hekla.errors import Disconnected, UsageError
from tests.client.test_transport import OK, Server, with_server
from tests.integration.virtual_loop import run_virtually


@dataclass
class HandClock:
    """For what waits for a real program, which a virtual loop cannot."""

    time: datetime

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


REFUSED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"


def test_a_file_is_read_again_every_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")

    async def test() -> list[str]:
        source = FileToken(file, LoopClock())
        seen = [await source.token()]
        file.write_text("second\n")
        await asyncio.sleep(59)
        seen.append(await source.token())
        await asyncio.sleep(2)
        return [*seen, await source.token()]

    assert run_virtually(test()) == ["first", "first", "second"]


def test_a_file_that_is_away_for_a_moment_leaves_the_old_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")

    async def test() -> str:
        source = FileToken(file, LoopClock())
        file.unlink()
        return await source.token(refused="first")

    assert run_virtually(test()) == "first"


def test_a_file_that_was_never_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"token: No such file"):
        FileToken(tmp_path / "token", SystemClock())


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_refused_request_is_sent_again_with_the_token_that_is_there_now(method: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    source = FileToken(file, SystemClock())
    file.write_text("new")
    server = Server([REFUSED, OK])

    async def test(transport: HttpTransport) -> None:
        assert (await transport.send(Request(method, "/pods"))).status == 200

    with_server(server, test, tokens=source)
    assert [b"Bearer old" in server.requests[0], b"Bearer new" in server.requests[1]] == [True, True]


def test_a_refused_token_that_has_no_successor_is_refused_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    server = Server([REFUSED])

    async def test(transport: HttpTransport) -> None:
        assert (await transport.send(Request("GET", "/pods"))).status == 401

    with_server(server, test, tokens=FileToken(file, SystemClock()))
    assert len(server.requests) == 1


def test_a_refused_watch_leads_to_the_new_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    source = FileToken(file, SystemClock())
    file.write_text("new")
    server = Server([REFUSED, OK])

    async def test(transport: HttpTransport) -> None:
        for status in (401, 200):
            async with transport.stream(Request("GET", "/pods?watch=1")) as answer:
                assert answer.status == status

    with_server(server, test, tokens=source)
    assert b"Bearer new" in server.requests[1]


def program(directory: Path, *answers: dict[str, str]) -> dict[str, object]:
    """A credential program that gives these answers one after the other, the last one for ever, then fails."""
    for number, answer in enumerate(answers):
        credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": answer}
        (directory / f"answer-{number}").write_text(json.dumps(credential))
    script = directory / "credentials"
    script.write_text('#!/bin/sh\ncd "$(dirname "$0")"\nset -- answer-*\ncat "$1" && rm "$1"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"command": str(script), "apiVersion": "client.authentication.k8s.io/v1"}


def test_a_program_is_asked_again_before_its_token_expires(tmp_path: Path) -> None:
    expiry = "2030-01-01T00:10:00Z"
    plugin = program(tmp_path, {"token": "first", "expirationTimestamp": expiry}, {"token": "second"})

    async def test() -> list[str]:
        clock = HandClock(parse_timestamp("2030-01-01T00:00:00Z"))
        source = ExecToken(plugin, {"PATH": "/usr/bin:/bin"}, clock)
        seen = [await source.token()]
        clock.time += timedelta(seconds=580)
        seen.append(await source.token())
        clock.time += timedelta(seconds=15)
        return [*seen, *await asyncio.gather(source.token(), source.token())]

    assert asyncio.run(test()) == ["first", "first", "second", "second"]


def test_a_program_that_fails_later_is_like_a_network_that_is_away(tmp_path: Path) -> None:
    plugin = program(tmp_path, {"token": "first"})

    async def test() -> None:
        source = ExecToken(plugin, {"PATH": "/usr/bin:/bin"}, SystemClock())
        with pytest.raises(Disconnected, match=r"credential plugin .* failed: .*answer-\*"):
            await source.token(refused="first")

    asyncio.run(test())


def test_a_pod_without_a_kubeconfig_uses_its_service_account(tmp_path: Path) -> None:
    for name, text in (("token", "t"), ("ca.crt", "c"), ("namespace", "batch")):
        (tmp_path / name).write_text(text)
    access = service_account_access({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, tmp_path)
    assert (access.server, access.namespace, access.ca_data) == ("https://[fd00::1]:6443", "batch", b"c")
    assert access.tokens is not None
    assert run_virtually(access.tokens.token()) == "t"


def test_a_kubeconfig_that_says_no_context_is_told_apart_from_one_that_lacks_it(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(UsageError, match="says no context to use; --context names a context"):
        load_access([tmp_path / "config"])
    with pytest.raises(UsageError, match="no context named 'there'"):
        load_access([tmp_path / "config"], context="there")


AIMED = """\
contexts: [{name: a, context: {cluster: a, user: u}}]
current-context: a
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("contexts: 3", "contexts: must be a list, not 3"),
        ("contexts: !!bool maybe", "a value is not what its tag says"),
        ("contexts: [3]", "contexts[0]: must be a mapping, not 3"),
        ("contexts: [{name: a, context: 3}]\ncurrent-context: a", "contexts[0].context: must be a mapping, not 3"),
        (f"{AIMED}clusters: x", "clusters: must be a list, not 'x'"),
        (f"{AIMED}clusters: [{{name: a}}]\nusers: [{{name: u, user: x}}]", "users[0].user: must be a mapping, not 'x'"),
        (f"{AIMED}clusters: [{{name: a}}]\nusers: [{{name: u, user: {{exec: x}}}}]", "exec: must be a mapping"),
        (f"{AIMED}clusters: [{{name: a}}]\nusers: [{{name: u, user: {{exec: {{env: x}}}}}}]", "exec: args is a list"),
        (f"{AIMED}clusters: [{{name: a, cluster: {{extensions: x}}}}]", "extensions: must be a list, not 'x'"),
        (f"{AIMED}clusters: [{{name: a, cluster: {{extensions: [x]}}}}]", "extensions[]: must be a mapping, not 'x'"),
        (f"{AIMED}clusters: [{{name: a, cluster: {{certificate-authority-data: 5}}}}]", "must be text, not 5"),
        ("{contexts: [{name: a, context: {cluster: a}}], current-context: a,"
         " clusters: [{name: a, cluster: {server: 'https://[::1'}}]}", "cluster server 'https://[::1' is no address"),
        ("{contexts: [{name: a, context: {cluster: a}}], current-context: a, clusters: [{name: a, cluster:"
         " {server: 'https://x', certificate-authority-data: /w==}}]}", "a certificate or key in it cannot be read"),
        ("{contexts: [{name: a, context: {cluster: a}}], current-context: a, clusters: [{name: a, cluster:"
         " {server: 'https://x', certificate-authority-data: YWJj}}]}", "a certificate or key in it cannot be read"),
    ],
)  # fmt: skip
def test_a_kubeconfig_of_odd_shape_is_told_with_the_place(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(UsageError) as refused:
        client_from_files([tmp_path / "config"])
    assert told in str(refused.value)


def test_a_kubeconfig_that_was_asked_for_is_not_replaced_by_a_service_account(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": str(tmp_path / "missing")}
    with pytest.raises(UsageError, match="no kubeconfig found"):
        load_access([tmp_path / "missing"], environment=environment)
