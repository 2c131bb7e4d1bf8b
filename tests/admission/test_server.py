"""The HTTPS front, over a real TLS connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hekla.admission.certificate import read_authority
from hekla.admission.review import VolcanoAdmission
from hekla.admission.server import SERVICES, WebhookSettings, run, webhook_configurations
from hekla.api.kinds import CRON_JOB, HYPER_NODE, JOB, JOB_FLOW, POD, POD_GROUP, QUEUE, Kind
from hekla.errors import Forbidden, UsageError
from tests import make
from tests.admission.test_review import Lookup, review


def certificate(folder: Path, serial: int = 1) -> WebhookSettings:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "webhook")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "crt").write_bytes(signed.public_bytes(pem))
    (folder / "key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return WebhookSettings(folder / "crt", folder / "key", "127.0.0.1", 0)


Post = Callable[..., Awaitable[tuple[int, bytes]]]


def with_server(folder: Path, script: Callable[[Post], Awaitable[None]], lookup: Lookup | None = None) -> None:
    async def main() -> None:
        settings = certificate(folder)
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        admission = VolcanoAdmission(lookup or Lookup(make.queue("default")))
        serving = asyncio.create_task(run(settings, admission, ready=port.set_result))
        tls = ssl.create_default_context(cafile=str(settings.certificate))

        async def post(path: str, body: bytes, content_type: str = "application/json") -> tuple[int, bytes]:
            reader, writer = await asyncio.open_connection("127.0.0.1", await port, ssl=tls)
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {content_type}\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.read()
            writer.close()
            with contextlib.suppress(ssl.SSLError, ConnectionError):
                await writer.wait_closed()
            return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]

        try:
            await script(post)
        finally:
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving

    asyncio.run(main())


def encoded(obj: Any) -> bytes:
    return json.dumps(obj).encode()


def test_reviews_are_answered_at_upstreams_paths(tmp_path: Path) -> None:
    async def script(post: Post) -> None:
        status, body = await post("/jobs/mutate", encoded(review(JOB, "CREATE", make.new_job())))
        assert (status, json.loads(body)["response"]["patchType"]) == (200, "JSONPatch")
        status, body = await post("/jobs/validate", encoded(review(JOB, "CREATE", make.job(queue="nowhere"))))
        assert (status, json.loads(body)["response"]["allowed"]) == (200, False)

    with_server(tmp_path, script)


def test_what_is_no_review_is_refused_and_the_server_lives_on(tmp_path: Path) -> None:
    async def script(post: Post) -> None:
        assert (await post("/nowhere", b"{}"))[0] == 404
        assert (await post("/jobs/mutate", b"{"))[0] == 400
        assert (await post("/jobs/mutate", b"[]"))[0] == 400
        assert (await post("/jobs/mutate", b"[" * 100_000))[0] == 400
        for request in (None, 3, "x", {}, {"uid": "a"}):
            assert (await post("/jobs/validate", encoded({"request": request})))[0] == 400
        assert (await post("/jobs/mutate", b"{}", "text/plain"))[0] == 415
        assert (await post("/jobs/mutate", b" " * ((3 << 20) + 1)))[0] == 413

    with_server(tmp_path, script)


@pytest.mark.parametrize(
    "kind", [JOB, QUEUE, POD_GROUP, POD, JOB_FLOW, CRON_JOB, HYPER_NODE], ids=lambda kind: kind.kind
)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_an_object_past_every_schema_is_refused_in_words(tmp_path: Path, kind: Kind, operation: str) -> None:
    lists = ("tasks", "flows", "members", "subGroupPolicy", "capability")
    odd = {"metadata": {"name": "odd", "annotations": {"volcano.sh/jdb-min-available": 3}}}
    spec = {**dict.fromkeys(lists, 3), "schedule": "* * * * *", "timeZone": 3, "schedulerName": "volcano"}
    given = review(kind, operation, {**odd, "spec": spec}, {**odd, "spec": spec} if operation == "UPDATE" else None)

    async def script(post: Post) -> None:
        for service in SERVICES:
            if service.kind == kind and operation in service.operations:
                status, body = await post(service.path, encoded(given))
                response = json.loads(body)["response"]
                assert status == 200, body
                assert response["allowed"] or response["status"]["message"], service.path
                assert service.step == "mutate" or not response["allowed"], service.path

    with_server(tmp_path, script)


@pytest.mark.parametrize("path", ["/jobs/mutate", "/jobs/validate"])
def test_what_a_path_is_not_for_is_refused_there(tmp_path: Path, path: str) -> None:
    unknown = review(JOB, "CREATE", make.job())
    unknown["request"]["kind"] = {}

    async def script(post: Post) -> None:
        for other in (review(QUEUE, "CREATE", make.queue("q")), unknown):
            status, body = await post(path, encoded(other))
            words = "expect resource to be {batch.volcano.sh v1alpha1 jobs}"
            response = {"uid": "u1", "allowed": False, "status": {"message": words}}
            assert (status, json.loads(body)["response"]) == (200, response)

    with_server(tmp_path, script)


def test_a_review_that_lacks_what_it_is_about_is_no_review(tmp_path: Path) -> None:
    whole = review(JOB, "UPDATE", make.job(), make.job())["request"]
    odd = [
        {**whole, "kind": "Job"},
        {**whole, "operation": ["UPDATE"]},
        {**whole, "namespace": 3},
        {**whole, "uid": {}},
    ]
    for name in ("object", "oldObject"):
        odd += [{**whole, name: value} for value in (None, 3, [], {}, {"metadata": None}, {"metadata": {"name": 3}})]

    async def script(post: Post) -> None:
        for request in odd:
            status, body = await post("/jobs/validate", encoded({"request": request}))
            assert (status, body[:8]) == (400, b"a review"), request
        gone = review(QUEUE, "DELETE", None, make.queue("q"))
        gone["request"] |= {"name": "", "oldObject": None}
        assert (await post("/queues/validate", encoded(gone)))[0] == 400

    with_server(tmp_path, script)


class ForbiddenLookup(Lookup):
    async def find_all(self, kind: Kind, namespace: str | None = None) -> list[dict[str, Any]]:
        raise Forbidden(f"{kind.plural} may not be listed")


def test_what_keeps_a_review_from_being_answered_is_told_to_whoever_wrote(tmp_path: Path) -> None:
    async def script(post: Post) -> None:
        status, body = await post("/jobs/validate", encoded(review(JOB, "CREATE", make.job())))
        assert (status, body) == (500, b"what the review needs cannot be looked up: queues may not be listed")

    with_server(tmp_path, script, ForbiddenLookup())


class SlowLookup(Lookup):
    """One that answers when it may, as an API server that is busy."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        super().__init__(*objects)
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def find_all(self, kind: Kind, namespace: str | None = None) -> list[dict[str, Any]]:
        self.asked.set()
        await self.may_answer.wait()
        return await super().find_all(kind)


