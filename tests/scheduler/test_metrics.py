"""Every figure upstream has is there under its name, and moves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hekla.api import kinds
from hekla.api.crds import load_crds
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.clock import SystemClock
from hekla.scheduler.config import parse_config
from hekla.scheduler.metrics import SchedulerMetrics, exponential
from hekla.scheduler.scheduler import SchedulerSettings
from hekla.scheduler.timings import Timings
from hekla.scheduler.trial.miniature import Miniature, short_config
from tests.ports import free_port
from tests.scheduler.test_scheduler import Stage, leaving

CONF = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: conformance}, {name: gang}, {name: priority}, {name: drf}, {name: predicates}, {name: proportion}]
"""
AMOUNTS = ("milli_cpu", "memory_bytes", "scalar_resources")
# What the script below makes greater than zero, by name and one of its label values where it has several series.
MOVED = {
    "e2e_scheduling_latency_milliseconds_count": "",
    "open_session_duration_milliseconds_count": "",
    "e2e_job_scheduling_latency_milliseconds_count": "",
    "e2e_job_scheduling_duration": "fits",
    "e2e_job_scheduling_start_time": "waits",
    "e2e_job_scheduling_last_time": "fits",
    "plugin_scheduling_latency_milliseconds_count": "gang",
    "action_scheduling_latency_milliseconds_count": "preempt",
    "task_scheduling_latency_milliseconds_count": "Bound",
    "scheduling_stage_duration_milliseconds_count": "Predicate",
    "schedule_attempts_total": "scheduled",
    "pod_preemption_victims": "",
    "total_preemption_attempts": "",
    "eviction_transactions_total": "preempt",
    "unschedule_task_count": "default/waits",
    "unschedule_job_count": "",
    "job_share": "fits",
    "job_retry_counts": "default/waits",
    "queue_share": "default",
    "queue_weight": "default",
    **{f"queue_{word}_{unit}": "default" for word in ("allocated", "request", "deserved") for unit in AMOUNTS},
}
THERE = {
    "queue_overused", "namespace_share", "namespace_weight", "namespace_weighted_share",
    *(f"queue_{word}_{unit}" for word in ("inqueue", "capacity", "real_capacity") for unit in AMOUNTS),
}  # fmt: skip
PAGE = Path(__file__).parents[2] / "docs" / "scheduler-metrics.md"


@contextlib.asynccontextmanager
async def scheduling(folder: Path, conf: str = CONF) -> AsyncIterator[tuple[Stage, int]]:
    (folder / "conf").write_text(conf)
    port = free_port()
    app = build_app(MemoryStore(SystemClock()), clock=SystemClock(), rng=random.Random(0))
    await app.start()
    stage = Stage(app, SystemClock())  # type: ignore[arg-type]
    for definition in load_crds():
        await stage.client.create(kinds.CUSTOM_RESOURCE_DEFINITION, definition)
    made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    await stage.client.create(kinds.PRIORITY_CLASS, made)
    address = f"127.0.0.1:{port}"
    stage.start(SchedulerSettings(conf=folder / "conf", metrics_address=address, plugin_seconds=0.5))
    try:
        yield stage, port
    finally:
        await stage.stop()


async def page(port: int, path: str = "/metrics") -> str:
    with await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{port}{path}") as answer:
        return str(answer.read().decode())


