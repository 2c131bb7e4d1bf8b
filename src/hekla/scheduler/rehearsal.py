"""What the scheduler would decide about a given set of objects: the core behind `plan` and `why`, without a scheduler.

The objects are what `list` gives, in any order: nodes, queues, PodGroups, pods, PriorityClasses, volumes and so on.
Others are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable

from hekla.api.kinds import (
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    RESOURCE_QUOTA,
    STORAGE_CLASS,
    Obj,
    kind_of,
)
from hekla.api.scheduling import DEFAULT_QUEUE
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import Config, default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.intake import take_in
from hekla.scheduler.plan import Plan


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
    put = {
        NODE: cache.put_node,
        POD: cache.put_pod,
        POD_GROUP: cache.put_group,
        PRIORITY_CLASS: cache.put_priority_class,
        QUEUE: cache.put_queue,
        POD_DISRUPTION_BUDGET: cache.put_budget,
        RESOURCE_QUOTA: cache.put_quota,
        STORAGE_CLASS: cache.put_storage_class,
        PERSISTENT_VOLUME: cache.put_volume,
        PERSISTENT_VOLUME_CLAIM: cache.put_claim,
    }
    for obj in objects:
        kind = kind_of(obj)
        if kind in put:
            take_in(put[kind], obj)
    return run_cycle(cache.snapshot("rehearsal", now=now), config or default_config())
