"""What a pod's containers hold while they are being resized.

From the wish for another size until it has come true a container holds the larger of the two, resource by resource. A
wish that its node can never grant counts for nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from hekla.api.kinds import Obj
from hekla.api.quantity import parse

_INFEASIBLE = "Infeasible"
_MARK = b'esources":'  # as `allocatedResources` and `resources` end


class Sizes(NamedTuple):
    """What a pod's status says of sizes, as bytes: alike for pods of one template, so that it is looked into once."""

    containers: tuple[tuple[str, bytes, bytes], ...]  # name, allocated resources, resources in force
    in_vain: bool  # the wish cannot be granted


class ContainerStatusForm(msgspec.Struct, rename="camel", gc=False):
    name: str
    resources: msgspec.Raw = msgspec.Raw(b"")
    allocated_resources: msgspec.Raw = msgspec.Raw(b"")


_decode_statuses = msgspec.json.Decoder(list[ContainerStatusForm] | None).decode


def tells_sizes(statuses: bytes) -> bool:
    """Whether statuses of containers are worth a look: most say nothing of sizes, and there are very many."""
    return _MARK in statuses


def sizes_of(statuses: tuple[bytes, ...], reported: tuple[str | None, ...]) -> Sizes | None:
    """From the statuses of a pod's containers, and what its node reports of a wish; None where nobody says a size."""
    forms = [form for raw in filter(tells_sizes, statuses) for form in _decode_statuses(raw) or ()]
    told = [(form.name, bytes(form.allocated_resources), bytes(form.resources)) for form in forms]
    found = tuple((name, allocated, in_force) for name, allocated, in_force in told if allocated or in_force)
    return Sizes(found, _INFEASIBLE in reported) if found else None


def with_sizes(spec: Obj, sizes: Sizes | None) -> Obj:
    """The spec as it would be if its containers asked for what they hold."""
    if sizes is None:
        return spec
    held = {name: _held(allocated, in_force) for name, allocated, in_force in sizes.containers}
    parts = {
        part: [_sized(container, held.get(container["name"], []), sizes.in_vain) for container in spec[part]]
        for part in ("containers", "initContainers")
    }
    return {**spec, **parts}


def _held(allocated: bytes, in_force: bytes) -> list[dict[str, Any]]:
    resources = msgspec.json.decode(in_force) if in_force else None
    lists = (msgspec.json.decode(allocated) if allocated else None, (resources or {}).get("requests"))
    return [amounts for amounts in lists if amounts]


def _sized(container: Obj, held: list[dict[str, Any]], in_vain: bool) -> Obj:
    asked = (container["resources"] or {}).get("requests") or {}
    largest: dict[str, Any] = {} if in_vain and held else dict(asked)
    for amounts in held:
        for name, amount in amounts.items():
            if name not in largest or parse(amount) > parse(largest[name]):
                largest[name] = amount
    return {**container, "resources": {"requests": largest}}
