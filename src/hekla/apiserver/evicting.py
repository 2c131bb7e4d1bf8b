"""Evicting a pod: deleting it, as far as its disruption budget allows.

An allowance is spent while the write of the budget is being sequenced: of two evictions at the same moment, the second
sees what the first has left. Who counts the pods finds the evicted one noted in the budget's status.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from hekla.api.budget import SYNC_FAILED, Budget, is_ready, read_budget, spent
from hekla.api.core import FINISHED_POD_PHASES, PodPhase
from hekla.api.kinds import POD_DISRUPTION_BUDGET, Obj
from hekla.api.meta import is_deleting, namespace_of
from hekla.apiserver.decoding import decode_object
from hekla.apiserver.deleting import DeleteOptions, read_options
from hekla.apiserver.path import Route
from hekla.apiserver.request import Request, Response, json_response, not_found, success_status
from hekla.apiserver.resource import Resource
from hekla.apiserver.store.store import Entry, Key, Store
from hekla.apiserver.writing import Writer
from hekla.clock import Clock
from hekla.errors import ApiError, Conflict, Forbidden, TooManyRequests

_BUDGETS = f"{POD_DISRUPTION_BUDGET.group}/{POD_DISRUPTION_BUDGET.plural}"
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
# Of evictions that nobody has counted yet. So many mean that nobody is counting.
_MOST_NOTES = 2000
_SOON_SECONDS = 10
_REVISION = "resourceVersion"


class Evictions:
    def __init__(self, store: Store, writer: Writer, *, clock: Clock) -> None:
        self._store = store
        self._writer = writer
        self._clock = clock

    async def answer(self, resource: Resource, route: Route, request: Request) -> Response:
        eviction = decode_object(request, "Eviction")
        options = read_options(eviction.get("deleteOptions") or {}, request.query)
        key = Key(resource.storage, route.namespace, route.name)
        while not await self._evict(resource, key, options):
            continue
        return json_response(success_status(code=201), 201)

    async def _evict(self, resource: Resource, key: Key, options: DeleteOptions) -> bool:
        """Whether that is done; else the pod was another when it came to deleting it, and is to be looked at again."""
        entry = self._store.newest(key)
        if entry is None:
            raise not_found(resource.kind, key.name)
        pod = entry.decode()
        budget = None if _is_no_loss(pod) else self._budget_of(pod)
        costs = budget is not None and _costs(budget, pod)
        if budget is not None and costs:
            await self._spend(budget, key.name, options.dry_run)
        # What was free because of the pod's state is free only in that state.
        pinned = not costs and not is_deleting(pod) and _REVISION not in options.preconditions
        if pinned:
            revision = pod["metadata"]["resourceVersion"]
            options = replace(options, preconditions={**options.preconditions, _REVISION: revision})
        try:
            await self._writer.delete(resource, key, options)
        except Conflict:
            if pinned and self._store.newest(key) is not entry:
                return False
            raise
        return True

    def _budget_of(self, pod: Obj) -> Budget | None:
        entries = self._store.entries(_BUDGETS, namespace_of(pod))
        covering = [budget for entry in entries if (budget := read_budget(entry.decode())).covers(pod)]
        if len(covering) > 1:
            raise ApiError(_SEVERAL, reason="")
        return covering[0] if covering else None

    async def _spend(self, budget: Budget, pod: str, dry_run: bool) -> None:
        key, spend = Key(_BUDGETS, *budget.key), _Spend(budget.key.name, pod, self._clock.now())
        if dry_run:
            spend(self._store.newest(key))
        else:
            await self._store.write(key, spend)


class _Spend:
    """A guard: the budget with one eviction less to give, unless it has none."""

    def __init__(self, name: str, pod: str, now: datetime) -> None:
        self._name = name
        self._pod = pod
        self._now = now

    def __call__(self, current: Entry | None) -> Obj:
        if current is None:
            raise not_found(POD_DISRUPTION_BUDGET, self._name)
        obj = current.decode()
        budget = read_budget(obj)
        refusal = _refusal(budget)
        if refusal is not None:
            raise refusal
        return {**obj, "status": spent(budget, self._pod, self._now)}


def _is_no_loss(pod: Obj) -> bool:
    """Whether nobody misses it: not yet there, at its end, or going already."""
    phase = (pod.get("status") or {}).get("phase")
    return phase == PodPhase.PENDING or phase in FINISHED_POD_PHASES or is_deleting(pod)


def _costs(budget: Budget, pod: Obj) -> bool:
    """Of pods that are not well, one less is no disruption, provided the others are enough."""
    if is_ready(pod):
        return True
    desired = budget.number("desiredHealthy")
    return not (budget.always_evicts_unhealthy or budget.number("currentHealthy") >= desired > 0)


def _refusal(budget: Budget) -> ApiError | None:
    """Why no pod may leave now."""
    name, allowed = budget.key.name, budget.number("disruptionsAllowed")
    if budget.number("observedGeneration") < budget.generation:
        why = f"The disruption budget {name} is still being processed by the server."
        return TooManyRequests(_REFUSED, details={"causes": [_cause(why)], "retryAfterSeconds": _SOON_SECONDS})
    if allowed < 0:
        return _forbidden(name, "pdb disruptions allowed is negative")
    if len(budget.disrupted) > _MOST_NOTES:
        return _forbidden(name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if allowed == 0:
        return TooManyRequests(_REFUSED, details={"causes": [_cause(_shortage(budget))]})
    return None


def _shortage(budget: Budget) -> str:
    name, desired, healthy = budget.key.name, budget.number("desiredHealthy"), budget.number("currentHealthy")
    condition = budget.condition
    message = condition.get("message") if condition.get("status") == "False" else ""
    if message and condition.get("reason") == SYNC_FAILED:
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    told = f" ({condition.get('reason')}): {message}" if message else ""
    return f"The disruption budget {name} does not allow evicting pods currently{told}"


def _cause(why: str) -> Obj:
    return {"reason": "DisruptionBudget", "message": why}


def _forbidden(name: str, why: str) -> Forbidden:
    # parity: this refusal names the resource in the singular.
    kind = POD_DISRUPTION_BUDGET
    details = {"name": name, "group": kind.group, "kind": kind.singular}
    return Forbidden(f'{kind.singular}.{kind.group} "{name}" is forbidden: {why}', details=details)
