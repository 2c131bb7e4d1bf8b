"""What the scheduler would decide about a given set of objects: the core behind `plan` and `why`, without a scheduler.

The objects are what `list` gives, in any order: nodes, queues, PodGroups, pods, PriorityClasses, volumes and so on.
Others are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable

from hekla.api.kinds import POD, Kind, Obj, kind_of
from hekla.api.scheduling import DEFAULT_QUEUE
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import Config, default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.intake import doors_of, take_in
from hekla.scheduler.plan import Plan

KINDS: tuple[Kind, ...] = (*doors_of(Cache()), POD)  # whose objects make a difference


def rehearse(
    objects: Iterable[Obj],
    config: Config | None = None,
    *,
    scheduler_names: Iterable[str] = ("volcano",),
    default_queue: str = DEFAULT_QUEUE,
    now: float = 0.0,
) -> Plan:
    """One cycle over the objects; nothing is written. `Plan.decisions()` says why each waiting group waits."""
    cache = Cache(scheduler_names=scheduler_names, default_queue=default_queue)
    put = {POD: cache.put_pod, **{kind: door.put for kind, door in doors_of(cache).items()}}
    for obj in objects:
        kind = kind_of(obj)
        if kind in put:
            take_in(put[kind], obj)
    return run_cycle(cache.snapshot("rehearsal", now=now), config or default_config())
