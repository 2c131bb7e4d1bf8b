"""Which addresses the pods' network has: a private range that the machine itself does not need."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

_PREFIX = 16


def choose_network(routes: list[ipaddress.IPv4Network], recorded: str | None = None) -> ipaddress.IPv4Network:
    """A private range that no route of the host leads to; the one used before where it still is free.

    Where every private range is routed (a company's network), any will do: the host's routes do not reach into the
    switch's namespace, so it only hides machines that pods cannot reach anyway.
    """
    tens = [(10 << 24 | second << 16, _PREFIX) for second in [*range(77, 255), *range(77)]]
    others = [(172 << 24 | second << 16, _PREFIX) for second in range(16, 32)]
    candidates = [ipaddress.IPv4Network(each) for each in tens + others]
    if recorded:
        candidates.insert(0, ipaddress.IPv4Network(recorded))
    free = (each for each in candidates if not any(each.overlaps(route) for route in routes))
    return next(free, candidates[0])


def host_networks() -> list[ipaddress.IPv4Network]:
    """What the host has routes and resolvers for, default routes aside."""
    found = []
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        columns = line.split()
        destination, mask = (socket.ntohl(int(columns[column], 16)) for column in (1, 7))
        if mask:
            found.append(ipaddress.IPv4Network((destination, str(ipaddress.IPv4Address(mask)))))
    try:
        lines = Path("/etc/resolv.conf").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver" and ":" not in words[1]:
            found.append(ipaddress.IPv4Network(words[1]))
    return found
