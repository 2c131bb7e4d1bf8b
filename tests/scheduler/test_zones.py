"""Volumes with labels of zones, and nodes that do or do not say where they are."""

from __future__ import annotations

import pytest

from hekla.scheduler.zones import is_reached, read_zones

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("volume", "node", "reached"),
    [
        ({}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: " a __ b "}, {ZONE: "b"}, True),
        ({ZONE: "a"}, {"other": "x"}, True),
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, True),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "b", ZONE: "a"}, False),
        ({ZONE: "a"}, {OLD_ZONE: "a"}, False),
        ({ZONE: "a____b"}, {ZONE: "c"}, True),
        ({ZONE: ""}, {ZONE: "c"}, True),
    ],
)
def test_a_volume_is_reached_from_its_zone(volume: dict[str, str], node: dict[str, str], reached: bool) -> None:
    assert is_reached(read_zones(volume), node) == reached
