"""Priority and dominant share: who comes first."""

from __future__ import annotations

import numpy as np

from tests.scheduler.plugins.opened import Opened


def names_in_order(opened: Opened) -> list[str]:
    return [state.group.row.key.name for state in sorted(opened.session.groups, key=opened.tiers.group_key)]


def test_the_more_important_group_comes_first_then_the_older() -> None:
    groups = [{"name": "old"}, {"name": "young"}, {"name": "vip", "class": "high"}]
    opened = Opened(["priority"], {"classes": {"high": 10}, "groups": groups})
    assert names_in_order(opened) == ["vip", "old", "young"]


def test_more_important_pods_come_first_then_the_lower_number() -> None:
    pods = [{"cpu": 1}, {"cpu": 1, "class": "high"}, {"cpu": 1}]
    opened = Opened(["priority"], {"classes": {"high": 10}, "groups": [{"name": "a", "pods": pods}]})
    group = opened.state("a").group
    order = opened.tiers.pods_in_order(group, np.arange(3))
    assert [group.pods[position].name for position in order] == ["a-t-1", "a-t-0", "a-t-2"]


def test_the_group_with_the_smaller_dominant_share_comes_first() -> None:
    groups = [
        {"name": "memory", "pods": [{"memory": "4Gi", "node": "n1"}]},
        {"name": "cpu", "pods": [{"cpu": 1, "node": "n1"}]},
    ]
    opened = Opened(["drf"], {"nodes": [{"name": "n1", "cpu": 4, "memory": "8Gi"}], "groups": groups})
    assert names_in_order(opened) == ["cpu", "memory"]


def test_a_switched_off_order_does_not_count() -> None:
    groups = [{"name": "old"}, {"name": "vip", "class": "high"}]
    plugin = {"name": "priority", "enableJobOrder": False}
    opened = Opened([plugin], {"classes": {"high": 10}, "groups": groups})
    assert names_in_order(opened) == ["old", "vip"]
