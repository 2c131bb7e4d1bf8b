"""The scarce things of Services: cluster addresses and node ports, each held by one Service at a time.

Nothing is recorded about them but the Services themselves, so nothing can leak or disagree. `assign` is called while
a write is being sequenced: no other write comes between its look and the result.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterable

from hekla.api.kinds import SERVICE, Obj
from hekla.apiserver.invalid import Problem, invalid, refusal
from hekla.apiserver.services import has_address, has_node_ports
from hekla.apiserver.store.following import Following
from hekla.apiserver.store.store import Entry, Key, Store
from hekla.errors import InternalError

SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
# The first addresses are left to those who ask for one by name, as long as there are others.
_ASKED_FOR = 256
_NODE_PORTS = range(30000, 32768)

_Port = tuple[str, int]


class Addresses:
    def __init__(self, store: Store, rng: random.Random) -> None:
        self._rng = rng
        self._services = Following(store, f"{SERVICE.group}/{SERVICE.plural}")
        self._held: dict[Key, Obj] = {}
        self._addresses: dict[str, Key] = {}
        self._ports: dict[int, Key] = {}

    def assign(self, service: Obj, key: Key) -> None:
        """Fill in what the Service needs and does not name; refuse what it names and cannot have."""
        self._catch_up()
        spec = service["spec"]
        if has_address(spec):
            self._assign_address(spec, key)
        if has_node_ports(spec):
            self._assign_ports(spec, key)

    def _assign_address(self, spec: Obj, key: Key) -> None:
        given = spec.get("clusterIP")
        if not given:
            spec["clusterIP"] = self._free_address()
            spec["clusterIPs"] = [spec["clusterIP"]]
            return
        address, why = ipaddress.IPv4Address(given), ""
        if address not in SERVICE_NETWORK or address in (SERVICE_NETWORK[0], SERVICE_NETWORK[-1]):
            why = "the provided network does not match the current range"
        elif self._addresses.get(given, key) != key:
            why = "provided IP is already allocated"
        if why:
            problem = invalid("spec.clusterIPs", spec["clusterIPs"], f"failed to allocate IP {given}: {why}")
            raise refusal(SERVICE, key.name, [problem])

    def _free_address(self) -> str:
        last = SERVICE_NETWORK.num_addresses - 1
        for first, end in ((_ASKED_FOR + 1, last), (1, _ASKED_FOR + 1)):
            for offset in _from_anywhere(range(first, end), self._rng):
                address = str(SERVICE_NETWORK[offset])
                if address not in self._addresses:
                    return address
        raise InternalError("failed to allocate a serviceIP: range is full")

    def _assign_ports(self, spec: Obj, key: Key) -> None:
        problems: list[Problem] = []
        own: dict[_Port, int] = {}
        for index, port in enumerate(spec.get("ports") or ()):
            given = port.get("nodePort")
            if given:
                problems += self._port_problems(given, port["protocol"], own, key, f"spec.ports[{index}].nodePort")
            else:
                # parity: one number serves every protocol of a port.
                shared = [number for (_, number), of in own.items() if of == port["port"]]
                given = port["nodePort"] = shared[0] if shared else self._free_port({number for _, number in own})
            own[port["protocol"], given] = port["port"]
        if problems:
            raise refusal(SERVICE, key.name, problems)

    def _port_problems(self, given: int, protocol: str, own: dict[_Port, int], key: Key, path: str) -> list[Problem]:
        if given not in _NODE_PORTS:
            valid = f"{_NODE_PORTS[0]}-{_NODE_PORTS[-1]}"
            why = f"provided port is not in the valid range. The range of valid ports is {valid}"
            return [invalid(path, given, why)]
        if self._ports.get(given, key) != key or (protocol, given) in own:
            return [invalid(path, given, "provided port is already allocated")]
        return []

    def _free_port(self, own: set[int]) -> int:
        for number in _from_anywhere(_NODE_PORTS, self._rng):
            if number not in self._ports and number not in own:
                return number
        raise InternalError("failed to allocate a nodePort: range is full")

    def _catch_up(self) -> None:
        anew, changed = self._services.look()
        if anew:
            self._held, self._addresses, self._ports = {}, {}, {}
        for key, entry in [*changed, *self._services.in_flight()]:
            self._take_in(key, entry)

    def _take_in(self, key: Key, entry: Entry | None) -> None:
        before = self._held.pop(key, {})
        if self._addresses.get(before.get("clusterIP", "")) == key:
            del self._addresses[before["clusterIP"]]
        for number in _node_ports(before):
            if self._ports.get(number) == key:
                del self._ports[number]
        if entry is None:
            return
        spec = self._held[key] = entry.decode()["spec"]
        if has_address(spec) and spec.get("clusterIP"):
            self._addresses[spec["clusterIP"]] = key
        for number in _node_ports(spec):
            self._ports[number] = key


def _node_ports(spec: Obj) -> Iterable[int]:
    return [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]


def _from_anywhere(numbers: range, rng: random.Random) -> Iterable[int]:
    """All of them once, beginning at a random one: numbers given back are not taken again at once."""
    start = rng.randrange(len(numbers))
    yield from numbers[start:]
    yield from numbers[:start]
