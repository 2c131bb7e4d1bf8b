"""What the scheduler would decide about a given set of objects: the core behind `plan` and `why`, without a scheduler.

The objects are what `list` gives, in any order: nodes, queues, PodGroups, pods, PriorityClasses, volumes and so on.
Others are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hekla.api.kinds import POD, Kind, Obj, kind_of
from hekla.api.meta import uid_of
from hekla.api.scheduling import DEFAULT_QUEUE
from hekla.scheduler.blame import PluginFailure
from hekla.scheduler.cache import Cache
from hekla.scheduler.config import Config, default_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.intake import NOT_UNDERSTOOD, doors_of, take_in
from hekla.scheduler.plan import Plan
from hekla.scheduler.podreading import form_of, queue_gate_of
from hekla.scheduler.rows import QueueGate
from hekla.scheduler.watchdog import BUDGET_SECONDS, Watchdog

KINDS: tuple[Kind, ...] = (*doors_of(Cache()), POD)  # whose objects make a difference


def rehearse(
    objects: Iterable[Obj],
    config: Config | None = None,
    *,
    scheduler_names: Iterable[str] = ("volcano",),
    default_queue: str = DEFAULT_QUEUE,
    now: float = 0.0,
    lost: Mapping[str, PluginFailure] | None = None,
) -> Plan:
    """What the next cycle would decide; nothing is written. `Plan.decisions()` says why each waiting group waits.

    Pods that their queue lets through its gate are through it: the plan is that of the cycle after. Plugins that take
    too long are lost as they are to the scheduler; those in `lost` are known to be, and not asked.
    """
    config = config or default_config()
    given = list(objects)
    pods = [obj for obj in given if kind_of(obj) == POD]
    at_gates = {uid_of(pod): pod for pod in pods if _stands_at_gate(pod)}
    # Gates are put up only where queues mind them.
    cache = Cache(scheduler_names=scheduler_names, default_queue=default_queue, queue_gates=bool(at_gates))
    put = {POD: cache.put_pod, **{kind: door.put for kind, door in doors_of(cache).items()}}
    for obj in given:
        kind = kind_of(obj)
        if kind in put:
            take_in(put[kind], obj)
    while True:
        with Watchdog(BUDGET_SECONDS).over(config):
            plan = run_cycle(cache.snapshot("rehearsal", now=now), config, lost)
        if not plan.admitted:
            return plan
        for pod in plan.admitted:
            take_in(cache.put_pod, _let_in(at_gates[pod.uid]))


def _stands_at_gate(pod: Obj) -> bool:
    if not (pod.get("spec") or {}).get("schedulingGates"):
        return False
    try:
        return queue_gate_of(form_of(pod)) is QueueGate.SHUT
    except NOT_UNDERSTOOD:
        return False


def _let_in(pod: Obj) -> Obj:
    return {**pod, "spec": {**pod["spec"], "schedulingGates": []}}
