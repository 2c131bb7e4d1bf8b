from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from dnslib import QTYPE, RCODE, RR, A, DNSRecord

from hekla.node.dns_forwarding import Forwarder, is_foreign, resolvers_in


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("example.org", True),
        ("EXAMPLE.org.", True),
        ("gang.default.svc.cluster.local", False),
        ("example.org.cluster.local", False),
        ("mycluster.local", True),
        ("cluster.local", False),
        ("gang-0", False),
    ],
)
def test_names_of_the_cluster_stay_in_it(name: str, expected: bool) -> None:
    assert is_foreign(DNSRecord.question(name).pack()) is expected


def test_what_is_no_question_is_not_passed_on() -> None:
    assert not is_foreign(b"nonsense")
    too_long = DNSRecord.question("x").pack()[:12] + b"\x46" + b"a" * 70 + b"\3org\0" + b"\0\1\0\1"
    assert not is_foreign(too_long)


def test_resolvers_are_the_machines(tmp_path: Path) -> None:
    (tmp_path / "resolv.conf").write_text("# nameserver 1.1.1.1\nsearch x\nnameserver 127.0.0.53\nnameserver\n")
    assert resolvers_in(tmp_path / "resolv.conf") == ["127.0.0.53"]
    assert resolvers_in(tmp_path / "nowhere") == []


def test_the_next_resolver_is_asked_when_one_does_not_answer_and_made_up_answers_do_not_count() -> None:
    async def main() -> tuple[DNSRecord, DNSRecord]:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            server.setblocking(False)
            # Nobody is at the first address: the kernel says so at once.
            forwarder = Forwarder(lambda: ["127.0.0.2", "127.0.0.1"], server.getsockname()[1])
            question = DNSRecord.question("example.org")
            asking = asyncio.create_task(forwarder.ask(question.pack(), stream=False))
            data, address = await loop.sock_recvfrom(server, 512)
            reply = DNSRecord.parse(data).reply()
            reply.add_answer(RR("example.org", QTYPE.A, rdata=A("203.0.113.5")))
            forged = bytearray(reply.pack())
            forged[0] ^= 0xFF
            await loop.sock_sendto(server, bytes(forged), address)
            await loop.sock_sendto(server, reply.pack(), address)
            good = DNSRecord.parse(await asking)
        nobody = Forwarder(list, 53)
        return good, DNSRecord.parse(await nobody.ask(question.pack(), stream=False))

    good, failed = asyncio.run(main())
    assert str(good.a.rdata) == "203.0.113.5"
    assert failed.header.rcode == RCODE.SERVFAIL
