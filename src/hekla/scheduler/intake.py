"""Objects on their way into the cache: which kinds there are, and what becomes of one that cannot be understood.

It is named and passed over; the rest goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from hekla.api.kinds import (
    CSI_NODE,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD_DISRUPTION_BUDGET,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    RESOURCE_QUOTA,
    SERVICE,
    STORAGE_CLASS,
    Kind,
    Obj,
)
from hekla.client.views import View
from hekla.log import get_logger
from hekla.scheduler.cache import Cache
from hekla.scheduler.rows import WORKLOADS
from hekla.scheduler.siblings import SelectingView

log = get_logger("scheduler")

# What reading raises that finds something else than it expects, whatever it is.
NOT_UNDERSTOOD = (AttributeError, ArithmeticError, LookupError, TypeError, ValueError, msgspec.MsgspecError)


class Door(NamedTuple):
    """How objects of a kind get into the cache and out of it; each tells whether a decision may change."""

    put: Callable[[Obj], bool]
    remove: Callable[[Obj], bool]
    view: View | None = None  # what of them is looked at, where that is little


def doors_of(cache: Cache) -> Mapping[Kind, Door]:
    """For every kind that the scheduler looks at but pods, which are too many to come as whole objects."""
    siblings = cache.siblings
    return {
        NODE: Door(cache.put_node, cache.remove_node),
        PRIORITY_CLASS: Door(cache.put_priority_class, cache.remove_priority_class),
        QUEUE: Door(cache.put_queue, cache.remove_queue),
        POD_DISRUPTION_BUDGET: Door(cache.put_budget, cache.remove_budget),
        RESOURCE_QUOTA: Door(cache.put_quota, cache.remove_quota),
        STORAGE_CLASS: Door(cache.put_storage_class, cache.remove_storage_class),
        NAMESPACE: Door(cache.put_namespace, cache.remove_namespace),
        CSI_NODE: Door(cache.put_attach_limits, cache.remove_attach_limits),
        PERSISTENT_VOLUME: Door(cache.put_volume, cache.remove_volume),
        PERSISTENT_VOLUME_CLAIM: Door(cache.put_claim, cache.remove_claim),
        POD_GROUP: Door(cache.put_group, cache.remove_group),
        SERVICE: Door(siblings.put_service, siblings.remove_service, SelectingView),
        **{
            kind: Door(partial(siblings.put_workload, kind), partial(siblings.remove_workload, kind), SelectingView)
            for kind in WORKLOADS
        },
    }


def take_in(put: Callable[[Obj], bool], obj: Obj) -> bool:
    """Whether a decision may come out differently for it. Of one that has become odd the last sane state stays."""
    try:
        return put(obj)
    except NOT_UNDERSTOOD as error:
        meta = obj.get("metadata") or {}
        log.error(
            "object not understood", kind=obj.get("kind"), namespace=meta.get("namespace"), name=meta.get("name"),
            error=error,
        )  # fmt: skip
        return False
