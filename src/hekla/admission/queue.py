"""Queues: their resources, their place in the tree of queues, and which may go."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from hekla.api.kinds import Obj
from hekla.api.meta import annotations_of, name_of
from hekla.api.quantity import InvalidQuantity, canonical, format_binary, format_decimal, parse
from hekla.api.scheduling import DEFAULT_QUEUE, ROOT_QUEUE, QueueState

HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
_SHARES = ("guarantee", "deserved")
# Written as everywhere; Python would also take blanks and underscores.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

Queues = Mapping[str, Obj]


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What the administrator may set: upstream's flags of the webhook, with their defaults."""

    max_depth: int = 5
    protect_root: bool = True  # the root queue's resources cannot be changed
    check_allocated_pods: bool = False  # a queue in which pods have nodes cannot be deleted


def default_queue(queue: Obj) -> None:
    """Fill in a new Queue, in place."""
    annotations = annotations_of(queue)
    path, weights = annotations.get(HIERARCHY), annotations.get(HIERARCHY_WEIGHTS)
    if path and weights and not path.startswith(ROOT_QUEUE):
        annotations[HIERARCHY], annotations[HIERARCHY_WEIGHTS] = f"{ROOT_QUEUE}/{path}", f"1/{weights}"
    spec = queue.setdefault("spec", {})
    if spec.get("reclaimable") is None:
        spec["reclaimable"] = True
    spec["weight"] = spec.get("weight") or 1


def validate_queue(queue: Obj, old: Obj | None, queues: Queues, rules: QueueRules) -> str:
    """What is wrong with a new (`old` None) or changed Queue; `queues` are all that exist."""
    errors = [*_resource_errors(queue), *_state_errors(queue), *_hierarchy_errors(queue, queues)]
    if errors:
        return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    name, spec = name_of(queue), queue.get("spec") or {}
    before = (old or {}).get("spec") or {}
    others = {other: one for other, one in queues.items() if other != name}
    if name == ROOT_QUEUE:
        changed = old is not None and any(_field(spec, field) != _field(before, field) for field in _RESOURCES)
        return _ROOT_FIXED if changed and rules.protect_root else ""
    parent_changed = old is None or spec.get("parent") != before.get("parent")
    if parent_changed and spec.get("parent") not in (None, "", ROOT_QUEUE):
        message = _parent_message(queue, others, rules.max_depth, is_new=old is None)
        if message:
            return message
    if parent_changed or any(_field(spec, field) != _field(before, field) for field in _RESOURCES):
        return _tree_message(queue, others)
    return ""


def validate_queue_deletion(name: str, queues: Queues, rules: QueueRules) -> str:
    if name in (DEFAULT_QUEUE, ROOT_QUEUE):
        return f"`{name}` queue can not be deleted"
    pods = _allocated_pods(queues.get(name)) if rules.check_allocated_pods else 0
    if pods:
        return f"queue {name} cannot be deleted because it has allocated Pods: {pods}"
    children = sorted(name_of(child) for child in _children(name, queues))
    if children:
        return f"queue {name} can not be deleted because it has {len(children)} child queues: {', '.join(children)}"
    return ""


def _allocated_pods(queue: Obj | None) -> int:
    allocated = ((queue or {}).get("status") or {}).get("allocated") or {}
    return int(parse(allocated.get("pods") or 0))


_RESOURCES = ("capability", "deserved", "guarantee")
_ROOT_FIXED = "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"


def _field(spec: Obj, field: str) -> Obj:
    """The resources of a field in canonical form; `guarantee` wraps them once more."""
    given = spec.get(field) or {}
    if field == "guarantee":
        given = given.get("resource") or {}
    return {name: canonical(amount) for name, amount in given.items()}


def _amounts(queue: Obj | None, field: str) -> dict[str, Decimal]:
    return {name: parse(amount) for name, amount in _field((queue or {}).get("spec") or {}, field).items()}


def _resource_errors(queue: Obj) -> list[str]:
    spec, base = queue.get("spec") or {}, "requestBody.spec"
    try:
        fields = {field: _field(spec, field) for field in _RESOURCES}
    except InvalidQuantity as error:
        return [f"{base}: Invalid value: {error}"]
    paths = {"guarantee": f"{base}.guarantee.resource"}
    errors = [
        f'{paths.get(field, f"{base}.{field}")}.{name}: Invalid value: "{amount}": must be greater than or equal to 0'
        for field, amounts in fields.items()
        for name, amount in amounts.items()
        if parse(amount) < 0
    ]
    for name, least in fields["guarantee"].items():
        share = fields["deserved"].get(name)
        where = f"{base}.deserved.{name}"
        if share is None:
            errors.append(f'{where}: Invalid value: "<nil>": deserved[{name}] must be >= guarantee[{name}]={least}')
        elif parse(share) < parse(least):
            text = f"deserved[{name}]={share} must be >= guarantee[{name}]={least}"
            errors.append(f'{where}: Invalid value: "{share}": {text}')
    for name, share in fields["deserved"].items():
        most = fields["capability"].get(name)
        if most is not None and parse(share) > parse(most):
            text = f"deserved[{name}]={share} must be <= capability[{name}]={most}"
            errors.append(f'{base}.deserved.{name}: Invalid value: "{share}": {text}')
    return errors


def _state_errors(queue: Obj) -> list[str]:
    state = (queue.get("status") or {}).get("state") or ""
    if state in ("", QueueState.OPEN, QueueState.CLOSED):
        return []
    return [f'requestBody.spec.state: Invalid value: "{state}": queue state must be in [Open Closed]']


