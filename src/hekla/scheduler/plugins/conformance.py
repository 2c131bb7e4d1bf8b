"""Pods a cluster cannot do without."""

from __future__ import annotations

from hekla.scheduler.extension import SchedulerPlugin


class Conformance(SchedulerPlugin):
    """Protects system pods from eviction. Nothing is evicted yet, so it has no point to take part in."""
