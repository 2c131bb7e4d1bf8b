"""Which volumes the pods of a cycle will use: claims that wait for a node are given one as their pods are placed.

A claim that waits for its first pod is decided with that pod's node: a volume that is there and can be reached from the
node, the smallest that will do, or else one to be made for the node. From then on, in this cycle, the claim is where it
was decided. What a discarded statement had decided is free again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hekla.api.meta import Key
from hekla.api.selector import Operator
from hekla.scheduler.arrays.resources import Flags
from hekla.scheduler.matching import matches
from hekla.scheduler.rows import Node, Term
from hekla.scheduler.storage import Claim, ClaimChoice, Storage, StorageClass, Volume
from hekla.scheduler.zones import Zones, is_reached

_HOSTNAME = "kubernetes.io/hostname"


@dataclass(slots=True)
class _Decided:
    choice: ClaimChoice
    line: int
    pods: int = 1  # that were placed on the strength of it


class VolumeBook:
    def __init__(self, storage: Storage, nodes: Sequence[Node]) -> None:
        self._storage = storage
        self._nodes = nodes
        self._decided: dict[Key, _Decided] = {}
        self._taken: set[str] = set()
        self._reached: dict[str, Flags] = {}
        self._of_zones: dict[Zones, Flags] = {}
        self._suitable: dict[Key, list[Volume]] = {}
        self._meant_for: dict[Key, list[Volume]] = {}
        self._by_hostname: dict[str, list[int]] | None = None

    def is_open(self, claims: Iterable[Key]) -> bool:
        """Whether placing a pod decides about one of the claims."""
        return any(self._waiting(key) is not None for key in claims)

    def out_of_reach(self, claims: Sequence[Key]) -> Flags:
        """Nodes from which volumes that the claims are bound to, or meant for, cannot be reached."""
        reached = np.ones(len(self._nodes), dtype=bool)
        for volume in filter(None, map(self._settled_volume, claims)):
            reached &= self._reach(volume)
        return ~reached

    def out_of_zone(self, claims: Sequence[Key]) -> Flags:
        """Nodes in other zones than labels say of the volumes that the claims are bound to."""
        inside = np.ones(len(self._nodes), dtype=bool)
        for volume in filter(None, map(self._settled_volume, claims)):
            if volume.zones not in self._of_zones:
                self._of_zones[volume.zones] = np.array([is_reached(volume.zones, node.labels) for node in self._nodes])
            inside &= self._of_zones[volume.zones]
        return ~inside

    def without_volume(self, claims: Sequence[Key]) -> Flags:
        """Nodes for which a waiting claim has neither a volume nor anybody who would make one."""
        waiting = [claim for claim in map(self._waiting, claims) if claim is not None]
        found = np.ones(len(self._nodes), dtype=bool)
        for claim in waiting:
            found &= self._possible(claim)
        if len(waiting) > 1:
            # Each for itself would find one; together they may want the same.
            for line in np.flatnonzero(found).tolist():
                found[line] = self._choose(waiting, line) is not None
        return ~found

    def take(self, claims: Sequence[Key], line: int) -> None:
        """A pod with these claims was put on the node."""
        waiting = [claim for claim in map(self._waiting, claims) if claim is not None]
        for choice in self._choose([claim for claim in waiting if claim.key not in self._decided], line) or ():
            self._decided[choice.claim] = _Decided(choice, line, pods=0)
            self._taken.add(choice.volume)
        for claim in waiting:
            if claim.key in self._decided:
                self._decided[claim.key].pods += 1

    def give_back(self, claims: Sequence[Key]) -> None:
        """The inverse of `take`."""
        for key in claims:
            decided = self._decided.get(key)
            if decided is None:
                continue
            decided.pods -= 1
            if not decided.pods:
                del self._decided[key]
                self._taken.discard(decided.choice.volume)

    def choices(self, claims: Iterable[Key]) -> Iterator[ClaimChoice]:
        """What was decided about the claims in this cycle."""
        return (self._decided[key].choice for key in claims if key in self._decided)

    def _waiting(self, key: Key) -> Claim | None:
        claim = self._storage.claims.get(key)
        if claim is None or claim.volume or not self._class_of(claim).waits_for_node:
            return None
        return claim

    def _class_of(self, claim: Claim) -> StorageClass:
        return self._storage.classes.get(claim.storage_class) or StorageClass(False, "", None)

    def _settled_volume(self, key: Key) -> Volume | None:
        claim = self._storage.claims.get(key)
        return self._storage.volumes.get(claim.volume) if claim is not None else None

    def _possible(self, claim: Claim) -> Flags:
        """Nodes for which the claim, by itself, has a volume or can be given one."""
        decided = self._decided.get(claim.key)
        if decided is not None and decided.choice.volume:
            return self._reach(self._storage.volumes[decided.choice.volume])
        if decided is not None:
            return self._only(decided.line)
        meant = self._meant(claim)
        if not meant and self._is_being_made(claim):
            return self._made_for(claim)
        found = np.zeros(len(self._nodes), dtype=bool)
        for volume in meant or self._suited(claim):
            if volume.name not in self._taken:
                found |= self._reach(volume)
        return found if meant else found | self._made_for(claim)

    def _choose(self, claims: Sequence[Claim], line: int) -> list[ClaimChoice] | None:
        """What each claim gets on the node, no volume twice; None where one gets nothing."""
        taken, chosen = set(self._taken), []
        # The modest first: the larger volumes are left to those that need them.
        for claim in sorted(claims, key=lambda claim: (claim.size, claim.key)):
            if claim.key in self._decided:
                if not self._possible(claim)[line]:
                    return None
                continue
            choice = self._choice(claim, line, taken)
            if choice is None:
                return None
            taken.add(choice.volume)
            chosen.append(choice)
        return chosen

    def _choice(self, claim: Claim, line: int, taken: set[str]) -> ClaimChoice | None:
        meant = self._meant(claim)
        node = self._nodes[line].name
        if meant or not self._is_being_made(claim):
            for volume in meant or self._suited(claim):
                if volume.name not in taken and self._reach(volume)[line]:
                    return ClaimChoice(claim.key, volume.name, node)
        return ClaimChoice(claim.key, "", node) if not meant and self._made_for(claim)[line] else None

    def _meant(self, claim: Claim) -> list[Volume]:
        found = self._meant_for.get(claim.key)
        if found is None:
            meant = [volume for volume in self._suited(claim) if volume.is_meant_for(claim)]
            found = self._meant_for[claim.key] = meant
        return found

    def _is_being_made(self, claim: Claim) -> bool:
        return bool(claim.node) and self._class_of(claim).makes_volumes

    def _suited(self, claim: Claim) -> list[Volume]:
        """Volumes that would do for the claim and are nobody else's, the smallest first."""
        found = self._suitable.get(claim.key)
        if found is None:
            candidates = [
                volume
                for volume in self._storage.volumes.values()
                if volume.suits(claim) and (volume.claim is None or volume.is_meant_for(claim))
            ]
            found = self._suitable[claim.key] = sorted(candidates, key=lambda volume: (volume.size, volume.name))
        return found

    def _made_for(self, claim: Claim) -> Flags:
        """Nodes for which a volume would be made; once one is asked for, that node alone."""
        of = self._class_of(claim)
        if not of.makes_volumes:
            return np.zeros(len(self._nodes), dtype=bool)
        allowed = self._matching(of.terms)
        if self._is_being_made(claim):
            allowed &= np.array([node.name == claim.node for node in self._nodes], dtype=bool)
        return allowed

    def _reach(self, volume: Volume) -> Flags:
        found = self._reached.get(volume.name)
        if found is None:
            found = self._reached[volume.name] = self._matching(volume.terms)
        return found

    def _matching(self, terms: tuple[Term, ...] | None) -> Flags:
        if terms is None:
            return np.ones(len(self._nodes), dtype=bool)
        flags = np.zeros(len(self._nodes), dtype=bool)
        for term in terms:
            flags[[line for line in self._candidates(term) if matches(term, self._nodes[line])]] = True
        return flags

    def _candidates(self, term: Term) -> Iterable[int]:
        """Volumes of one machine name it; there may be as many of them as machines."""
        for requirement in term.labels.requirements:
            if requirement.key == _HOSTNAME and requirement.operator is Operator.IN:
                lines = self._lines_by_hostname()
                return [line for value in requirement.values for line in lines.get(value, ())]
        return range(len(self._nodes))

    def _lines_by_hostname(self) -> dict[str, list[int]]:
        if self._by_hostname is None:
            self._by_hostname = {}
            for line, node in enumerate(self._nodes):
                self._by_hostname.setdefault(node.labels.get(_HOSTNAME, ""), []).append(line)
        return self._by_hostname

    def _only(self, line: int) -> Flags:
        flags: Flags = np.zeros(len(self._nodes), dtype=bool)
        flags[line] = True
        return flags
