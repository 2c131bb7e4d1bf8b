"""Logs pass through from a node that wants the server's certificate."""

from __future__ import annotations

import asyncio
import random
import ssl
from pathlib import Path

import pytest

from hekla.apiserver.logs import LogProxy, LogSource, kept_sources, log_of_gone_pod, log_source
from hekla.clock import SystemClock
from hekla.errors import ApiError, BadRequest, InternalError
from hekla.local.credentials import Credentials, ensure_credentials


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    return ensure_credentials(tmp_path, clock=SystemClock(), rng=random.SystemRandom())


class Node:
    """A kubelet's log endpoint, as bytes on a TLS socket."""

    def __init__(self, credentials: Credentials, answer: bytes, rest: bytes = b"") -> None:
        """`rest` of the answer is sent when it is asked to `go_on`."""
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(credentials.ca))
        self._tls.load_cert_chain(credentials.node.certificate, credentials.node.key)
        self._tls.verify_mode = ssl.CERT_REQUIRED
        self._answer = answer
        self._rest = rest
        self.go_on = asyncio.Event()
        self.asked = ""

    async def __aenter__(self) -> Node:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *details: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked = (await reader.readline()).decode().split()[1]
        while (await reader.readline()).strip():
            continue
        writer.write(self._answer)
        await writer.drain()
        if self._rest:
            await self.go_on.wait()
            writer.write(self._rest)
            await writer.drain()
        writer.close()
        await writer.wait_closed()


def pod(**status: object) -> dict[str, object]:
    spec = {"nodeName": "n", "containers": [{"name": "a"}, {"name": "b"}]}
    return {"metadata": {"name": "p", "namespace": "d"}, "spec": spec, "status": status}


def node(port: int) -> dict[str, object]:
    addresses = [{"type": "Hostname", "address": "x"}, {"type": "InternalIP", "address": "127.0.0.1"}]
    return {"status": {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}}


def test_the_source_is_the_nodes_address_and_the_containers_path() -> None:
    source = log_source(pod(), node(5), {"container": "b", "tailLines": "3", "follow": "true", "pretty": "true"})
    assert source == LogSource("127.0.0.1", 5, "/containerLogs/d/p/b?follow=true&tailLines=3")


def test_of_several_containers_one_must_be_named() -> None:
    with pytest.raises(BadRequest, match=r"a container name must be specified for pod p, choose one of: \[a b\]"):
        log_source(pod(), node(5), {})


JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "j-1", "controller": True}


def of_job(**changes: object) -> dict[str, object]:
    made = pod(containerStatuses=[{"name": "a", "state": {"waiting": {"reason": "ContainerCreating"}}}])
    return {**made, "metadata": {"name": "p", "namespace": "d", "uid": "p-1", "ownerReferences": [{**JOB, **changes}]}}


def test_of_a_pod_of_a_job_the_log_before_is_asked_for_by_uid_also_while_it_waits() -> None:
    source = log_source(of_job(), node(5), {"container": "a", "previous": "true", "back": "2", "jobUid": "another"})
    assert source == LogSource("127.0.0.1", 5, "/containerLogs/d/p/a?previous=true&back=2&jobUid=j-1&podUid=p-1")


@pytest.mark.parametrize(("owner", "query"), [({}, {}), ({"apiVersion": "batch/v1"}, {"previous": "true"})])
def test_other_logs_of_a_container_that_waits_are_refused(owner: dict[str, str], query: dict[str, str]) -> None:
    with pytest.raises(BadRequest, match="waiting to start"):
        log_source(of_job(**owner), node(5), {"container": "a", **query})


def test_of_a_pod_that_is_gone_a_log_is_had_only_by_its_jobs_uid() -> None:
    asked = {"container": "a", "previous": "true", "jobUid": "j-1"}
    earlier = log_of_gone_pod(asked)
    assert earlier is not None
    mute: dict[str, object] = {"status": {}}
    found = kept_sources([mute, node(5)], "d", "p", "a", asked, earlier)
    assert found == [LogSource("127.0.0.1", 5, "/containerLogs/d/p/a?previous=true&jobUid=j-1&podUid=")]
    for key in asked:
        assert log_of_gone_pod({**asked, key: ""}) is None


def test_a_log_is_streamed_with_the_servers_certificate(credentials: Credentials) -> None:
    proxy = LogProxy(credentials.ca, credentials.kubelet_client.certificate, credentials.kubelet_client.key)

    async def main() -> bytes:
        answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n4\r\ntwo\n\r\n0\r\n\r\n"
        async with Node(credentials, answer) as kubelet:
            response = await proxy.open(LogSource("127.0.0.1", kubelet.port, "/containerLogs/d/p/a?follow=true"))
            assert response.stream is not None
            text = b"".join([chunk async for chunk in response.stream])
            assert kubelet.asked == "/containerLogs/d/p/a?follow=true"
            return text

    assert asyncio.run(main()) == b"one\ntwo\n"


class HurriedLoop(asyncio.SelectorEventLoop):
    """Its clock can be put forward: what was to happen until then happens at once, in its order."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def test_a_log_that_says_nothing_for_a_day_is_still_followed(credentials: Credentials) -> None:
    proxy = LogProxy(credentials.ca, credentials.kubelet_client.certificate, credentials.kubelet_client.key)
    loop = HurriedLoop()

    async def main() -> bytes:
        begun = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"
        async with Node(credentials, begun, b"4\r\ntwo\n\r\n0\r\n\r\n") as kubelet:
            response = await proxy.open(LogSource("127.0.0.1", kubelet.port, "/containerLogs/d/p/a?follow=true"))
            assert response.stream is not None
            chunks = aiter(response.stream)
            first = await anext(chunks)
            loop.ahead = 24 * 3600.0
            loop.call_later(0, kubelet.go_on.set)
            return first + b"".join([chunk async for chunk in chunks])

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(main()) == b"one\ntwo\n"


def test_a_nodes_refusal_and_a_silent_node_are_told(credentials: Credentials) -> None:
    proxy = LogProxy(credentials.ca, credentials.kubelet_client.certificate, credentials.kubelet_client.key)

    async def main() -> None:
        async with Node(credentials, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 6\r\n\r\nnot yet"[:-1]) as kubelet:
            with pytest.raises(ApiError, match="not ye") as caught:
                await proxy.open(LogSource("127.0.0.1", kubelet.port, "/x"))
            assert caught.value.code == 400
            port = kubelet.port
        with pytest.raises(InternalError):
            await proxy.open(LogSource("127.0.0.1", port, "/x"))

    asyncio.run(main())
