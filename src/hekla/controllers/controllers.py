"""All controllers as one component, side by side in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Collection, Iterable

from hekla.api.batch import SCHEDULER_NAME
from hekla.client.lease import Election
from hekla.client.recorder import Recorder
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.controllers.cronjob.controller import CronJobController
from hekla.controllers.emptied import EmptiedGroupController
from hekla.controllers.garbage import GarbageController
from hekla.controllers.job.controller import JobController
from hekla.controllers.jobflow import JobFlowController
from hekla.controllers.jobtemplate import JobTemplateController
from hekla.controllers.metrics import ControllerMetrics
from hekla.controllers.podgroup import PodGroupController
from hekla.controllers.queue import QueueController
from hekla.controllers.runner import Runner
from hekla.controllers.sources import Sources
from hekla.metrics import serving_metrics, tell_whether_leading
from hekla.moved_clock import watch_clock

COMPONENT = "vc-controller-manager"

JOBS, QUEUES, GROUPS, GARBAGE = "job-controller", "queue-controller", "pg-controller", "gc-controller"
FLOWS, TEMPLATES, CRON_JOBS = "jobflow-controller", "jobtemplate-controller", "cronjob-controller"
CONTROLLERS = (JOBS, QUEUES, GROUPS, GARBAGE, FLOWS, TEMPLATES, CRON_JOBS)  # by upstream's names


async def run(
    client: Client,
    *,
    clock: Clock,
    rng: random.Random,
    wanted: Collection[str] = CONTROLLERS,
    schedulers: tuple[str, ...] = (SCHEDULER_NAME,),
    inherit_owner_annotations: bool = True,
    metrics_address: str = "",
    election: Election | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Run the controllers `wanted` until cancelled. `ready` is called once they are at work and Jobs can be taken.

    Their figures are served at `metrics_address`, if there is one. Where there is an election they begin once it is
    won; `client` should be fenced by it.
    """
    sources = Sources(client, rng)
    metrics = ControllerMetrics(sources, clock)
    recorder = Recorder(client, COMPONENT, clock=clock, rng=rng)
    jobs = JobController(client, sources, clock=clock, rng=rng, recorder=recorder)
    queues = QueueController(client, sources, clock=clock, recorder=recorder)
    groups = PodGroupController(client, sources, schedulers=schedulers, inherit=inherit_owner_annotations)
    emptied = EmptiedGroupController(client, sources)
    garbage = GarbageController(client, sources, clock=clock)
    flows = JobFlowController(client, sources, clock=clock, recorder=recorder)
    templates = JobTemplateController(client, sources)
    cron_jobs = CronJobController(client, sources, clock=clock, recorder=recorder)
    runners: dict[str, tuple[Runner, ...]] = {
        QUEUES: (queues.runner,),
        JOBS: (jobs.runner,),
        GROUPS: (groups.runner, emptied.runner),
        GARBAGE: (garbage.runner,),
        FLOWS: (flows.runner,),
        TEMPLATES: (templates.runner,),
        CRON_JOBS: (cron_jobs.runner,),
    }
    async with contextlib.AsyncExitStack() as stack:
        if metrics_address:
            await stack.enter_async_context(serving_metrics(metrics.registry, metrics_address))
        if election is not None:
            tell_whether_leading(metrics.registry, election.name, lambda: election.leads)
            await stack.enter_async_context(election.won())
        stack.push_async_callback(recorder.flush)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for source in (*sources, *sources.belongings):
            tasks.create_task(source.run())
        await sources.synced()
        tasks.create_task(recorder.run())
        if QUEUES in wanted:
            queues.start()
        at_work = [runner for name, group in runners.items() if name in wanted for runner in group]
        for runner in at_work:
            tasks.create_task(runner.run())
        tasks.create_task(watch_clock(clock, lambda: _hasten(at_work)))
        if QUEUES in wanted:
            await queues.settled()
        if ready is not None:
            ready()


def _hasten(runners: Iterable[Runner]) -> None:
    for runner in runners:
        runner.hasten()
