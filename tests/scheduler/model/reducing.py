"""The smallest cluster in which scheduler and model still differ."""

from __future__ import annotations

from hekla.scheduler.trial.miniature import Miniature
from tests.scheduler.model.comparing import differences
from tests.scheduler.model.configs import Setting

_KEPT = {("Queue", "root"), ("Queue", "default")}


def reduce_world(world: Miniature, setting: Setting) -> None:
    """Leave out one object after the other, for as long as there is one without which they differ as well."""
    while _leave_one_out(world, setting):
        continue


def _leave_one_out(world: Miniature, setting: Setting) -> bool:
    everything = world.objects
    for left_out in everything:
        if left_out not in _KEPT:
            world.objects = {key: obj for key, obj in everything.items() if key != left_out}
            if differences(world, setting):
                return True
    world.objects = everything
    return False
