"""What the controllers can be measured by, under upstream's names, told from the changes they see."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hekla.api.kinds import Obj
from hekla.api.meta import key_of, name_of, namespace_of, parse_timestamp
from hekla.api.scheduling import PodGroupPhase
from hekla.client.informer import Update
from hekla.clock import Clock
from hekla.controllers.sources import Sources
from hekla.metrics import PlainCounter

_JOB_ENDS = {"Completed": "completed", "Failed": "failed"}
_FLOW_ENDS = {"Succeed": "succeed", "Failed": "failed"}
_MILLISECONDS = tuple(5.0 * 2**step for step in range(16))


class ControllerMetrics:
    """The figures of one process: nothing here is shared with another in the same interpreter."""

    def __init__(self, sources: Sources, clock: Clock) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        self._jobs = {
            phase: PlainCounter(
                f"volcano_job_{word}_phase_count", f"Jobs that became {phase}.", ("job_name", "queue_name"),
                registry=self.registry,
            )
            for phase, word in _JOB_ENDS.items()
        }  # fmt: skip
        self._flows = {
            phase: PlainCounter(
                f"volcano_jobflow_{word}_phase_count", f"JobFlows that became {phase}.", ("jobflow_namespace",),
                registry=self.registry,
            )
            for phase, word in _FLOW_ENDS.items()
        }  # fmt: skip
        self._first_pods = Histogram(
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
            "From a Job's creation until its first pods are made.",
            buckets=_MILLISECONDS,
            registry=self.registry,
        )
        self.registry.register(_QueueCollector(sources))
        sources.jobs.subscribe(self._job_changed)
        sources.flows.subscribe(self._flow_changed)

    def _job_changed(self, update: Update) -> None:
        if update.new is None:
            for counter in self._jobs.values():
                counter.forget(*_labels(update.obj))
        elif update.old is not None:
            if _phase(update.new) in self._jobs and _phase(update.old) != _phase(update.new):
                self._jobs[_phase(update.new)].add(*_labels(update.new))
            if _counts_pods(update.new) and not _counts_pods(update.old) and not _has_been_killed(update.new):
                age = self._clock.now() - parse_timestamp(update.new["metadata"]["creationTimestamp"])
                self._first_pods.observe(max(0.0, age.total_seconds()) * 1000)

    def _flow_changed(self, update: Update) -> None:
        if update.old is None or update.new is None or _phase(update.old) == _phase(update.new):
            return
        if _phase(update.new) in self._flows:
            self._flows[_phase(update.new)].add(namespace_of(update.new))


class _QueueCollector(Collector):
    """PodGroups by queue and phase, counted when somebody asks."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        tally: Tally[tuple[str, str]] = Tally()
        for group in self._sources.groups.all():
            phase = (group.get("status") or {}).get("phase") or PodGroupPhase.PENDING
            tally[str((group.get("spec") or {}).get("queue") or ""), str(phase)] += 1
        queues = [name_of(queue) for queue in self._sources.queues.all()]
        for phase in PodGroupPhase:
            name = f"volcano_queue_pod_group_{phase.lower()}_count"
            family = GaugeMetricFamily(name, f"PodGroups of a queue that are {phase}.", labels=["queue_name"])
            for queue in queues:
                family.add_metric([queue], tally[queue, str(phase)])
            yield family


def _labels(job: Obj) -> tuple[str, str]:
    return str(key_of(job)), str((job.get("spec") or {}).get("queue") or "")


def _phase(obj: Obj) -> str:
    return str(((obj.get("status") or {}).get("state") or {}).get("phase") or "")


def _counts_pods(job: Obj) -> bool:
    return bool((job.get("status") or {}).get("taskStatusCount"))


def _has_been_killed(job: Obj) -> bool:
    return bool((job.get("status") or {}).get("version"))
