"""Controllers run with some of them left out, or told to do less."""

from __future__ import annotations

from typing import Any

from hekla.api.kinds import JOB, POD, POD_GROUP, REPLICA_SET
from hekla.api.meta import annotations_of, owner_reference
from hekla.controllers.controllers import CONTROLLERS, GARBAGE, JOBS
from tests import make
from tests.controllers.bench import Bench, on_bench


async def restarted(bench: Bench, **flags: Any) -> None:
    await bench.stop_controllers()
    bench.flags = flags
    bench.start_controllers()


def test_a_finished_job_stays_where_nobody_collects_garbage() -> None:
    async def script(bench: Bench) -> None:
        await restarted(bench, wanted={*CONTROLLERS} - {GARBAGE})
        await bench.create(make.new_job("demo", ttlSecondsAfterFinished=0))
        await bench.settle()
        await bench.end("demo-worker-0")
        await bench.settle()
        job = await bench.client.get(JOB, "demo", "default")
        assert job["status"]["state"]["phase"] == "Completed"
        await restarted(bench)
        await bench.settle()
        assert await bench.client.find(JOB, "demo", "default") is None

    on_bench(script)


def test_a_job_waits_until_there_is_a_job_controller() -> None:
    async def script(bench: Bench) -> None:
        await restarted(bench, wanted={*CONTROLLERS} - {JOBS})
        await bench.create(make.new_job("demo"))
        await bench.settle()
        assert list(await bench.client.find_all(POD_GROUP)) == []
        await restarted(bench)
        await bench.settle()
        assert len(list(await bench.client.find_all(POD_GROUP))) == 1

    on_bench(script)


def test_groups_need_not_inherit_from_their_pods_owners() -> None:
    async def script(bench: Bench) -> None:
        await restarted(bench, inherit_owner_annotations=False)
        labels = {"app": "x"}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
        meta = {"name": "rs", "annotations": {"volcano.sh/x": "y", "scheduling.volcano.sh/group-min-member": "2"}}
        owner = await bench.client.create(
            REPLICA_SET,
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {**meta, "namespace": "default"}, "spec": spec},
        )
        pod = make.pod("p", spec={"schedulerName": "volcano", "containers": [make.container()]})
        pod["metadata"] = {
            "name": "p", "namespace": "default", "ownerReferences": [owner_reference(owner, REPLICA_SET)],
        }  # fmt: skip
        del pod["status"]
        await bench.client.create(POD, pod)
        await bench.settle()
        (group,) = await bench.client.find_all(POD_GROUP)
        assert annotations_of(group) == {}
        assert group["spec"]["minMember"] == 1

    on_bench(script)
