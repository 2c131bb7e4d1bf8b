"""How far apart the pods of a gang may be: by the number of a tier or by its name, not by both."""

from __future__ import annotations

from hekla.api.kinds import Obj

BOTH_TIERS = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"


def names_both_tiers(topology: Obj | None) -> bool:
    given = topology or {}
    return given.get("highestTierAllowed") is not None and bool(given.get("highestTierName"))
