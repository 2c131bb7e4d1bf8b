"""The controllers: what makes Jobs run, queues open and finished things go."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable

from hekla.api.batch import SCHEDULER_NAME
from hekla.client.recorder import Recorder
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.controllers.emptied import EmptiedGroupController
from hekla.controllers.garbage import GarbageController
from hekla.controllers.job.controller import JobController
from hekla.controllers.jobflow import JobFlowController
from hekla.controllers.jobtemplate import JobTemplateController
from hekla.controllers.metrics import ControllerMetrics
from hekla.controllers.podgroup import PodGroupController
from hekla.controllers.queue import QueueController
from hekla.controllers.sources import Sources
from hekla.metrics import serving_metrics

COMPONENT = "vc-controller-manager"


async def run(
    client: Client,
    *,
    clock: Clock,
    rng: random.Random,
    schedulers: tuple[str, ...] = (SCHEDULER_NAME,),
    metrics_address: str = "",
    ready: Callable[[], None] | None = None,
) -> None:
    """Run all controllers until cancelled. `ready` is called once they are at work and Jobs can be taken.

    Their figures are served at `metrics_address`, if there is one.
    """
    sources = Sources(client, rng)
    metrics = ControllerMetrics(sources, clock)
    recorder = Recorder(client, COMPONENT, clock=clock, rng=rng)
    jobs = JobController(client, sources, clock=clock, rng=rng, recorder=recorder)
    queues = QueueController(client, sources, recorder=recorder)
    groups = PodGroupController(client, sources, schedulers=schedulers)
    emptied = EmptiedGroupController(client, sources)
    garbage = GarbageController(client, sources, clock=clock)
    flows = JobFlowController(client, sources, clock=clock, recorder=recorder)
    templates = JobTemplateController(client, sources)
    try:
        async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            if metrics_address:
                await stack.enter_async_context(serving_metrics(metrics.registry, metrics_address))
            for informer in sources:
                tasks.create_task(informer.run())
            await sources.synced()
            tasks.create_task(recorder.run())
            queues.start()
            for controller in (queues, jobs, groups, emptied, garbage, flows, templates):
                tasks.create_task(controller.runner.run())
            await queues.settled()
            if ready is not None:
                ready()
    finally:
        await recorder.flush()


__all__ = ["run"]
