"""Plugins that raise or hang: those they are asked about wait and say whose fault it is, the rest goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hekla.api.kinds import EVENT
from hekla.scheduler.config import Config, ConfigError, parse_config
from hekla.scheduler.cycle import run_cycle
from hekla.scheduler.scheduler import SchedulerSettings
from hekla.scheduler.trial.miniature import Miniature
from hekla.scheduler.watchdog import Watchdog
from tests.scheduler.test_scheduler import MEMBERS, Stage, on_stage

CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: proportion}, {name: rogue}]
"""
HEAD = """
import time
import numpy as np
from hekla.scheduler.extension import *
from hekla.scheduler.fit import Refusal

class Rogue(SchedulerPlugin, POINT):
"""
PICKY_FILTER = """
    def refusals(self, of):
        if (0, 2000.0) in self.session.asked(of.shape):
            raise ValueError("two is too many")
        return []
"""
GATE = "scheduling.volcano.sh/queue-allocation-gate"
GROUPS = [{"name": "one", "min": 1, "pods": [{"cpu": 1}]}, {"name": "two", "min": 1, "pods": [{"cpu": 2}]}]


def rogue(folder: Path, point: str, body: str) -> Config:
    (folder / "rogue.py").write_text(HEAD.replace("POINT", point) + body)
    return parse_config(CONF, plugins_dir=folder)


def world(config: Config, groups: list[dict[str, Any]] | None = None) -> Miniature:
    found = Miniature(config)
    found.add({"queues": [{"name": "root"}, {"name": "default"}], "nodes": [{"name": "n1", "cpu": 8}]})
    found.add({"groups": GROUPS if groups is None else groups})
    return found


def test_who_it_fails_on_waits_with_its_name_and_the_others_go(tmp_path: Path) -> None:
    found = world(rogue(tmp_path, "NodeFilter", PICKY_FILTER))
    found.settle()
    assert found.node_of("one-t-0") == "n1"
    assert found.node_of("two-t-0") is None
    assert found.waiting_of("two")[0] == "PluginFailed"
    told = [event for event in found.events["PodGroup/two"] if "PluginFailed" in event]
    assert told == ["Warning PluginFailed: scheduler plugin rogue failed: ValueError: two is too many"]


@pytest.mark.parametrize(
    ("point", "body"),
    [
        ("NodeFilter", "    def __init__(self, *given):\n        raise KeyError('no data')"),
        (
            "GroupReady",
            "    def __init__(self, arguments, session):\n        super().__init__(arguments, session)\n"
            "        session.listeners.append(self.moved)\n"
            "    def group_ready(self, state): return True\n    def pods_missing(self, state, role): return 1\n"
            "    def moved(self, state, shape, count): raise KeyError('no data')",
        ),
    ],
    ids=["opening", "listening"],
)
def test_one_that_cannot_work_at_all_holds_everything_back_and_says_so(tmp_path: Path, point: str, body: str) -> None:
    found = world(rogue(tmp_path, point, body))
    found.settle()
    for name in ("one", "two"):
        assert found.node_of(f"{name}-t-0") is None
        assert found.waiting_of(name)[0] == "PluginFailed"
        assert (
            "Warning PluginFailed: scheduler plugin rogue failed: KeyError: 'no data'"
            in (found.events[f"PodGroup/{name}"])
        )


ENDERS = {
    "opening": ("NodeFilter", "    def __init__(self, *given): raise SystemExit('no data')"),
    "filtering": ("NodeFilter", "    def refusals(self, of): raise SystemExit('no data')"),
    "ordering": ("GroupOrder", "    def group_key(self, state): raise SystemExit('no data')"),
    "listening": (
        "GroupOrder",
        "    def __init__(self, arguments, session): session.listeners.append(self.moved)\n"
        "    def group_key(self, state): return 0.0\n"
        "    def moved(self, state, shape, count): raise SystemExit('no data')",
    ),
}


@pytest.mark.parametrize("when", ENDERS)
def test_one_that_would_end_the_program_is_lost_alone(tmp_path: Path, when: str) -> None:
    plan = world(rogue(tmp_path, *ENDERS[when])).cycle()
    assert [(failure.plugin, failure.text) for failure in plan.failures] == [("rogue", "SystemExit: no data")]
    assert len(plan.placements) == (2 if when in ("ordering", "listening") else 0)


RESERVER = """
    def __init__(self, arguments, session):
        super().__init__(arguments, session)
        session.reservers.append(self.reserved)
    def reserved(self, state, shape, count):
        if count MEANT 0: raise KeyError('no data')
"""