async def figures(port: int) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by name, without the prefix, and label values."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(await page(port)):
        found.setdefault(family.name.removeprefix("volcano_"), {})
        for sample in family.samples:
            name = sample.name.removeprefix("volcano_")
            # The library that reads them calls all counters so.
            name = name if name in KINDS else name.removesuffix("_total")
            found.setdefault(name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_each_figure_is_there_and_moves(tmp_path: Path) -> None:
    async def main() -> None:
        async with scheduling(tmp_path) as (stage, port):
            await stage.add({"nodes": [{"name": "n1", "cpu": 4, "memory": "8Gi", "gpu": 4}]})
            fits = {"cpu": 1, "memory": "1Gi", "gpu": 1}
            await stage.add({"groups": [{"name": "fits", "min": 0, "pods": [fits, fits, fits, fits]}]})
            await stage.until_bound("fits-t-0", "fits-t-3")
            for number in range(4):
                await run(stage, f"fits-t-{number}")
            await stage.add({"groups": [{"name": "waits", "min": 1, "pods": [{"cpu": 9}]}]})
            await stage.add({"groups": [{"name": "high", "min": 1, "class": "high", "pods": [{"cpu": 1}]}]})
            await stage.until(lambda: anybody_leaves(stage))
            await stage.until(lambda: all_moved(port))
            found = await figures(port)
            assert set(found) >= THERE
            moments = found["plugin_scheduling_latency_milliseconds_count"]
            for plugin in ("gang", "proportion"):
                for moment in ("OnSessionOpen", "OnSessionClose"):
                    assert any({plugin, moment} == set(labels) for labels in moments), (plugin, moment)

    asyncio.run(main())


def test_why_each_group_waits_is_served_as_of_the_last_cycle(tmp_path: Path) -> None:
    async def main() -> None:
        async with scheduling(tmp_path) as (stage, port):
            await stage.add({"nodes": [{"name": "n1", "cpu": 4}]})
            await stage.add({"groups": [{"name": "waits", "min": 1, "pods": [{"cpu": 9}]}]})
            await stage.until(lambda: waiting_groups(port, {"waits"}))
            # A cycle that is about others says it of this one as well.
            await stage.add({"groups": [{"name": "fits", "min": 1, "pods": [{"cpu": 1}]}]})
            await stage.until_bound("fits-t-0")
            await stage.until(lambda: waiting_groups(port, {"waits"}))
            (record,) = json.loads(await page(port, "/decisions"))
            assert record["reason"] == "NotEnoughResources"
            assert record["ahead"] == {"count": 0, "first": []}
            # Who has gone waits for nothing.
            await stage.client.delete(kinds.POD, "waits-t-0", "default")
            await stage.client.delete(kinds.POD_GROUP, "waits", "default")
            await stage.until(lambda: waiting_groups(port, set()))

    asyncio.run(main())


async def waiting_groups(port: int, names: set[str]) -> bool:
    return {record["group"]["name"] for record in json.loads(await page(port, "/decisions"))} == names


async def run(stage: Stage, name: str) -> None:
    pod = await stage.client.get(kinds.POD, name, "default")
    await stage.client.update_status(kinds.POD, {**pod, "status": {**pod["status"], "phase": "Running"}})


async def anybody_leaves(stage: Stage) -> bool:
    return bool(await leaving(stage))


async def all_moved(port: int) -> bool:
    found = await figures(port)
    assert set(MOVED) <= set(found), set(MOVED) - set(found)
    still = [
        name
        for name, label in MOVED.items()
        if not any(value > 0 for labels, value in found[name].items() if not label or label in labels)
    ]
    return not still


def test_series_of_what_is_gone_are_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with scheduling(tmp_path) as (stage, port):
            await stage.add({"nodes": [{"name": "n1"}], "groups": [{"name": "waits", "min": 1, "pods": [{"cpu": 9}]}]})
            await stage.until(lambda: is_counted(port, True))
            await stage.client.delete(kinds.POD_GROUP, "waits", "default")
            await stage.until(lambda: is_counted(port, False))

    asyncio.run(main())


async def is_counted(port: int, expected: bool) -> bool:
    found = await figures(port)
    names = ("job_retry_counts", "unschedule_task_count", "e2e_job_scheduling_start_time", "job_share")
    return all(any("waits" in "/".join(labels) for labels in found[name]) is expected for name in names)


def test_the_capacity_plugin_tells_limits_too() -> None:
    world = Miniature(short_config("allocate", [["gang", "predicates", "capacity"]]))
    world.add({"nodes": [{"name": "n1", "cpu": 4, "gpu": 4}]})
    limits: dict[str, Any] = {"cpu": 3, "memory": "1Gi", "gpu": 2}
    world.add({"queues": [{"name": "q", "capability": limits, "deserved": {"cpu": 1}}]})
    world.add({"groups": [{"name": "a", "queue": "q", "cpu": 1, "pods": 2, "phase": "Inqueue"}]})
    told = {(figure.name, *figure.labels): figure.value for figure in world.cycle().figures()}
    assert told["queue_capacity_milli_cpu", "q"] == 3000
    assert told["queue_real_capacity_memory_bytes", "q"] == 1 << 30
    assert told["queue_capacity_scalar_resources", "q", "nvidia.com/gpu"] == 2000
    assert told["queue_allocated_milli_cpu", "q"] == 2000
    assert told["queue_share", "q"] == 2
    assert told["queue_overused", "q"] == 1


def test_the_root_of_a_tree_deserves_what_its_children_do() -> None:
    world = Miniature(short_config("allocate", [["gang", "predicates", {"name": "capacity", "enableHierarchy": True}]]))
    world.add({"nodes": [{"name": "n1", "cpu": 8}], "queues": [{"name": "root"}]})
    world.add({"queues": [{"name": "a", "deserved": {"cpu": 1}, "guarantee": {"cpu": 3}}]})
    world.add({"queues": [{"name": "b", "deserved": {"cpu": 1}}, {"name": "c", "parent": "b", "deserved": {"cpu": 9}}]})
    world.add({"groups": [{"name": "g", "queue": "a", "cpu": 1, "pods": 2, "phase": "Inqueue"}]})
    told = {(figure.name, *figure.labels): figure.value for figure in world.cycle().figures()}
    assert told["queue_deserved_milli_cpu", "root"] == 4000
    assert told["queue_share", "root"] == 0.5


def test_a_gang_that_has_lost_pods_is_tried_again_in_vain_though_none_of_it_waits() -> None:
    world = Miniature()
    world.add({"nodes": [{"name": "n1"}], "queues": [{"name": "default"}]})
    pods = [{"cpu": 1, "node": "n1"}, {"cpu": 1, "node": "n1", "phase": "Failed"}]
    world.add({"groups": [{"name": "broken", "min": 2, "phase": "Running", "pods": pods}]})
    metrics = SchedulerMetrics(SystemClock())
    for _ in range(3):
        metrics.cycle_done(world.cycle(), Timings(None), 0.0)
    value = metrics.registry.get_sample_value
    assert value("volcano_unschedule_task_count", {"job_id": "test/broken"}) == 1
    assert value("volcano_job_retry_counts", {"job_id": "test/broken"}) == 3


MEASURED = """
from hekla.scheduler.extension import *
from hekla.scheduler.figure import Figure

class Bad(SchedulerPlugin, Measured):
    def figures(self):
"""


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('no')",
        "return 5",
        "return [5]",
        "return [Figure('no_such_figure', (), 1.0)]",
        "return [Figure('queue_weight', (), 5.0)]",
        "return [Figure('queue_weight', ('default', 'twice'), 5.0)]",
        "return [Figure('queue_weight', (5,), 5.0)]",
        "return [Figure('queue_weight', None, 5.0)]",
        "yield Figure('queue_weight', ('default',), 'much')",
        "yield Figure('queue_weight', ('default',), float('nan'))",
    ],
)
def test_a_plugin_that_tells_nonsense_does_not_spoil_the_page(body: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(f"{MEASURED}        {body}\n")
    conf = "actions: allocate\ntiers: [{plugins: [{name: bad}, {name: gang}, {name: proportion}]}]\n"
    world = Miniature(parse_config(conf, plugins_dir=tmp_path))
    world.add({"nodes": [{"name": "n1"}], "queues": [{"name": "default"}], "groups": [{"name": "a", "pods": 1}]})
    metrics = SchedulerMetrics(SystemClock())
    metrics.cycle_done(world.cycle(), Timings(None), 0.0)
    page = generate_latest(metrics.registry).decode().splitlines()
    assert [line for line in page if line.startswith("volcano_queue_weight")] == [
        'volcano_queue_weight{queue_name="default"} 1.0'
    ]


def test_of_two_plugins_that_tell_the_same_figure_the_first_is_believed() -> None:
    world = Miniature(short_config("allocate", [["gang", "proportion"], ["capacity"]]))
    world.add({"nodes": [{"name": "n1"}], "queues": [{"name": "default"}], "groups": [{"name": "a", "pods": 1}]})
    metrics = SchedulerMetrics(SystemClock())
    metrics.cycle_done(world.cycle(), Timings(None), 0.0)
    page = generate_latest(metrics.registry).decode().splitlines()
    assert len([line for line in page if line.startswith("volcano_queue_share{")]) == 1


SLOW = """
import time
from hekla.scheduler.extension import *

class Slow(SchedulerPlugin, Measured, QueueBooks):
    def figures(self):
        time.sleep(600)

    def queue_books(self, queue):
        time.sleep(600)
"""


def test_a_plugin_that_hangs_when_asked_for_what_it_knows_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "slow.py").write_text(SLOW)

    async def main() -> None:
        async with scheduling(tmp_path, CONF.replace("{name: conformance}", "{name: slow}")) as (stage, port):
            await stage.add({"nodes": [{"name": "n1", "cpu": 4}]})
            await stage.add({"groups": [{"name": "waits", "min": 1, "pods": [{"cpu": 9}]}]})
            await stage.until(lambda: waiting_groups(port, {"waits"}))
            assert (await figures(port))["queue_weight"] == {("default",): 1}
            await stage.add({"groups": [{"name": "fits", "min": 1, "pods": [{"cpu": 1}]}]})
            await stage.until_bound("fits-t-0")

    asyncio.run(main())


