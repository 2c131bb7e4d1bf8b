"""Network interfaces, their addresses and routes, asked of the kernel in its own language (rtnetlink).

A `Links` belongs to the network namespace it is made in. What the kernel refuses is an OSError with its number.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator

_NEWLINK, _DELLINK, _NEWADDR, _GETADDR, _NEWROUTE = 16, 17, 20, 22, 24
_ERROR, _DONE = 2, 3
_REQUEST, _ACK, _DUMP, _EXCL, _CREATE = 0x1, 0x4, 0x300, 0x200, 0x400
_NEW = _CREATE | _EXCL

_LINK_ADDRESS, _LINK_NAME, _LINK_MASTER, _LINK_INFO, _LINK_NAMESPACE_OF = 1, 3, 10, 18, 19
_INFO_KIND, _INFO_DATA, _INFO_PORT_KIND, _INFO_PORT_DATA = 1, 2, 4, 5
_VETH_PEER = 1
_PORT_ISOLATED = 33
_ADDRESS, _LOCAL = 1, 2
_DESTINATION, _THROUGH, _GATEWAY = 1, 4, 5
_ANYWHERE, _ON_LINK = 0, 253
_NESTED = 0x8000
_UP = 1
_MAIN_TABLE, _BY_ADMINISTRATOR, _UNICAST = 254, 4, 1

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ATTRIBUTE = struct.Struct("=HH")
_ANSWER_BYTES = 1 << 16


class Links:
    def __init__(self) -> None:
        self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._sequence = 0

    def __enter__(self) -> Links:
        return self

    def __exit__(self, *_: object) -> None:
        self._kernel.close()

    def add_bridge(self, name: str, hardware: str) -> None:
        kind = _nested(_LINK_INFO, _text(_INFO_KIND, "bridge"))
        address = _attribute(_LINK_ADDRESS, bytes.fromhex(hardware.replace(":", "")))
        self._ask(_NEWLINK, _NEW, _link() + _text(_LINK_NAME, name) + address + kind)

    def add_cable(self, name: str, there: str, process: int) -> None:
        """A pair of ends: `name` here, and `there` in the network namespace of a process."""
        peer = _link() + _text(_LINK_NAME, there) + _number(_LINK_NAMESPACE_OF, process)
        data = _nested(_INFO_DATA, _attribute(_VETH_PEER, peer))
        info = _nested(_LINK_INFO, _text(_INFO_KIND, "veth") + data)
        self._ask(_NEWLINK, _NEW, _link() + _text(_LINK_NAME, name) + info)

    def plug_in(self, name: str, bridge: str) -> None:
        """Make it a port of a bridge that reaches the bridge and no other such port, and bring it up."""
        index = _index(name)
        self._ask(_NEWLINK, 0, _link(index, _UP) + _number(_LINK_MASTER, _index(bridge)))
        isolated = _nested(_INFO_PORT_DATA, _attribute(_PORT_ISOLATED, b"\1"))
        self._ask(_NEWLINK, 0, _link(index) + _nested(_LINK_INFO, _text(_INFO_PORT_KIND, "bridge") + isolated))

    def bring_up(self, name: str) -> None:
        self._ask(_NEWLINK, 0, _link(_index(name), _UP))

    def delete(self, name: str) -> None:
        """One that is not there is no error: it goes with its other end, too."""
        try:
            self._ask(_DELLINK, 0, _link(_index(name)))
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise

    def add_address(self, name: str, address: str, prefix: int) -> None:
        """Having it already is no error."""
        packed = socket.inet_aton(address)
        head = struct.pack("=BBBBI", socket.AF_INET, prefix, 0, 0, _index(name))
        try:
            self._ask(_NEWADDR, _NEW, head + _attribute(_LOCAL, packed) + _attribute(_ADDRESS, packed))
        except FileExistsError:
            pass

    def add_neighbour_route(self, name: str, neighbour: str) -> None:
        """The neighbour is at the other end of this link."""
        route = _attribute(_DESTINATION, socket.inet_aton(neighbour)) + _number(_THROUGH, _index(name))
        self._ask(_NEWROUTE, _NEW, _route(32, _ON_LINK) + route)

    def add_default_route(self, gateway: str) -> None:
        self._ask(_NEWROUTE, _NEW, _route(0, _ANYWHERE) + _attribute(_GATEWAY, socket.inet_aton(gateway)))

    def addresses(self) -> set[str]:
        """Every IPv4 address here."""
        found = set()
        for message in self._answers(_GETADDR, _DUMP, struct.pack("=BBBBI", socket.AF_INET, 0, 0, 0, 0)):
            found |= {socket.inet_ntoa(value) for kind, value in _attributes(message[8:]) if kind == _ADDRESS}
        return found

    def _ask(self, request: int, flags: int, body: bytes) -> None:
        for _ in self._answers(request, flags | _ACK, body):
            pass

    def _answers(self, request: int, flags: int, body: bytes) -> Iterator[bytes]:
        """The bodies of what the kernel answers, until it has said its last word. Raises OSError when that is no."""
        self._sequence += 1
        header = _HEADER.pack(_HEADER.size + len(body), request, flags | _REQUEST, self._sequence, 0)
        self._kernel.send(header + body)
        while True:
            data = self._kernel.recv(_ANSWER_BYTES)
            while data:
                length, kind, _, sequence, _ = _HEADER.unpack_from(data)
                answer, data = data[_HEADER.size : length], data[_aligned(length) :]
                if sequence != self._sequence:
                    continue
                if kind in (_ERROR, _DONE):
                    number = -struct.unpack_from("=i", answer)[0] if answer else 0
                    if number:
                        raise OSError(number, os.strerror(number))
                    return
                yield answer


def _index(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        raise OSError(errno.ENODEV, f"there is no interface {name}") from None


def _link(index: int = 0, flags: int = 0) -> bytes:
    return _LINK.pack(socket.AF_UNSPEC, 0, index, flags, flags)


def _route(prefix: int, scope: int) -> bytes:
    return struct.pack("=BBBBBBBBI", socket.AF_INET, prefix, 0, 0, _MAIN_TABLE, _BY_ADMINISTRATOR, scope, _UNICAST, 0)


def _attribute(kind: int, value: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(value)
    return (_ATTRIBUTE.pack(length, kind) + value).ljust(_aligned(length), b"\0")


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _nested(kind: int, inner: bytes) -> bytes:
    return _attribute(kind | _NESTED, inner)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        yield kind, data[_ATTRIBUTE.size : length]
        data = data[_aligned(length) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