@pytest.mark.parametrize(("point", "bound"), [("QueueOverused", None), ("GroupOrder", "n1")])
@pytest.mark.parametrize("meant", [">", "<"], ids=["letting in", "placing"])
def test_one_that_loses_count_of_pods_at_the_gate_is_lost_alone(
    tmp_path: Path, point: str, bound: str | None, meant: str
) -> None:
    answer = {"QueueOverused": "    def queue_overused(self, queue): return False\n", "GroupOrder": ""}[point]
    body = RESERVER.replace("MEANT", meant) + answer + "    def group_key(self, state): return 0.0\n"
    waiting = {"cpu": 1, "gates": [{"name": GATE}], "annotations": {GATE: "true"}}
    found = world(rogue(tmp_path, point, body), [{"name": "g", "min": 1, "pods": [waiting]}])
    found.settle()
    assert found.node_of("g-t-0") == bound
    assert bound or found.waiting_of("g") == ("PluginFailed", "")


@pytest.mark.parametrize("answer", ["np.bool_(False)", "False"])
def test_a_verdict_is_the_same_in_numpys_words(tmp_path: Path, answer: str) -> None:
    (tmp_path / "rogue.py").write_text(
        HEAD.replace("POINT", "Verdict") + f"    def verdict(self, state): return {answer}"
    )
    config = parse_config('actions: "allocate"\ntiers: [{plugins: [{name: rogue}]}]', plugins_dir=tmp_path)
    outcome = world(config, [{"name": "g", "min": 1, "phase": "Inqueue", "pods": [{"cpu": 9}]}]).cycle().groups[0]
    assert outcome.condition is not None
    assert outcome.condition.type == "Unschedulable"


@pytest.mark.parametrize(
    ("point", "body"),
    [
        ("NodeScore", "    def pair_score(self, shape): raise ValueError('x')"),
        ("NodeScore", "    def pair_score(self, shape): return self.score\n    def score(self, *given): 1 / 0"),
        ("NodeScore", "    def has_preference(self, of): return True\n    def preference(self, of, at): 1 / 0"),
        ("NodeScore", "    def __init__(self, *given): 1 / 0"),
        ("NodeScore", "    def has_preference(self, of): 1 / 0"),
        ("NodeScore", "    def has_preference(self, of): return 'much'"),
        (
            "NodeScore",
            "    def has_preference(self, of): return True\n    def preference(self, of, at): return np.zeros(99)",
        ),
        ("NodeScore", "    def has_preference(self, of): return True\n    def preference(self, of, at): return 'good'"),
        (
            "NodeScore",
            "    def has_preference(self, of): return True\n    def preference(self, of, at): return at * np.nan",
        ),
        (
            "NodeScore",
            "    def pair_score(self, shape): return self.score\n    def score(self, *given): return np.zeros(99)",
        ),
        ("NodeScore", "    def pair_score(self, shape): return self.score\n    def score(self, *given): return None"),
        ("GroupOrder", "    def group_key(self, state): raise ValueError('x')"),
        ("GroupOrder", "    def group_key(self, state): return 'high'"),
        ("GroupOrder", "    def group_key(self, state): return None"),
        ("QueueOrder", "    def queue_key(self, queue): raise ValueError('x')"),
    ],
)
def test_fix_A26_one_that_only_has_opinions_is_passed_over(tmp_path: Path, point: str, body: str) -> None:
    found = world(rogue(tmp_path, point, body))
    plan = found.cycle()
    assert [failure.plugin for failure in plan.failures] == ["rogue"]
    found.settle()
    assert found.node_of("one-t-0") == found.node_of("two-t-0") == "n1"


PICKY_ORDER = """
    def pod_keys(self, group):
        if group.row.key.name == "two":
            raise ValueError("two is too many")
        return np.zeros(len(group.pods))
"""


@pytest.mark.parametrize(("point", "body"), [("NodeFilter", PICKY_FILTER), ("PodOrder", PICKY_ORDER)])
def test_one_that_fails_on_who_is_held_back_anyway_holds_up_nobody_else(tmp_path: Path, point: str, body: str) -> None:
    found = world(rogue(tmp_path, point, body))
    found.add({"queues": [{"name": "default", "capability": {"cpu": 1}}]})
    found.settle()
    assert found.node_of("one-t-0") == "n1"
    assert found.waiting_of("two")[0] == "QueueOverQuota"
    assert {failure.plugin for failure in found.cycle().failures} == {"rogue"}


