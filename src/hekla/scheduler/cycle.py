"""One pass of the scheduler: `run_cycle(snapshot, config) -> Plan`.

No I/O, no clock, no randomness: the same snapshot gives the same plan to the byte. The live scheduler, `plan`,
`why`, tests and simulation all call this one function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hekla.scheduler.answers import watch_answers
from hekla.scheduler.blame import FAILURES, Guarded, PluginFailure, PluginLost, failure_of
from hekla.scheduler.config import Config, PluginEntry
from hekla.scheduler.outcome import make_plan
from hekla.scheduler.plan import Plan
from hekla.scheduler.session import Session
from hekla.scheduler.snapshot import Snapshot
from hekla.scheduler.tiers import OpenPlugin, Tiers, stand_in
from hekla.scheduler.timings import OPENING, Timings


def run_cycle(
    snapshot: Snapshot,
    config: Config,
    lost: Mapping[str, PluginFailure] | None = None,
    timings: Timings | None = None,
) -> Plan:
    """`lost` names plugins that are not to be asked, and why; what only they could allow waits."""
    lost = dict(lost or {})
    while True:
        try:
            return _run_cycle(snapshot, config, lost, timings or Timings())
        except PluginLost as error:
            if error.failure.plugin in lost:
                # It was not even asked: somebody else is to blame, and starting again would never end.
                raise RuntimeError(error.failure.sentence) from error
            # Nothing outside has changed: start again without it.
            lost[error.failure.plugin] = error.failure


def _run_cycle(snapshot: Snapshot, config: Config, lost: Mapping[str, PluginFailure], timings: Timings) -> Plan:
    # 1. A session is the snapshot made tentative: everything in it can be undone.
    started = timings.now()
    session = Session(snapshot, action_names=config.action_names, timings=timings)
    # 2. Plugins prepare their columns.
    tiers = open_plugins(config, session, lost)
    timings.opening += timings.now() - started
    try:
        # 3. Actions run in the configured order; each commits or discards group by group.
        for action in config.actions:
            with timings.of(timings.actions, action.name):
                action.execute(session, tiers)
        # 4. Hand over what was decided. Nothing outside has changed yet.
        return make_plan(session, tiers)
    except SystemExit as error:
        raise PluginLost(tiers.failure_after(error)) from error


def open_plugins(config: Config, session: Session, lost: Mapping[str, PluginFailure] | None = None) -> Tiers:
    lost = lost or {}
    tiers = [[_open(entry, session, lost.get(entry.name)) for entry in tier] for tier in config.tiers]
    return Tiers(session, tiers, lost)


def _open(entry: PluginEntry, session: Session, failure: PluginFailure | None) -> OpenPlugin:
    if failure is not None:
        return OpenPlugin(entry.name, stand_in(entry.plugin, session, failure), frozenset())
    told: tuple[list[Any], ...] = (session.listeners, session.movers, session.reservers)
    before = [len(listeners) for listeners in told]
    try:
        with session.timings.of(session.timings.plugins, (entry.name, OPENING)):
            plugin = entry.plugin(entry.arguments, session)
            watch_answers(plugin, session)
    except FAILURES as error:
        raise PluginLost(failure_of(entry.name, error)) from error
    for listeners, start in zip(told, before):
        listeners[start:] = [Guarded(entry.name, listener) for listener in listeners[start:]]
    return OpenPlugin(entry.name, plugin, entry.off)
