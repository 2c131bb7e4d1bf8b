"""Logs over HTTPS, for holders of the right client certificate only."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hekla.client.rest import Client
from hekla.client.transport import HttpTransport
from hekla.clock import SystemClock
from hekla.errors import ApiError, Disconnected
from hekla.local.credentials import Credentials, ensure_credentials
from hekla.node.cleanup import end_pod
from hekla.node.directory import PodDirectory
from hekla.node.kubelet_server import KubeletServer
from hekla.node.settings import NodeSettings
from hekla.node.spawner import Spawner

_POD = {"metadata": {"name": "p", "namespace": "default", "uid": "u-1"}}
_LOG = b"""2030-01-01T00:00:00.000000001Z stdout F one
2030-01-01T00:00:01.000000001Z stderr P tw
2030-01-01T00:00:01.000000002Z stderr F o
2030-01-01T00:00:02.000000001Z stdout F three
"""


@asynccontextmanager
async def _server(folder: Path, *, with_certificate: bool = True) -> AsyncIterator[Client]:
    """A client of a node whose pod `p` has run `main` twice."""
    (folder / "pki").mkdir()
    made = ensure_credentials(folder / "pki", clock=SystemClock(), rng=random.SystemRandom())
    settings = NodeSettings(
        "n1", folder, tls_certificate=made.node.certificate, tls_key=made.node.key, client_ca=made.ca
    )
    directory = PodDirectory(folder, "u-1")
    directory.claim(_POD, "n1")
    for number, log in enumerate((b"2029-12-31T00:00:00Z stdout F before\n", _LOG)):
        directory.write_exit("main", number, {"code": 0})
        directory.log("main", number).write_bytes(log)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(_serve(settings, port))
    client = _client(made, await port, with_certificate=with_certificate)
    try:
        yield client
    finally:
        await client.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _serve(settings: NodeSettings, port: asyncio.Future[int]) -> None:
    async with asyncio.TaskGroup() as tasks:
        found = await KubeletServer(settings, Spawner(settings.data_dir), None, clock=SystemClock()).start(tasks)
        assert found is not None
        port.set_result(found)


def _client(made: Credentials, port: int, *, with_certificate: bool) -> Client:
    tls = ssl.create_default_context(cafile=str(made.ca))
    if with_certificate:
        tls.load_cert_chain(made.kubelet_client.certificate, made.kubelet_client.key)
    return Client(HttpTransport(f"https://127.0.0.1:{port}", tls=tls))


def _ask(folder: Path, query: str = "", *, container: str = "main", with_certificate: bool = True) -> str:
    async def ask() -> str:
        async with _server(folder, with_certificate=with_certificate) as client:
            return (await client.raw("GET", f"/containerLogs/default/p/{container}{query}")).body.decode()

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "one\ntwo\nthree\n"),
        ("?tailLines=2", "two\nthree\n"),
        ("?tailLines=0", ""),
        ("?previous=true", "before\n"),
        ("?limitBytes=5", "one\nt"),
        ("?timestamps=true&tailLines=1", "2030-01-01T00:00:02.000000001Z three\n"),
        ("?sinceTime=2030-01-01T00:00:02Z", "three\n"),
        ("?follow=true", "one\ntwo\nthree\n"),
    ],
)
def test_a_log_is_given_as_asked(tmp_path: Path, query: str, text: str) -> None:
    assert _ask(tmp_path, query) == text


def test_who_has_no_certificate_gets_nothing(tmp_path: Path) -> None:
    with pytest.raises(Disconnected):
        _ask(tmp_path, with_certificate=False)


@pytest.mark.parametrize(
    ("query", "container"),
    [("?tailLines=-1", "main"), ("?tailLines=x", "main"), ("?previous=true&back=0", "main"), ("", "other")],
)
def test_a_question_that_makes_no_sense_is_refused(tmp_path: Path, query: str, container: str) -> None:
    with pytest.raises(ApiError) as refused:
        _ask(tmp_path, query, container=container)
    assert refused.value.code == 400


_JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "job-1", "controller": True}


def _earlier(folder: Path, uid: str, text: str, job: str = "job-1") -> None:
    """A pod `q` of a Job that has come and gone."""
    directory = PodDirectory(folder, uid)
    owners = [{**_JOB, "uid": job}]
    directory.claim({"metadata": {"name": "q", "namespace": "default", "uid": uid, "ownerReferences": owners}}, "n1")
    directory.write_exit("main", 0, {"code": 1})
    directory.log("main", 0).write_text(f"2029-01-01T00:00:00Z stderr F {text}\n")
    end_pod(directory)


def _present(folder: Path, *texts: str) -> None:
    """The pod `q` of that Job that is there now, its container begun so many times."""
    directory = PodDirectory(folder, "now")
    directory.claim({"metadata": {"name": "q", "namespace": "default", "uid": "now", "ownerReferences": [_JOB]}}, "n1")
    for number, text in enumerate(texts):
        directory.write_exit("main", number, {"code": 1})
        directory.log("main", number).write_text(f"2030-01-01T00:00:00Z stderr F {text}\n")


def _ask_before(folder: Path, query: str = "") -> str:
    async def ask() -> str:
        async with _server(folder) as client:
            return (await client.raw("GET", f"/containerLogs/default/q/main?previous=true{query}")).body.decode()

    return asyncio.run(ask())


@pytest.mark.parametrize("query", ["", "&jobUid=job-1&podUid=now"])
@pytest.mark.parametrize(("texts", "heard"), [((), "last"), (("one",), "last"), (("one", "two"), "one")])
def test_before_the_first_attempt_came_an_earlier_pod_of_the_job(
    tmp_path: Path, query: str, texts: tuple[str, ...], heard: str
) -> None:
    _earlier(tmp_path, "u-3", "first")
    _earlier(tmp_path, "u-2", "last")
    _earlier(tmp_path, "u-4", "of another", job="job-2")
    _present(tmp_path, *texts)
    assert _ask_before(tmp_path, query) == f"{heard}\n"


def test_one_goes_back_attempt_by_attempt_and_then_pod_by_pod(tmp_path: Path) -> None:
    _earlier(tmp_path, "u-3", "first")
    _earlier(tmp_path, "u-2", "last")
    _present(tmp_path, "one", "two", "three")

    async def ask_all() -> list[str]:
        async with _server(tmp_path) as client:
            path = "/containerLogs/default/q/main?previous=true&jobUid=job-1&podUid=now"
            heard = [(await client.raw("GET", f"{path}&back={back}")).body.decode() for back in range(1, 5)]
            with pytest.raises(ApiError, match="not found"):
                await client.raw("GET", f"{path}&back=5")
            return heard

    assert asyncio.run(ask_all()) == ["two\n", "one\n", "last\n", "first\n"]


def test_the_last_pod_is_what_came_before_none_and_before_one_that_is_not_here_yet(tmp_path: Path) -> None:
    _earlier(tmp_path, "u-2", "last")
    assert _ask_before(tmp_path, "&jobUid=job-1") == "last\n"
    (tmp_path / "pki").rename(tmp_path / "old-pki")
    _present(tmp_path, "one", "two")
    # Not a word of a pod that is on its way out, by the rule for the one that is there: it is the last one itself.
    assert _ask_before(tmp_path, "&jobUid=job-1&podUid=not-here-yet") == "two\n"


@pytest.mark.parametrize("query", ["", "&jobUid=job-2", "&jobUid=..%2Fpods", "&jobUid=job-1&podUid=u-2"])
def test_other_jobs_logs_are_nobodys(tmp_path: Path, query: str) -> None:
    _earlier(tmp_path, "u-2", "last")
    with pytest.raises(ApiError) as refused:
        _ask_before(tmp_path, query)
    assert refused.value.code == 400