def test_groups_that_are_gone_are_forgotten_though_nobody_looks() -> None:
    metrics = SchedulerMetrics(SystemClock())
    crowds = [[f"g{number}-{member}" for member in range(300)] for number in range(5)]
    for crowd in [*crowds, ["last"]]:
        world = Miniature()
        world.add({"queues": [{"name": "default"}], "nodes": [{"name": "n1", "cpu": 1}]})
        waiting = {"min": 1, "cpu": 9, "pods": 1, "phase": "Inqueue"}
        world.add({"groups": [{"name": name, **waiting} for name in crowd]})
        metrics.cycle_done(world.cycle(), Timings(None), 0.0)
        assert set(crowd) <= {key.name for key in metrics.jobs}
    assert [key.name for key in metrics.jobs] == ["last"]


def test_a_group_made_again_under_its_name_is_another_one() -> None:
    metrics = SchedulerMetrics(SystemClock())
    world = Miniature()
    world.add({"queues": [{"name": "default"}, {"name": "other"}], "nodes": [{"name": "n1", "cpu": 1}]})
    for queue, cycles in (("default", 3), ("other", 2)):
        world.add({"groups": [{"name": "a", "queue": queue, "cpu": 9, "pods": 1, "phase": "Inqueue"}]})
        for _ in range(cycles):
            metrics.cycle_done(world.cycle(), Timings(None), 0.0)
    value = metrics.registry.get_sample_value
    labels = {"job_name": "a", "job_namespace": "test"}
    assert value("volcano_job_retry_counts", {"job_id": "test/a"}) == 2
    assert value("volcano_e2e_job_scheduling_start_time", {**labels, "queue": "other"}) is not None
    assert value("volcano_e2e_job_scheduling_start_time", {**labels, "queue": "default"}) is None