@pytest.mark.parametrize(
    ("point", "method"),
    [
        ("GroupValid", "group_valid"),
        ("GroupReady", "group_ready"),
        ("GroupReady", "pods_missing"),
        ("GroupEnqueueable", "group_enqueueable"),
        ("GroupEnqueueable", "group_enqueued"),
        ("QueueOverused", "queue_overused"),
        ("QueueRoom", "queue_room"),
        ("NodeFilter", "refusals"),
        ("NodeFilter", "most_per_node"),
        ("PodOrder", "pod_keys"),
    ],
)
def test_no_point_lets_an_error_out_and_nothing_is_placed_against_it(tmp_path: Path, point: str, method: str) -> None:
    found = world(
        rogue(tmp_path, point, f"    def {method}(self, *given): raise ValueError('no')"),
        [{"name": "g", "min": 2, "needs": {"cpu": 1}, "pods": [{"cpu": 1}, {"cpu": 1}, {}]}],
    )
    plan = found.cycle()
    assert not plan.placements
    assert {failure.plugin for failure in plan.failures} == {"rogue"}


@pytest.mark.parametrize(
    ("point", "body"),
    [
        ("QueueRoom", "    def queue_room(self, state, shape, wanted): return 99, None"),
        (
            "NodeScore",
            "    def has_preference(self, of): return self.preference(candidates=np.arange(1), of=of).any()\n"
            "    def preference(self, of, candidates): return np.ones(len(candidates))",
        ),
        (
            "QueueOverused",
            "    def __setattr__(self, name, value):\n"
            "        if hasattr(self, name): raise AttributeError('frozen')\n"
            "        super().__setattr__(name, value)\n"
            "    def queue_overused(self, queue): return False",
        ),
    ],
    ids=["more room than asked about", "asks itself by name", "lets nobody set anything"],
)
def test_what_makes_sense_is_taken_however_it_is_written(tmp_path: Path, point: str, body: str) -> None:
    plan = world(rogue(tmp_path, point, body)).cycle()
    assert sum(len(placement.positions) for placement in plan.placements) == 2
    assert plan.failures == ()


@pytest.mark.parametrize(
    ("point", "method", "answer"),
    [
        ("NodeFilter", "refusals", "5"),
        ("NodeFilter", "refusals", "[5]"),
        ("NodeFilter", "refusals", "[Refusal('no', None, np.ones(99, dtype=bool))]"),
        ("NodeFilter", "refusals", "[Refusal('no', None, 'n1')]"),
        ("NodeFilter", "most_per_node", "'one'"),
        ("QueueRoom", "queue_room", "None"),
        ("QueueRoom", "queue_room", "('many', None)"),
        ("QueueRoom", "queue_room", "(-1, None)"),
        ("GroupEnqueueable", "group_enqueueable", "True"),
        ("GroupReady", "pods_missing", "'some'"),
        ("GroupReady", "group_ready", "1"),
        ("GroupReady", "group_ready", "'yes'"),
        ("QueueOverused", "queue_overused", "0"),
        ("PodOrder", "pod_keys", "[1, 2]"),
    ],
)
def test_nothing_is_placed_on_an_answer_that_makes_no_sense(
    tmp_path: Path, point: str, method: str, answer: str
) -> None:
    found = world(
        rogue(tmp_path, point, f"    def {method}(self, *given): return {answer}"),
        [{"name": "g", "min": 2, "needs": {"cpu": 1}, "pods": [{"cpu": 1}, {"cpu": 1}]}],
    )
    plan = found.cycle()
    assert not plan.placements
    assert {failure.plugin for failure in plan.failures} == {"rogue"}


@pytest.mark.parametrize(
    ("point", "method"),
    [
        ("Preemptable", "preemptable"),
        ("GroupStarving", "group_starving"),
        ("GroupPipelined", "group_pipelined"),
        ("VictimQueueOrder", "victim_queue_key"),
    ],
)
def test_nobody_is_evicted_where_a_plugin_fails(tmp_path: Path, point: str, method: str) -> None:
    (tmp_path / "rogue.py").write_text(
        HEAD.replace("POINT", point) + f"    def {method}(self, *given): raise ValueError('no')"
    )
    plugins = "[{name: conformance}, {name: gang}, {name: priority}, {name: predicates}, {name: rogue}]"
    text = f'actions: "allocate, preempt"\ntiers: [{{plugins: {plugins}}}]'
    found = Miniature(parse_config(text, plugins_dir=tmp_path))
    found.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1", "cpu": 1}], "classes": {"high": 9}})
    found.add({"groups": [{"name": "low", "min": 0, "cpu": 1, "pods": [{"node": "n1"}]}]})
    found.add({"groups": [{"name": "high", "min": 1, "class": "high", "pods": [{"cpu": 1, "class": "high"}]}]})
    plan = found.cycle()
    assert not plan.evictions
    assert {failure.plugin for failure in plan.failures} == {"rogue"}


