"""What the scheduler can be measured by, under upstream's names.

What happens is counted as it happens; what is (shares, queues, waiting groups) is read from the last cycle when
somebody asks, so that it costs nothing otherwise and series of what is gone are gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from hekla.api.meta import Key
from hekla.api.scheduling import PodGroupCondition
from hekla.clock import Clock
from hekla.metrics import plain_counter
from hekla.scheduler.plan import GroupOutcome, Placement, Plan
from hekla.scheduler.rows import PodGroup
from hekla.scheduler.timings import Timings

_PREFIX = "volcano_"
_SPARE_JOBS = 1000  # remembered though gone, while nobody looks
_JOB = ("job_name", "queue", "job_namespace")
_QUEUE = ("queue_name",)
_AMOUNTS = ("allocated", "request", "deserved", "inqueue", "capacity", "real_capacity")
# Gauges that plugins fill: name, labels, help.
_GAUGES: Sequence[tuple[str, tuple[str, ...], str]] = (
    ("job_share", ("job_ns", "job_id"), "A group's share of the resource it uses most of."),
    *((f"queue_{word}_milli_cpu", _QUEUE, f"CPU of a queue: {word}.") for word in _AMOUNTS),
    *((f"queue_{word}_memory_bytes", _QUEUE, f"Memory of a queue: {word}.") for word in _AMOUNTS),
    *((f"queue_{word}_scalar_resources", (*_QUEUE, "resource"), f"Other resources: {word}.") for word in _AMOUNTS),
    ("queue_share", _QUEUE, "What a queue holds of what it deserves."),
    ("queue_weight", _QUEUE, "A queue's weight."),
    ("queue_overused", _QUEUE, "Whether a queue holds more than it deserves."),
    # Upstream registers these and never sets them.
    *((f"namespace_{word}", ("namespace_name",), "Not set.") for word in ("share", "weight", "weighted_share")),
)  # fmt: skip


def exponential(least: float, most: float, count: int) -> tuple[float, ...]:
    """`count` bounds from least to most, each the same multiple of the one before."""
    return tuple(least * (most / least) ** (step / (count - 1)) for step in range(count))


class SchedulerMetrics:
    """The figures of one process: nothing here is shared with another in the same interpreter."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        self.last: Plan | None = None
        self.jobs: dict[Key, JobFigures] = {}
        self.attempts = self.victims = 0  # of preempting
        self._cycle = self._histogram("e2e_scheduling_latency", "One whole cycle.", exponential(1, 5000, 20))
        self._open = self._histogram("open_session_duration", "Opening a cycle.", exponential(1, 5000, 20))
        self._job = self._histogram(
            "e2e_job_scheduling_latency", "A group's creation to its pods' placement.", exponential(100, 120000, 30)
        )
        self._plugin = self._histogram(
            "plugin_scheduling_latency", "A plugin's part.", exponential(0.1, 100, 15), ("plugin", "OnSession")
        )
        self._action = self._histogram("action_scheduling_latency", "An action.", exponential(1, 2000, 20), ("action",))
        self._stage = self._histogram(
            "scheduling_stage_duration", "A stage, in one cycle or request.", exponential(0.1, 500, 20), ("stage",)
        )
        self._pods = _PodHistogram(
            f"{_PREFIX}task_scheduling_latency_milliseconds",
            "A pod's creation to a stage.",
            exponential(50, 60000, 30),
            registry=self.registry,
        )
        self._attempts = Counter(f"{_PREFIX}schedule_attempts", "Pods tried.", ("result",), registry=self.registry)
        self._transactions = Counter(
            f"{_PREFIX}eviction_transactions", "Sets of evictions decided as one.", ("action",), registry=self.registry
        )
        self.registry.register(_LastCycle(self))

    def cycle_done(self, plan: Plan, timings: Timings, seconds: float) -> None:
        self.last = plan
        self._cycle.observe(seconds * 1000)
        self._open.observe(timings.opening * 1000)
        for name, spent in timings.actions.items():
            self._action.labels(name).observe(spent * 1000)
        for (plugin, moment), spent in timings.plugins.items():
            self._plugin.labels(plugin, moment).observe(spent * 1000)
        for name, spent in timings.stages.items():
            self._stage.labels(name).observe(spent * 1000)
        for name, count in plan.tallies.transactions.items():
            self._transactions.labels(name).inc(count)
        if plan.tallies.attempts:
            self.attempts += plan.tallies.attempts
            self.victims = plan.tallies.victims
        self._note_groups(plan.groups)
        if len(self.jobs) > _SPARE_JOBS + 2 * (len(plan.groups) + len(plan.resting)):
            self.forget_gone()

    def forget_gone(self) -> None:
        """Keep figures only of groups that the last cycle knew."""
        groups, resting = (self.last.groups, self.last.resting) if self.last is not None else ((), ())
        alive = {*(outcome.group.row.key for outcome in groups), *(group.row.key for group in resting)}
        for key in [key for key in self.jobs if key not in alive]:
            del self.jobs[key]

    def watched(self, created: float) -> None:
        self._reached("Watched", [created])

    def assumed(self, placement: Placement) -> None:
        """A group's pods have nodes."""
        now, row = self._clock.now().timestamp(), placement.group.row
        self._reached("Assumed", [pod.created for pod, _ in placement.pairs()])
        self._attempts.labels("scheduled").inc(len(placement))
        figures = self._figures_of(row, now)
        figures.last, figures.milliseconds = now, (now - row.created) * 1000
        self._job.observe(figures.milliseconds)

    def binding(self, created: Iterable[float]) -> None:
        self._reached("PreBound", created)
        self._stage.labels("PreBind").observe(0.0)

    def answered(self, created: Iterable[float], refused: int, seconds: float) -> None:
        """The server has answered a gang's bindings: those made, and how many it refused."""
        self._reached("Bound", created)
        self._stage.labels("Bind").observe(seconds * 1000)
        if refused:
            self._attempts.labels("error").inc(refused)

    def _note_groups(self, groups: Iterable[GroupOutcome]) -> None:
        now = self._clock.now().timestamp()
        for outcome in groups:
            lacking = is_unschedulable(outcome)
            if lacking or outcome.decision:
                self._figures_of(outcome.group.row, now).retries += lacking
            if lacking and outcome.decision:
                self._attempts.labels("unschedulable").inc(outcome.missing)

    def _figures_of(self, row: PodGroup, now: float) -> JobFigures:
        """A group's figures, begun anew where another one had its name."""
        figures = self.jobs.get(row.key)
        if figures is None or figures.uid != row.uid:
            figures = self.jobs[row.key] = JobFigures(row, now)
        return figures

    def _reached(self, stage: str, created: Iterable[float]) -> None:
        now = self._clock.now().timestamp()
        self._pods.observe(stage, [(now - moment) * 1000 for moment in created])

    def _histogram(self, name: str, help_: str, buckets: Sequence[float], labels: tuple[str, ...] = ()) -> Histogram:
        full = f"{_PREFIX}{name}_milliseconds"
        return Histogram(full, help_, labels, buckets=buckets, registry=self.registry)


