"""Names that are not the cluster's: passed on to the machine's own resolvers, as they came, and back."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path

from dnslib import RCODE, DNSError, DNSRecord
from dnslib.label import DNSLabelError

from hekla.node.hooks.hosts import CLUSTER_DOMAIN

_RESOLV_CONF = Path("/etc/resolv.conf")
_SECONDS = 3.0
_PORT = 53


def parsed(message: bytes) -> DNSRecord | None:
    """A message that a reply can be made to; None for anything else."""
    try:
        found = DNSRecord.parse(message)
        found.reply().pack()  # dnslib reads names that are too long, and only then refuses to write them
    except (DNSError, DNSLabelError):
        return None
    return found


def is_foreign(question: bytes) -> bool:
    """Whether it is a question about a name outside the cluster's domain."""
    asked = parsed(question)
    name = str(asked.q.qname).lower().rstrip(".") if asked is not None and asked.questions else ""
    # A name of one word is nobody's outside.
    return "." in name and not f".{name}".endswith(f".{CLUSTER_DOMAIN}")


class Forwarder:
    """Asks one resolver after the other until one answers. Read anew each time: laptops change networks."""

    def __init__(self, resolvers: Callable[[], list[str]] | None = None, port: int = _PORT) -> None:
        self._resolvers = resolvers or (lambda: resolvers_in(_RESOLV_CONF))
        self._port = port

    async def ask(self, question: bytes, *, stream: bool) -> bytes:
        for resolver in self._resolvers():
            try:
                async with asyncio.timeout(_SECONDS):
                    ask = self._ask_stream if stream else self._ask_datagram
                    return await ask(resolver, question)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                continue
        return _failure(question)

    async def _ask_stream(self, resolver: str, question: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(resolver, self._port)
        try:
            writer.write(struct.pack("!H", len(question)) + question)
            (length,) = struct.unpack("!H", await reader.readexactly(2))
            return await reader.readexactly(length)
        finally:
            writer.close()

    async def _ask_datagram(self, resolver: str, question: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[bytes] = loop.create_future()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _Reply(answered, question[:2]), remote_addr=(resolver, self._port)
        )
        try:
            transport.sendto(question)
            return await answered
        finally:
            transport.close()


def resolvers_in(path: Path) -> list[str]:
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return []
    return [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]


class _Reply(asyncio.DatagramProtocol):
    def __init__(self, answered: asyncio.Future[bytes], number: bytes) -> None:
        self._answered = answered
        self._number = number

    def datagram_received(self, data: bytes, _: object) -> None:
        # Anything else is a late answer to somebody else, or made up.
        if data[:2] == self._number and not self._answered.done():
            self._answered.set_result(data)

    def error_received(self, error: Exception) -> None:
        if not self._answered.done():
            self._answered.set_exception(error)


def _failure(question: bytes) -> bytes:
    reply = DNSRecord.parse(question).reply(ra=1)
    reply.header.rcode = RCODE.SERVFAIL
    packed: bytes = reply.pack()
    return packed
