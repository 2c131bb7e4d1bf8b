"""A session with plugins open on it, from objects in the short shape."""

from __future__ import annotations

from typing import Any

from hekla.scheduler.cycle import open_plugins
from hekla.scheduler.session import GroupState, Session
from hekla.scheduler.tiers import Tiers
from hekla.scheduler.trial.miniature import Miniature, short_config


class Opened:
    def __init__(self, plugins: list[Any], given: dict[str, Any]) -> None:
        world = Miniature()
        if not any(queue["name"] == "default" for queue in given.get("queues", ())):
            world.add({"queues": [{"name": "default"}]})
        world.add(given)
        self.session = Session(world.cache().snapshot())
        self.tiers: Tiers = open_plugins(short_config("allocate", [plugins]), self.session)

    def state(self, name: str) -> GroupState:
        return next(state for state in self.session.groups if state.group.row.key.name == name)
