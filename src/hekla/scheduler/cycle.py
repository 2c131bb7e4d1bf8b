"""One pass of the scheduler: `run_cycle(snapshot, config) -> Plan`.

No I/O, no clock, no randomness: the same snapshot gives the same plan to the byte. The live scheduler, `plan`,
`why`, tests and simulation all call this one function.
"""

from __future__ import annotations

from hekla.scheduler.config import Config
from hekla.scheduler.extension import OpenPlugin, Tiers
from hekla.scheduler.outcome import make_plan
from hekla.scheduler.plan import Plan
from hekla.scheduler.session import Session
from hekla.scheduler.snapshot import Snapshot


def run_cycle(snapshot: Snapshot, config: Config) -> Plan:
    # 1. A session is the snapshot made tentative: everything in it can be undone.
    session = Session(snapshot, action_names=config.action_names)
    # 2. Plugins prepare their columns.
    tiers = open_plugins(config, session)
    # 3. Actions run in the configured order; each commits or discards group by group.
    for action in config.actions:
        action.execute(session, tiers)
    # 4. Hand over what was decided. Nothing outside has changed yet.
    return make_plan(session, tiers)


def open_plugins(config: Config, session: Session) -> Tiers:
    return Tiers(
        session,
        [
            [OpenPlugin(entry.name, entry.plugin(entry.arguments, session), entry.off) for entry in tier]
            for tier in config.tiers
        ],
    )
