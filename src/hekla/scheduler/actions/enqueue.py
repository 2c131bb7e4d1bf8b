"""Who may enter: groups whose declared minimum the cluster and their queue can stand.

Only a group that has entered gets its pods made by the Job controller and is looked at by `allocate`.
"""

from __future__ import annotations

import heapq

from hekla.api.scheduling import PodGroupPhase
from hekla.scheduler.session import GroupState, Session
from hekla.scheduler.snapshot import is_on_its_way
from hekla.scheduler.tiers import Tiers


def execute(session: Session, tiers: Tiers) -> None:
    waiting: dict[str, list[tuple[tuple[object, ...], int, GroupState]]] = {}
    for number, state in enumerate(session.active):
        if state.phase is not PodGroupPhase.PENDING:
            continue
        if is_on_its_way(state.group.row, state.counts):
            state.phase = PodGroupPhase.INQUEUE
        else:
            waiting.setdefault(state.queue.name, []).append((tiers.group_key(state), number, state))
    for heap in waiting.values():
        heapq.heapify(heap)
    queues = [(tiers.queue_key(session.queues[name]), name) for name in waiting]
    heapq.heapify(queues)
    while queues:
        _, name = heapq.heappop(queues)
        if not waiting[name]:
            continue
        _, _, state = heapq.heappop(waiting[name])
        _consider(state, tiers)
        # The last one is compared with nobody.
        heapq.heappush(queues, (tiers.queue_key(session.queues[name]) if queues else (), name))


def _consider(state: GroupState, tiers: Tiers) -> None:
    try:
        objections = tiers.group_enqueueable(state) if state.group.row.min_resources is not None else None
        if objections is None:
            tiers.group_enqueued(state)
            state.phase = PodGroupPhase.INQUEUE
    except Exception as error:
        objections = [tiers.unfit_after(error)]
    state.refused = tuple(objections or ())