@contextlib.asynccontextmanager
async def connected(
    settings: WebhookSettings, port: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(settings.host, port, ssl=tls)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            await writer.wait_closed()


def test_a_stop_answers_what_is_under_way_and_lets_go_of_who_is_idle(tmp_path: Path) -> None:
    async def main() -> None:
        settings = certificate(tmp_path)
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        lookup = SlowLookup(make.queue("default"))
        serving = asyncio.create_task(run(settings, VolcanoAdmission(lookup), ready=port.set_result))
        async with connected(settings, await port) as (reader, writer), connected(settings, await port) as (idle, _):
            body = encoded(review(JOB, "CREATE", make.job()))
            head = "POST /jobs/validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await lookup.asked.wait()
            serving.cancel()
            assert await idle.read() == b""
            assert not serving.done()
            lookup.may_answer.set()
            answer = await reader.read()
            assert (answer.split()[1], b'"allowed":true' in answer) == (b"200", True)
            await asyncio.wait([serving])

    asyncio.run(main())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_renewed_certificate_is_served_once_both_its_files_are_there(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> None:
        settings = certificate(tmp_path)
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(run(settings, VolcanoAdmission(Lookup()), ready=port.set_result))

        async def served() -> int:
            async with connected(settings, await port) as (_, writer):
                return x509.load_der_x509_certificate(
                    writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
                ).serial_number

        assert await served() == 1
        (tmp_path / "next").mkdir()
        renewed = certificate(tmp_path / "next", serial=2)
        renewed.certificate.replace(settings.certificate)
        assert await served() == 1
        settings.key.unlink()
        assert await served() == 1
        renewed.key.replace(settings.key)
        assert await served() == 2
        serving.cancel()
        await asyncio.wait([serving])

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


def test_who_cannot_serve_is_told_why_and_nobody_is_told_to_ask(tmp_path: Path) -> None:
    settings = certificate(tmp_path)
    (tmp_path / "other").mkdir()
    other = certificate(tmp_path / "other")
    told = []

    async def announce() -> None:
        told.append("announced")

    def fault(settings: WebhookSettings) -> str:
        with pytest.raises(UsageError) as raised:
            asyncio.run(run(settings, VolcanoAdmission(Lookup()), announce=announce))
        return str(raised.value)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = f"cannot listen on 127.0.0.1 port {port}: Address already in use; --port names another"
        assert fault(replace(settings, port=port)) == words
    assert "port 99999: there is no such port" in fault(replace(settings, port=99999))
    assert f"key {other.key}: the key is of another certificate" in fault(replace(settings, key=other.key))
    assert "not a certificate and a key in PEM" in fault(replace(settings, certificate=settings.key))
    assert told == []
    with pytest.raises(UsageError, match="no certificate in PEM"):
        read_authority(settings.key)
    assert read_authority(settings.certificate) == settings.certificate.read_bytes()


def test_every_service_has_a_configuration_of_its_own() -> None:
    paths = {service.path for service in SERVICES}
    made = webhook_configurations(b"ca", lambda path: {"url": f"https://x{path}"}, paths)
    assert len({one["metadata"]["name"] for one in made}) == len(SERVICES)
    assert made[0]["webhooks"][0]["clientConfig"] == {"url": "https://x/jobs/mutate", "caBundle": "Y2E="}


def test_what_is_in_the_webhooks_own_namespace_is_made_without_it() -> None:
    made = webhook_configurations(
        b"ca", lambda path: {"url": f"https://x{path}"}, {"/pods/validate"}, namespace="batch"
    )
    (expression,) = made[0]["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert (expression["operator"], expression["values"]) == ("NotIn", ["kube-system", "volcano-system", "batch"])