def _hierarchy_errors(queue: Obj, queues: Queues) -> list[str]:
    annotations = annotations_of(queue)
    path, weights = annotations.get(HIERARCHY, ""), annotations.get(HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return []
    where = "requestBody.metadata.annotations: Invalid value:"
    if len(path.split("/")) != len(weights.split("/")):
        return [f'{where} "{path}": {HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}']
    for weight in weights.split("/"):
        errors = _weight_errors(weight, weights, where)
        if errors:
            return errors
    for other in queues.values():
        theirs = annotations_of(other).get(HIERARCHY, "")
        if name_of(other) != name_of(queue) and theirs.startswith(f"{path}/"):
            text = f"{path} is not allowed to be in the sub path of {theirs} of queue {name_of(other)}"
            return [f'{where} "{path}": {text}']
    return []


def _weight_errors(weight: str, weights: str, where: str) -> list[str]:
    number = float(weight) if _NUMBER.fullmatch(weight) else None
    if number is None or math.isinf(number):
        why = "invalid syntax" if number is None else "value out of range"
        problem = f'strconv.ParseFloat: parsing "{weight}": {why}'
        return [f'{where} "{weights}": {weight} in the {weights} is invalid number: {problem}']
    return [] if number > 0 else [f'{where} "{weights}": {weight} in the {weights} must be larger than 0']


def _parent_message(queue: Obj, others: Queues, max_depth: int, *, is_new: bool) -> str:
    name, parent = name_of(queue), str(queue["spec"]["parent"])
    if parent == name:
        return f"queue {name} cannot use itself as parent"
    depth, above = 1, parent
    while above and above != ROOT_QUEUE:
        depth += 1
        # A queue below one of its own children would have no end of queues above it.
        is_ring = above == name and not is_new
        if depth > max_depth or is_ring:
            return f"queue {name} exceeds the maximum allowed depth of {max_depth}"
        if above not in others:
            return (
                f'failed to get parent queue {above} of queue {name}: queue.scheduling.volcano.sh "{above}" not found'
            )
        above = str((others[above].get("spec") or {}).get("parent") or "")
    pods = int(parse(((others[parent].get("status") or {}).get("allocated") or {}).get("pods", 0)))
    if pods > 0 and not _children(parent, others):
        return f"queue {parent} cannot be the parent queue of queue {name} because it has allocated Pods: {pods}"
    return ""


def _tree_message(queue: Obj, others: Queues) -> str:
    """Whether the queue's resources fit between those above and those below it. A capability of 0 is none."""
    name, parent = name_of(queue), str((queue.get("spec") or {}).get("parent") or "")
    own = {resource: amount for resource, amount in _amounts(queue, "capability").items() if amount > 0}
    for resource, amount in own.items():
        most = _ancestor_capability(queue, resource, others)
        if most and amount > most:
            text = f"capability[{resource}]={_show(resource, amount)} exceeds its ancestor's capability"
            return f"queue {name} {text}={_show(resource, most)}"
    if parent not in ("", ROOT_QUEUE) and parent in others:
        message = _shares_message([*_children(parent, others), queue], others[parent])
        if message:
            return f"parent queue {parent} validation failed: {message}"
    children = _children(name, others)
    for resource, amount in own.items():
        largest = max((_largest_below(child, resource, others) for child in children), default=Decimal(0))
        if amount < largest:
            text = f"capability[{resource}]={_show(resource, amount)} is smaller than its descendants' max capability"
            return f"queue {name} {text}={_show(resource, largest)}"
    message = _shares_message(children, queue)
    return f"queue {name} validation failed: {message}" if message else ""


def _ancestor_capability(queue: Obj, resource: str, others: Queues) -> Decimal | None:
    above, passed = str((queue.get("spec") or {}).get("parent") or ""), set[str]()
    while above != ROOT_QUEUE and above in others and above not in passed:
        passed.add(above)
        capability = _amounts(others[above], "capability")
        if capability.get(resource):
            return capability[resource]
        above = str((others[above].get("spec") or {}).get("parent") or "")
    return None


def _largest_below(queue: Obj, resource: str, others: Queues) -> Decimal:
    capability = _amounts(queue, "capability")
    if capability.get(resource):
        return capability[resource]
    below = _children(name_of(queue), others)
    return max((_largest_below(child, resource, others) for child in below), default=Decimal(0))


def _shares_message(children: Iterable[Obj], parent: Obj) -> str:
    """Whether what children are promised is there; told about the first child that is too much."""
    totals: dict[str, dict[str, Decimal]] = {share: {} for share in _SHARES}
    for child in children:
        for share, total in totals.items():
            for resource, amount in _amounts(child, share).items():
                total[resource] = total.get(resource, Decimal(0)) + amount
            limit = _amounts(parent, share)
            if any(amount > limit.get(resource, Decimal(0)) for resource, amount in total.items()):
                sums = f"({_sum_text(total)}) exceeds parent's {share} limit ({_sum_text(limit)})"
                return f"sum of children's {share} {sums}"
    return ""


def _sum_text(amounts: Mapping[str, Decimal]) -> str:
    head = f"cpu {amounts.get('cpu', Decimal(0)) * 1000:.2f}, memory {amounts.get('memory', Decimal(0)):.2f}"
    scalars = [
        f"{name} {amount * 1000:.2f}" for name, amount in sorted(amounts.items()) if name not in ("cpu", "memory")
    ]
    return ", ".join([head, *scalars])


def _children(name: str, queues: Queues) -> list[Obj]:
    return [queue for queue in queues.values() if (queue.get("spec") or {}).get("parent") == name]


def _show(resource: str, amount: Decimal) -> str:
    """parity: amounts other than CPU and memory are told in thousandths."""
    if resource == "cpu":
        return format_decimal(amount)
    return format_binary(amount) if resource == "memory" else f"{amount * 1000:.2f}"
