from __future__ import annotations

import random

from prometheus_client.exposition import generate_latest

from hekla.api.kinds import JOB
from hekla.controllers.metrics import ControllerMetrics
from hekla.controllers.sources import Sources
from tests import make
from tests.controllers.bench import Bench, on_bench


def test_what_became_of_jobs_and_where_their_groups_are_is_counted() -> None:
    async def script(bench: Bench) -> None:
        sources = Sources(bench.client, random.Random(0))
        metrics = ControllerMetrics(sources, bench.clock)
        for informer in sources:
            bench.start(informer.run())
        await sources.synced()
        await bench.create(make.new_job("demo"))
        await bench.until_running(1)
        await bench.settle()
        page = generate_latest(metrics.registry).decode()
        assert 'volcano_queue_pod_group_inqueue_count{queue_name="default"} 1.0' in page
        assert 'volcano_queue_pod_group_running_count{queue_name="root"} 0.0' in page
        assert "volcano_controller_job_to_pod_creation_latency_milliseconds_count 1.0" in page
        assert "volcano_job_completed_phase_count{" not in page
        await bench.end("demo-worker-0")
        await bench.until_phase("Completed")
        await bench.settle()
        ended = 'volcano_job_completed_phase_count{job_name="default/demo",queue_name="default"} 1.0'
        assert ended in generate_latest(metrics.registry).decode()
        await bench.client.delete(JOB, "demo", "default")
        await bench.until_gone()
        await bench.settle()
        assert ended not in generate_latest(metrics.registry).decode()

    on_bench(script)