# Type and labels of each, as upstream's own page has them.
_OF_JOB, _OF_QUEUE, _OF_NAMESPACE = "job_name queue job_namespace", "queue_name", "namespace_name"
KINDS = {
    "e2e_scheduling_latency_milliseconds": ("histogram", ""),
    "open_session_duration_milliseconds": ("histogram", ""),
    "e2e_job_scheduling_latency_milliseconds": ("histogram", ""),
    "e2e_job_scheduling_duration": ("gauge", _OF_JOB),
    "e2e_job_scheduling_start_time": ("gauge", _OF_JOB),
    "e2e_job_scheduling_last_time": ("gauge", _OF_JOB),
    "plugin_scheduling_latency_milliseconds": ("histogram", "plugin OnSession"),
    "action_scheduling_latency_milliseconds": ("histogram", "action"),
    "task_scheduling_latency_milliseconds": ("histogram", "stage"),
    "scheduling_stage_duration_milliseconds": ("histogram", "stage"),
    "schedule_attempts_total": ("counter", "result"),
    "pod_preemption_victims": ("gauge", ""),
    "total_preemption_attempts": ("counter", ""),
    "eviction_transactions_total": ("counter", "action"),
    "unschedule_task_count": ("gauge", "job_id"),
    "unschedule_job_count": ("gauge", ""),
    "job_share": ("gauge", "job_ns job_id"),
    "job_retry_counts": ("counter", "job_id"),
    "queue_share": ("gauge", _OF_QUEUE),
    "queue_weight": ("gauge", _OF_QUEUE),
    "queue_overused": ("gauge", _OF_QUEUE),
    **{f"namespace_{word}": ("gauge", _OF_NAMESPACE) for word in ("share", "weight", "weighted_share")},
    **{
        f"queue_{word}_{unit}": ("gauge", _OF_QUEUE + (" resource" if unit == "scalar_resources" else ""))
        for word in ("allocated", "request", "deserved", "inqueue", "capacity", "real_capacity")
        for unit in AMOUNTS
    },
}  # fmt: skip


