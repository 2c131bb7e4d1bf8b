"""How many volumes are attached to which node, by driver: what the limits of CSINodes are held against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hekla.api.meta import Key
from hekla.scheduler.arrays.resources import Flags
from hekla.scheduler.rows import Pod
from hekla.scheduler.snapshot import Snapshot

_Volume = tuple[str, str]  # driver, and what tells it from the driver's others


class Attachments:
    """Volumes that several pods of a node share count once. Nothing is counted before somebody asks."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._storage = snapshot.storage
        self._moves: list[tuple[Pod, int, int]] = []
        self._users: dict[int, dict[_Volume, int]] | None = None

    def full(self, claims: Sequence[Key]) -> Flags:
        """Nodes that cannot take the volumes of the claims as well."""
        flags: Flags = np.zeros(len(self._snapshot.nodes), dtype=bool)
        wanted = self._volumes_of(claims)
        if wanted:
            users = self._counted()
            for line, node in enumerate(self._snapshot.nodes.rows):
                limits = self._storage.limits.get(node.name)
                flags[line] = limits is not None and _is_full(limits, users.get(line, {}), wanted)
        return flags

    def move(self, pod: Pod, line: int, sign: int) -> None:
        """A pod came onto a node (+1) or left it (-1) in this session."""
        if self._users is None:
            self._moves.append((pod, line, sign))
        else:
            self._count(self._users, pod, line, sign)

    def _counted(self) -> dict[int, dict[_Volume, int]]:
        if self._users is None:
            self._users = {}
            for pod, line in self._placed():
                self._count(self._users, pod, line, 1)
            for pod, line, sign in self._moves:
                self._count(self._users, pod, line, sign)
        return self._users

    def _placed(self) -> Iterator[tuple[Pod, int]]:
        lines = {node.name: line for line, node in enumerate(self._snapshot.nodes.rows)}
        groups = [group for group in (*self._snapshot.groups, *self._snapshot.resting) if group.has_claims]
        for pod in (*(pod for group in groups for pod in group.pods), *self._snapshot.strangers):
            if pod.claims and pod.holds_node and pod.node in lines:
                yield pod, lines[pod.node]

    def _count(self, users: dict[int, dict[_Volume, int]], pod: Pod, line: int, sign: int) -> None:
        here = users.setdefault(line, {})
        for volume in self._volumes_of(pod.claim_keys):
            here[volume] = here.get(volume, 0) + sign
            if not here[volume]:
                del here[volume]

    def _volumes_of(self, claims: Sequence[Key]) -> set[_Volume]:
        """What counts for some driver; a volume that is still to be made is known by its claim."""
        found = set()
        for key in claims:
            claim = self._storage.claims.get(key)
            volume = self._storage.volumes.get(claim.volume) if claim is not None else None
            if volume is not None and volume.driver:
                found.add((volume.driver, volume.handle))
            elif claim is not None and not claim.volume:
                of = self._storage.classes.get(claim.storage_class)
                if of is not None and of.makes_volumes:
                    found.add((of.provisioner, str(key)))
        return found


def _is_full(limits: Mapping[str, int], users: Mapping[_Volume, int], wanted: set[_Volume]) -> bool:
    for driver in {driver for driver, _ in wanted if driver in limits}:
        new = sum(1 for volume in wanted if volume[0] == driver and volume not in users)
        held = sum(1 for volume in users if volume[0] == driver)
        if new and held + new > limits[driver]:
            return True
    return False
