from __future__ import annotations

import asyncio
import random
import socket
import struct

import pytest
from dnslib import RCODE, DNSRecord

from hekla.api.kinds import POD, SERVICE, Obj
from hekla.client.informer import Informer
from hekla.client.rest import Client
from hekla.client.transport import HttpTransport
from hekla.client.watch import Change, ChangeType
from hekla.node.dns import Zone, _Answers, _serve, answer, service_addresses
from hekla.node.dns_forwarding import Forwarder


def a_pod(name: str, address: str = "", *, ready: bool = True, phase: str = "Running", **spec: object) -> Obj:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app": "gang"}, "resourceVersion": "1"},
        "spec": spec,
        "status": {
            "podIP": address,
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def a_service(**spec: object) -> Obj:
    return {
        "metadata": {"name": "gang", "namespace": "ns", "uid": "s", "resourceVersion": "1"},
        "spec": {"clusterIP": "None", "selector": {"app": "gang"}, **spec},
    }


def test_a_headless_service_names_its_ready_pods() -> None:
    pods = [
        a_pod("a", "10.0.0.1", hostname="a", subdomain="gang"),
        a_pod("b", "10.0.0.2", hostname="b", subdomain="other"),
        a_pod("c", "10.0.0.3", ready=False, hostname="c", subdomain="gang"),
        a_pod("d", "10.0.0.4", phase="Succeeded", hostname="d", subdomain="gang"),
        a_pod("e", "", hostname="e", subdomain="gang"),
    ]
    assert service_addresses(a_service(), pods) == {"": ["10.0.0.1", "10.0.0.2"], "a": ["10.0.0.1"]}
    early = service_addresses(a_service(publishNotReadyAddresses=True), pods)
    assert early["c"] == ["10.0.0.3"]
    assert service_addresses(a_service(clusterIP="10.96.0.9"), pods) == {"": ["10.96.0.9"]}


def a_zone(*pods: Obj) -> Zone:
    """A zone over informers that have seen these objects."""
    client = Client(HttpTransport("http://localhost"))
    rng = random.Random(1)
    known, services = Informer(client, POD, rng=rng), Informer(client, SERVICE, rng=rng)
    zone = Zone(known, services)
    services._apply(Change(ChangeType.ADDED, a_service()))
    for pod in pods:
        known._apply(Change(ChangeType.ADDED, pod))
    return zone


def ask(zone: Zone, name: str, kind: str = "A") -> DNSRecord:
    reply = answer(zone, DNSRecord.question(name, kind).pack())
    assert reply is not None
    return DNSRecord.parse(reply)


def test_questions_are_answered_whatever_their_case() -> None:
    zone = a_zone(a_pod("a", "10.0.0.1", hostname="a", subdomain="gang"))
    found = ask(zone, "A.Gang.ns.svc.cluster.local")
    assert [str(record.rdata) for record in found.rr] == ["10.0.0.1"]
    assert str(found.q.qname) == "A.Gang.ns.svc.cluster.local."


def test_a_name_that_exists_has_no_other_kind_of_address_but_exists() -> None:
    zone = a_zone(a_pod("a", "10.0.0.1", hostname="a", subdomain="gang"))
    found = ask(zone, "a.gang.ns.svc.cluster.local", "AAAA")
    assert (found.header.rcode, found.rr) == (RCODE.NOERROR, [])


@pytest.mark.parametrize(
    "name", ["x.gang.ns.svc.cluster.local", "a.gang.other.svc.cluster.local", "example.org", "local"]
)
def test_what_nobody_is_called_does_not_exist(name: str) -> None:
    zone = a_zone(a_pod("a", "10.0.0.1", hostname="a", subdomain="gang"))
    assert ask(zone, name).header.rcode == RCODE.NXDOMAIN


def test_a_pod_that_comes_later_is_known_at_once() -> None:
    zone = a_zone()
    assert ask(zone, "gang.ns.svc.cluster.local").rr == []
    zone.pods._apply(Change(ChangeType.ADDED, a_pod("a", "10.0.0.1")))
    assert len(ask(zone, "gang.ns.svc.cluster.local").rr) == 1


def test_a_long_answer_over_udp_is_cut_and_marked() -> None:
    zone = a_zone(*(a_pod(f"p{index}", f"10.0.1.{index}") for index in range(200)))
    question = DNSRecord.question("gang.ns.svc.cluster.local").pack()
    short = DNSRecord.parse(answer(zone, question, limit=512))
    assert (short.header.tc, short.rr) == (1, [])
    assert len(DNSRecord.parse(answer(zone, question)).rr) == 200


# A label of 70 bytes; names know no more than 63.
TOO_LONG = DNSRecord.question("x").pack()[:12] + b"\x46" + b"a" * 70 + b"\3org\0" + b"\0\1\0\1"
NO_QUESTIONS = [b"", b"\0" * 5, b"\xff" * 40, TOO_LONG, DNSRecord.question("a.b", "A").reply().pack()]


@pytest.mark.parametrize("junk", NO_QUESTIONS)
def test_what_is_no_question_gets_no_answer(junk: bytes) -> None:
    assert answer(a_zone(), junk) is None


class Broken(Forwarder):
    async def ask(self, question: bytes, *, stream: bool) -> bytes:
        raise RuntimeError("no way")


@pytest.mark.parametrize("forwarder", [None, Forwarder(list), Broken()])
@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_nothing_a_pod_sends_keeps_others_from_their_answers(forwarder: Forwarder | None, kind: int) -> None:
    async def main() -> bytes:
        udp, tcp = (socket.socket(socket.AF_INET, each) for each in (socket.SOCK_DGRAM, socket.SOCK_STREAM))
        for each in (udp, tcp):
            each.bind(("127.0.0.1", 0))
            each.setblocking(False)
        tcp.listen()
        address = (udp if kind == socket.SOCK_DGRAM else tcp).getsockname()
        serving = asyncio.create_task(_serve(_Answers(a_zone(), forwarder), udp, tcp))
        good = DNSRecord.question("gang.ns.svc.cluster.local").pack()
        for junk in (*NO_QUESTIONS, DNSRecord.question("example.org").pack()):
            await asyncio.to_thread(send, kind, address, junk)
        reply = await asyncio.to_thread(send, kind, address, good, 2048)
        serving.cancel()
        await asyncio.wait([serving])
        return reply

    assert DNSRecord.parse(asyncio.run(main())).header.rcode == RCODE.NOERROR


def send(kind: int, address: tuple[str, int], question: bytes, hear: int = 0) -> bytes:
    with socket.socket(socket.AF_INET, kind) as client:
        client.settimeout(60)
        client.connect(address)
        prefix = struct.pack("!H", len(question)) if kind == socket.SOCK_STREAM else b""
        client.sendall(prefix + question)
        return client.recv(hear)[len(prefix) :] if hear else b""