def test_an_error_of_our_own_is_not_blamed_on_a_plugin(tmp_path: Path) -> None:
    rogue(tmp_path, "GroupOrder", "    def group_key(self, state): return 0.0")
    config = parse_config(
        'actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: rogue}]}]', plugins_dir=tmp_path
    )
    snapshot = world(config).cache().snapshot("cycle", now=0.0)
    with pytest.raises(IndexError) as raised:
        run_cycle(replace(snapshot, shapes=()), config)
    assert raised.traceback[-1].path.name == "session.py"


@pytest.mark.parametrize("hang", ["time.sleep(60)", "[0 for _ in iter(int, 1)]", "self.waste()"])
def test_a_call_that_takes_too_long_is_ended(tmp_path: Path, hang: str) -> None:
    body = f"""
    def waste(self):
        while True:
            try:
                time.sleep(1)
            except Exception:
                pass
    def refusals(self, of):
        {hang}
"""
    config = rogue(tmp_path, "NodeFilter", body)
    found = world(config)
    with Watchdog(0.2).over(config):
        plan = found.cycle()
    assert [(failure.plugin, failure.text) for failure in plan.failures] == [("rogue", "a call took longer than 0.2 s")]
    assert not plan.placements


@pytest.mark.parametrize(
    "books",
    [
        "5",
        "[5]",
        "[Book('q', 5)]",
        "[Book('q', (Entry('nothing', 1, 1, 1, 1),))]",
        "[Book('q', (Entry('cpu', 1, 1, 'much', 1),))]",
    ],
)
def test_books_that_are_none_are_left_out_of_what_is_told(tmp_path: Path, books: str) -> None:
    told = f"    def queue_books(self, queue): return {books}\n\nfrom hekla.scheduler.books import Book, Entry\n"
    rogue(tmp_path, "QueueBooks", told)
    plugins = "[{name: rogue}, {name: gang}, {name: proportion}]"
    config = parse_config(f"actions: allocate\ntiers: [{{plugins: {plugins}}}]", plugins_dir=tmp_path)
    (record,) = world(config, [{"name": "large", "pods": [{"cpu": 99}]}]).cycle().decisions()
    assert [book["name"] for book in record["queues"]] == ["default"]


HANG = """
import time
while True:
    try:
        time.sleep(1)
    except Exception:
        pass
"""
HANGING_CHECK = """
import time
from hekla.scheduler.extension import *

class Rogue(SchedulerPlugin):
    ARGUMENTS = {"patience": Argument(int, 0, time.sleep)}
"""


@pytest.mark.parametrize(
    ("text", "arguments", "problem"),
    [
        (HANG, "{}", "plugin 'rogue' cannot be loaded: TooLong: not done after 0.4 s"),
        (HANGING_CHECK, "{patience: 60}", "arguments.patience: cannot be judged: TooLong: not done after 0.4 s"),
    ],
)
def test_loading_that_takes_too_long_is_ended(tmp_path: Path, text: str, arguments: str, problem: str) -> None:
    (tmp_path / "rogue.py").write_text(text)
    conf = CONF.replace("{name: rogue}", f"{{name: rogue, arguments: {arguments}}}")
    with Watchdog(0.02).over_loading(), pytest.raises(ConfigError) as raised:
        parse_config(conf, plugins_dir=tmp_path)
    (told,) = raised.value.problems
    assert told.endswith(problem)