class JobFigures:
    """When a group was first looked at, how often in vain, when pods of it last got nodes, and how long after its
    creation."""

    def __init__(self, row: PodGroup, start: float) -> None:
        self.uid = row.uid
        self.queue = row.queue
        self.start = start
        self.retries = 0
        self.last = 0.0
        self.milliseconds = 0.0


def is_unschedulable(outcome: GroupOutcome) -> bool:
    return outcome.condition is not None and outcome.condition.type == PodGroupCondition.UNSCHEDULABLE


class _PodHistogram(Collector):
    """By stage. The library's takes one value at a time, which is too slow for what happens to every pod."""

    def __init__(self, name: str, help_: str, bounds: Sequence[float], *, registry: CollectorRegistry) -> None:
        self._name = name
        self._help = help_
        self._bounds = list(bounds)
        self._counts = {stage: [0] * (len(bounds) + 1) for stage in ("Watched", "Assumed", "PreBound", "Bound")}
        self._sums = dict.fromkeys(self._counts, 0.0)
        registry.register(self)

    def observe(self, stage: str, values: Sequence[float]) -> None:
        counts, bounds = self._counts[stage], self._bounds
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self._sums[stage] += sum(values)

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._help, labels=("stage",))
        for stage, counts in self._counts.items():
            total, buckets = 0, []
            for bound, count in zip([*map(str, self._bounds), "+Inf"], counts):
                total += count
                buckets.append((bound, float(total)))
            family.add_metric((stage,), buckets, self._sums[stage])
        yield family


class _LastCycle(Collector):
    """Read when asked for."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        plan = self._metrics.last
        groups = plan.groups if plan is not None else ()
        self._metrics.forget_gone()
        yield from self._job_gauges()
        yield from self._waiting(groups)
        attempts: list[tuple[dict[str, str], int]] = [({}, self._metrics.attempts)]
        yield plain_counter(f"{_PREFIX}total_preemption_attempts", "Nodes on which room was sought.", attempts)
        yield GaugeMetricFamily(f"{_PREFIX}pod_preemption_victims", "Of the last attempt.", self._metrics.victims)
        yield from self._of_plugins(plan)

    def _job_gauges(self) -> Iterator[Metric]:
        duration = _gauge("e2e_job_scheduling_duration", _JOB, "Milliseconds from creation to placement.")
        start = _gauge("e2e_job_scheduling_start_time", _JOB, "When it was first looked at.")
        last = _gauge("e2e_job_scheduling_last_time", _JOB, "When pods of it last got nodes.")
        for key, job in self._metrics.jobs.items():
            labels = (key.name, job.queue, key.namespace)
            start.add_metric(labels, job.start)
            if job.last:
                duration.add_metric(labels, job.milliseconds)
                last.add_metric(labels, job.last)
        yield from (duration, start, last)

    def _waiting(self, groups: Sequence[GroupOutcome]) -> Iterator[Metric]:
        tasks = _gauge("unschedule_task_count", ("job_id",), "Pods a group lacks.")
        waiting = [outcome for outcome in groups if is_unschedulable(outcome)]
        for outcome in waiting:
            tasks.add_metric((outcome.group.name,), outcome.missing)
        yield tasks
        tried = ((key, job.retries) for key, job in self._metrics.jobs.items() if job.retries)
        samples = [({"job_id": f"{key.namespace}/{key.name}"}, count) for key, count in tried]
        yield plain_counter(f"{_PREFIX}job_retry_counts", "Cycles in which a group was unschedulable.", samples)
        yield GaugeMetricFamily(f"{_PREFIX}unschedule_job_count", "Groups that lack pods.", len(waiting))

    def _of_plugins(self, plan: Plan | None) -> Iterator[Metric]:
        told: dict[str, dict[tuple[str, ...], float]] = {}
        for figure in plan.figures() if plan is not None else ():
            # Said twice it would spoil the page: the plugin that comes first has said it.
            told.setdefault(figure.name, {}).setdefault(figure.labels, figure.value)
        for name, labels, help_ in _GAUGES:
            family = _gauge(name, labels, help_)
            for values, value in told.get(name, {}).items():
                if len(values) == len(labels):
                    family.add_metric(values, value)
            yield family


def _gauge(name: str, labels: Sequence[str], help_: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(_PREFIX + name, help_, labels=labels)