def test_figures_are_of_upstreams_types_and_have_its_labels(tmp_path: Path) -> None:
    async def main() -> None:
        async with scheduling(tmp_path) as (stage, port):
            await stage.add({"nodes": [{"name": "n1", "cpu": 4, "gpu": 4}]})
            await stage.add(
                {"groups": [{"name": "fits", "pods": [{"gpu": 1}]}, {"name": "waits", "pods": [{"cpu": 9}]}]}
            )
            await stage.until_bound("fits-t-0")
            await stage.until(lambda: has_series(port, 'unschedule_task_count{job_id="default/waits"}'))
            text = await page(port)
            types = dict(re.findall(r"# TYPE volcano_(\w+) (\w+)", text))
            assert {name: types.get(name) for name in KINDS} == {name: kind for name, (kind, _) in KINDS.items()}
            for name, _, labels in re.findall(r"^volcano_(\w+?)(_bucket|_sum|_count)?\{(.*)\}", text, re.M):
                if name in KINDS:
                    told = set(re.findall(r'(\w+)="', labels)) - {"le"}
                    assert told == set(KINDS[name][1].split()), name

    asyncio.run(main())


async def has_series(port: int, series: str) -> bool:
    return f"volcano_{series}" in await page(port)


def test_the_page_about_figures_has_them_all() -> None:
    registered = {family.name for family in SchedulerMetrics(SystemClock()).registry.collect()}
    told = set(re.findall(r"`(volcano_\w+)`", PAGE.read_text()))
    assert {name.removesuffix("_total") for name in told} == registered


def test_buckets_grow_by_the_same_factor() -> None:
    bounds = exponential(1, 5000, 20)
    assert (bounds[0], bounds[-1], len(bounds)) == (1, pytest.approx(5000), 20)
    assert bounds[2] / bounds[1] == pytest.approx(bounds[1] / bounds[0])
