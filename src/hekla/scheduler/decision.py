"""The record of why a group waits: a code, a sentence, and the arithmetic behind it, as plain JSON.

For `hekla why`, `hekla plan`, `/decisions`, and the reason a waiting PodGroup carries. It tells what upstream's own
words (`grouptext.py`) leave out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hekla.api.reasons import Reason
from hekla.api.scheduling import PodGroupPhase
from hekla.scheduler.arrays.resources import Floats, Ints
from hekla.scheduler.fit import FitError, Unfit
from hekla.scheduler.grouptext import first_in_vain, group_text, is_ready
from hekla.scheduler.placing import explain
from hekla.scheduler.rows import PodStatus, show_amount
from hekla.scheduler.session import READY_STATUSES, GroupState, PodClass, Session
from hekla.scheduler.snapshot import are
from hekla.scheduler.subgroups import subgroups_of
from hekla.scheduler.tiers import Tiers

_MOST_NODES = 3  # named where pods will go


def record_of_why(session: Session, tiers: Tiers, state: GroupState, phase: PodGroupPhase) -> dict[str, Any]:
    """Everything `why` needs, as plain JSON: the code, one sentence, clauses with node counts, and the arithmetic."""
    row = state.group.row
    origin = first_in_vain(state)
    error = state.errors[origin] if origin is not None else None
    if error is None and state.held_back is not None:
        try:
            origin, error = _hopeless(session, tiers, state)
        except Exception as failed:
            # That its queue holds it back is true whatever a plugin makes of it.
            tiers.unfit_after(failed)
    reason = _decision_reason(state, error)
    resources = _resource_records(session, tiers, state, origin, error) if origin is not None else []
    return {
        "group": {"namespace": row.key.namespace, "name": row.key.name, "uid": row.uid},
        "queue": state.queue.name,
        "phase": str(phase),
        "reason": str(reason),
        "sentence": _sentence(session, state, reason, error, resources),
        "minMember": row.min_member,
        "pods": {status.text: count for status, count in zip(PodStatus, state.counts) if count},
        "nodes": len(session.snapshot.nodes),
        "clauses": [
            {"reason": str(clause.reason), "text": clause.text, "nodes": clause.nodes}
            for clause in (error.clauses if error is not None else ())
        ],
        "resources": resources,
        "subgroups": _subgroup_records(state),
        "objections": [
            {"reason": str(unfit.reason), "text": unfit.sentence}
            for unfit in [*state.refused, state.held_back, state.invalid]
            if unfit is not None
        ],
    }


def _hopeless(session: Session, tiers: Tiers, state: GroupState) -> tuple[int | None, FitError | None]:
    """A pod that its queue holds back and no node would take either, however empty; then that is the matter."""
    wanted = np.flatnonzero(are(state.status, PodStatus.PENDING) & ~state.group.gated & ~state.group.best_effort)
    for position in tiers.pods_in_order(state.group, wanted)[:1].tolist():
        of = session.class_of(state, position)
        key = (_hopeless, of)
        if key not in session.memo:
            session.memo[key] = _refused_when_empty(session, tiers, of)
        if session.memo[key] is not None:
            return position, session.memo[key]
    return None, None


def _refused_when_empty(session: Session, tiers: Tiers, of: PodClass) -> FitError | None:
    empty = session.snapshot.nodes.allocatable
    takes = np.all(empty >= session.request(of.shape), axis=1) & ~tiers.ruled_out(of)
    if np.any(takes):
        return None
    return explain(session, tiers, of, empty)


def _decision_reason(state: GroupState, error: FitError | None) -> Reason:
    if state.refused:
        return state.refused[0].reason
    if state.invalid is not None:
        return state.invalid.reason
    if state.counts[PodStatus.PIPELINED] and not state.counts[PodStatus.PENDING]:
        return Reason.WAITING_FOR_ROOM
    if error is not None:
        return error.reason
    if state.held_back is not None:
        return state.held_back.reason
    if bool(state.group.gated.any()):
        return Reason.WAITING_FOR_GATE
    return Reason.NOT_ENOUGH_RESOURCES


def _sentence(
    session: Session, state: GroupState, reason: Reason, error: FitError | None, resources: list[dict[str, Any]]
) -> str:
    objections: list[Unfit | None] = [*state.refused, state.invalid]
    said = [unfit.sentence for unfit in objections if unfit is not None]
    if said:
        return "; ".join(said)
    if reason is Reason.WAITING_FOR_ROOM and state.node is not None:
        return _promised(session, state.node[are(state.status, PodStatus.PIPELINED)])
    if error is not None:
        lacking = [
            f"{item['name']}: a pod asks for {item['wanted']}, {_most(item)}" for item in resources if not item["fits"]
        ]
        lacking += [clause.words for clause in error.clauses if clause.words]
        return f"{_subgroup_prefix(state)}{error.text} {'; '.join(lacking)}".strip()
    if state.held_back is not None:
        return _short_of(session, state, state.held_back)
    if reason is Reason.WAITING_FOR_GATE:
        gated = int(np.count_nonzero(state.group.gated & are(state.status, PodStatus.PENDING)))
        return f"{gated} of {len(state.group.pods)} pods are held by scheduling gates"
    return group_text(state, is_ready(state))


def _promised(session: Session, lines: Ints) -> str:
    """Where pods go that wait for others to leave."""
    nodes = [session.snapshot.nodes.rows[line].name for line in np.unique(lines[lines >= 0]).tolist()]
    named = ", ".join([*nodes[:_MOST_NODES], *(["…"] if nodes[_MOST_NODES:] else [])])
    noun = "pod starts" if len(lines) == 1 else "pods start"
    return f"{len(lines)} {noun} on {named} once those that are being stopped there are gone"


def _short_of(session: Session, state: GroupState, objection: Unfit) -> str:
    """What the cluster lacks for all pods that have to start together, where it is the cluster that sets the limit."""
    wanting = state.group.row.min_member - state.ready_pods
    pending = np.flatnonzero(are(state.status, PodStatus.PENDING))[: max(1, wanting)]
    if objection.reason is not Reason.NOT_ENOUGH_RESOURCES or not len(pending):
        return objection.sentence
    asked: Floats = session.snapshot.requests[state.group.shape[pending]].sum(axis=0)
    free = session.free_in_all() if not state.waiting_pods else _free_for(session, state).sum(axis=0)
    told = []
    for column in np.flatnonzero(asked > free).tolist():
        name = session.snapshot.columns.names[column]
        figures = (asked[column], free[column], session.total[column])
        wanted, left, total = (show_amount(name, float(figure)) for figure in figures)
        told.append(f"{name}: {_counted(len(pending))} for {wanted}, {left} of {total} in the whole cluster are free")
    return "; ".join(told) or objection.sentence


def _counted(pods: int) -> str:
    return "a pod asks" if pods == 1 else f"{pods} pods ask"


def _most(resource: dict[str, Any]) -> str:
    if resource["total"] == "0":
        return "no node has any"
    if not resource["possible"]:
        return f"the largest node it may use has {resource['largest']}"
    return f"the roomiest node has {resource['mostFree']} free"


def _subgroup_prefix(state: GroupState) -> str:
    """Whose pod the first error is about, where the group is divided."""
    failing = [record["name"] for record in _subgroup_records(state) if record["error"] and record["name"]]
    return f"subgroup {', '.join(failing)}: " if failing else ""


def _subgroup_records(state: GroupState) -> list[dict[str, Any]]:
    """How far each subgroup has come, and what a pod of it fails at."""
    if not state.group.row.subgroup_policies:
        return []
    subgroups = subgroups_of(state.group)
    held = subgroups.held(state, READY_STATUSES, best_effort=False).tolist()
    told = sorted(state.errors.items(), key=lambda item: (not item[1].said_of, -item[0]))
    errors = {int(subgroups.of[position]): error.text for position, error in told}
    return [
        {"name": subgroup.name, "size": subgroup.size, "placed": count, "error": errors.get(position, "")}
        for position, (subgroup, count) in enumerate(zip(subgroups.each, held))
    ]


def _free_for(session: Session, state: GroupState) -> Floats:
    """What will be free on each node; what is promised to pods of the group itself is not taken by others."""
    free = session.free_later()
    if state.waiting_pods and state.node is not None:
        promised = np.flatnonzero(are(state.status, PodStatus.PIPELINED) & (state.node >= 0))
        free = free.copy()
        np.add.at(free, state.node[promised], session.snapshot.requests[state.group.shape[promised]])
    return free


def _resource_records(
    session: Session, tiers: Tiers, state: GroupState, position: int, error: FitError | None
) -> list[dict[str, Any]]:
    """What a pod asks for beside what there is; the roomiest node is one of those that would take it at all.

    None where no node would, however empty, and not for its size: then amounts are not the matter.
    """
    of = session.class_of(state, position)
    request, free = session.request(of.shape), _free_for(session, state)
    allowed = tiers.node_mask(of)
    if allowed is not None and not allowed.any() and error is not None and error.reason is Reason.NOT_ENOUGH_RESOURCES:
        allowed = None
    suited, sizes = (
        table if allowed is None else table[allowed] for table in (free, session.snapshot.nodes.allocatable)
    )
    if len(free) and not len(suited):
        return []
    records = []
    for column, name in enumerate(session.snapshot.columns.names):
        if request[column] > 0:
            most, largest = (float(table[:, column].max(initial=0.0)) for table in (suited, sizes))
            records.append(
                {
                    "name": name,
                    "wanted": show_amount(name, float(request[column])),
                    "mostFree": show_amount(name, most),
                    "free": show_amount(name, float(free[:, column].sum())),
                    "total": show_amount(name, float(session.total[column])),
                    "largest": show_amount(name, largest),
                    "fits": most >= float(request[column]),
                    "possible": largest >= float(request[column]),
                }
            )
    return records