def test_a_plugin_that_never_comes_to_an_end_of_loading_leaves_the_old_configuration_in_force(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(CONF.replace(", {name: rogue}", ""))
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "rogue.py").write_text(HANG)

    async def script(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": "n1", "cpu": 8}]})
        stage.start(SchedulerSettings(conf=tmp_path / "conf", plugin_seconds=0.02))
        await asyncio.sleep(5)
        (tmp_path / "conf").write_text(CONF)
        await asyncio.sleep(5)
        await stage.add({"groups": [{"name": "a", "min": 3, "pods": [{}, {}, {}]}]})
        await stage.until_bound(*MEMBERS)
        await stage.stop()

    on_stage(script)


def test_many_slow_calls_are_too_slow_together(tmp_path: Path) -> None:
    body = "    def group_key(self, state):\n        time.sleep(0.04)\n        return 0.0\n"
    config = rogue(tmp_path, "GroupOrder", body)
    found = world(config, [{"name": f"g{n}", "pods": [{"cpu": 1}]} for n in range(60)])
    with Watchdog(0.1).over(config):
        plan = found.cycle()
    assert [failure.text for failure in plan.failures] == ["its calls took longer than 0.5 s in one cycle"]
    assert len(plan.placements) == 8


TWINS = """
import time
from hekla.scheduler.extension import *

def fail(): raise ValueError("x")
def hang(): time.sleep(60)

class First(SchedulerPlugin, POINT):
    BODY

class Second(SchedulerPlugin, NodeFilter):
    def refusals(self, of): return []
"""


def twins(folder: Path, monkeypatch: pytest.MonkeyPatch, point: str, body: str, order: tuple[str, str]) -> Config:
    """Two installed plugins of one module, of which the first is bad."""
    module = f"twins_{abs(hash((folder, point, body)))}"
    (folder / f"{module}.py").write_text(TWINS.replace("POINT", point).replace("BODY", body))
    metadata = folder / "twins-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: twins\nVersion: 1.0\n")
    entries = f"first = {module}:First\nsecond = {module}:Second\n"
    (metadata / "entry_points.txt").write_text(f"[hekla.scheduler_plugins]\n{entries}")
    monkeypatch.syspath_prepend(folder)
    return parse_config(CONF.replace("{name: rogue}", ", ".join(f"{{name: {name}}}" for name in order)))


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
@pytest.mark.parametrize("hang", ["time.sleep(60)", "hang()"])
def test_of_two_plugins_of_one_module_the_slow_one_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hang: str, order: tuple[str, str]
) -> None:
    config = twins(tmp_path, monkeypatch, "GroupOrder", f"def group_key(self, state): {hang}", order)
    found = world(config)
    with Watchdog(0.2).over(config):
        plan = found.cycle()
    assert [failure.plugin for failure in plan.failures] == ["first"]
    assert len(plan.placements) == 2


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_of_two_plugins_of_one_module_the_one_that_fails_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, str]
) -> None:
    config = twins(tmp_path, monkeypatch, "NodeScore", "def pair_score(self, shape): fail()", order)
    plan = world(config).cycle()
    assert [failure.plugin for failure in plan.failures] == ["first"]
    assert len(plan.placements) == 2


def test_who_was_asked_is_blamed_though_the_function_that_fails_knows_of_no_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "pair_score = staticmethod(lambda shape: fail())"
    plan = world(twins(tmp_path, monkeypatch, "NodeScore", body, ("second", "first"))).cycle()
    assert len(plan.placements) == 2
    assert [(failure.plugin, failure.text) for failure in plan.failures] == [("first", "ValueError: x")]


def test_a_plugin_lost_twice_ends_the_cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs is a function that stands beside two plugins, and the wrong one is taken for its owner."""
    body = "__new__ = staticmethod(lambda *given: hang())"
    config = twins(tmp_path, monkeypatch, "GroupOrder", body, ("first", "second"))
    found = world(config)
    failed = "scheduler plugin second failed: a call took longer than 0.2 s"
    with Watchdog(0.2).over(config), pytest.raises(RuntimeError, match=failed):
        found.cycle()


def test_the_running_scheduler_tells_it_once_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "rogue.py").write_text(HEAD.replace("POINT", "NodeFilter") + PICKY_FILTER)
    (tmp_path / "conf").write_text(CONF)

    async def script(stage: Stage) -> None:
        await stage.add({"nodes": [{"name": "n1", "cpu": 8}]})
        await stage.add({"groups": [{"name": "a", "min": 3, "pods": [{}, {}, {}]}]})
        await stage.add({"groups": [{"name": "b", "min": 1, "pods": [{"cpu": 2}]}]})
        stage.start(SchedulerSettings(conf=tmp_path / "conf"))
        await stage.until_bound(*MEMBERS)
        await stage.until(lambda: _is_told(stage))
        assert not await stage.node_of("b-t-0")
        await stage.stop()

    on_stage(script)


async def _is_told(stage: Stage) -> bool:
    events = [event for event in (await stage.client.list(EVENT)).items if event["reason"] == "PluginFailed"]
    return [event["message"] for event in events] == ["scheduler plugin rogue failed: ValueError: two is too many"]
