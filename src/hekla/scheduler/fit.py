"""Why something does not fit: reasons as values, with the codes people see and the texts that go over the wire."""

from __future__ import annotations

from dataclasses import dataclass

from hekla.api.reasons import Reason
from hekla.scheduler.arrays.resources import Flags


@dataclass(frozen=True, slots=True)
class Unfit:
    """A "no" about a group."""

    reason: Reason
    message: str
    words: str = ""  # the same for people, where the message is upstream's: what is lacking, and by how much
    told: bool = True  # in an Event; upstream keeps silent about some

    @property
    def sentence(self) -> str:
        return self.words or self.message


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """A "no" of one filter for the nodes marked in `nodes`; final means that no eviction could change it."""

    text: str
    reason: Reason
    nodes: Flags
    final: bool = True
    words: str = ""  # more of it for people: how much is asked for, how much there is
    of_pod: bool = False  # it is the pod that lacks something: no node is judged before it has it


@dataclass(frozen=True, slots=True)
class Clause:
    """How many nodes refuse a pod for one reason."""

    text: str
    nodes: int
    reason: Reason
    words: str = ""


@dataclass(frozen=True, slots=True)
class FitError:
    """Why no node takes a pod; a node may be counted under several things that speak against it."""

    nodes: int
    clauses: tuple[Clause, ...]
    lacks_room: bool = False  # there is a node that would do but for its room
    said_of: str = ""  # where nodes were not asked: what spared that

    @property
    def text(self) -> str:
        headline = self.said_of or f"0/{self.nodes} nodes are unavailable"
        counted = sorted(f"{clause.nodes} {clause.text}" for clause in self.clauses)
        return f"{headline}: {', '.join(counted)}." if counted else headline

    @property
    def reason(self) -> Reason:
        reasons = [clause.reason for clause in self.clauses]
        if self.lacks_room or not reasons:
            return Reason.NOT_ENOUGH_RESOURCES
        telling = (reason for reason in (Reason.UNSUPPORTED, Reason.WAITING_FOR_VOLUME) if reason in reasons)
        return next(telling, Reason.NO_NODE_MATCHES)
