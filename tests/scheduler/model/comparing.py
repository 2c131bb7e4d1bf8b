"""Where the scheduler decides otherwise than the model."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random

from hekla.scheduler.plan import GroupOutcome, Plan
from hekla.scheduler.trial.miniature import Miniature
from tests.scheduler.model.configs import Setting, random_setting
from tests.scheduler.model.cycle import decide
from tests.scheduler.model.decisions import Decisions
from tests.scheduler.model.words import told
from tests.scheduler.model.worlds import random_world


def random_case(seed: int) -> tuple[Miniature, Setting]:
    rng = Random(seed)
    setting = random_setting(rng)
    return random_world(rng, setting), setting


def differences(world: Miniature, setting: Setting) -> list[str]:
    """In words; the scheduler's answer first."""
    wanted = decide(copy.deepcopy(world.objects), setting.actions, setting.tiers)
    plan = world.cycle()
    return [*(failure.sentence for failure in plan.failures), *_of_plan(plan, wanted)]


def _of_plan(plan: Plan, wanted: Decisions) -> Iterator[str]:
    bound = {pod.name: node for placement in plan.placements for pod, node in placement.pairs()}
    if bound != wanted.bindings:
        yield f"bound: {bound}, not {wanted.bindings}"
    evicted = {eviction.pod.name: eviction.reason for eviction in plan.evictions}
    if evicted != wanted.evictions:
        yield f"evicted: {evicted}, not {wanted.evictions}"
    outcomes = {outcome.group.row.key.name: outcome for outcome in plan.groups}
    if outcomes.keys() != {group.name for group in wanted.cluster.groups}:
        yield f"looked at: {sorted(outcomes)}"
    for name, outcome in outcomes.items():
        yield from (f"{name}: {text}" for text in _of_group(outcome, wanted))


def _of_group(outcome: GroupOutcome, wanted: Decisions) -> Iterator[str]:
    group = next((group for group in wanted.cluster.groups if group.name == outcome.group.row.key.name), None)
    if group is None:
        return
    # What else a phase may become follows from the pods, and is no decision.
    if {str(outcome.phase), group.phase} == {"Pending", "Inqueue"}:
        yield f"is {outcome.phase}, not {group.phase}"
    texts = told(group)
    for name in sorted(texts.keys() - {pod.name for pod, _ in outcome.pod_conditions}):
        yield f"{name} is told nothing, not {texts[name]}"
    for pod, condition in outcome.pod_conditions:
        expected = texts.get(pod.name)
        if expected is None:
            yield f"{pod.name} is told {condition.message!r}, not nothing"
            continue
        message = condition.message if expected.message is None else expected.message
        said = (condition.reason, condition.message, condition.nominated)
        if said != (expected.reason, message, expected.nominated):
            yield f"{pod.name} is told {said}, not {expected}"
