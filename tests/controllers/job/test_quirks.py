"""Upstream's quirks (Q) and its plugins' known problems (B) that we do better: one test each, named after the entry.

`tests/test_registers.py` checks that none is missing; some have their test beside the code they are about.
"""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta
from typing import Any

import pytest

from hekla.api.kinds import CONFIG_MAP, EVENT, JOB, NETWORK_POLICY, NODE, POD, POD_GROUP, SECRET, SERVICE, Kind, Obj
from hekla.api.meta import is_deleting, name_of, parse_timestamp, uid_of
from hekla.controllers.job.events import occurrences
from hekla.controllers.job.model import read_job, read_pods
from hekla.controllers.job.orders import Waiting, decide
from hekla.controllers.job.policy import answer
from tests import make
from tests.controllers.bench import Bench, on_bench

NOW = parse_timestamp(make.CREATED)


async def status_of(bench: Bench) -> Obj:
    return dict((await bench.client.get(JOB, "demo", "default"))["status"])


async def told(bench: Bench) -> list[str]:
    return [f"{event['reason']}: {event['message']}" for event in await bench.client.find_all(EVENT, "default")]


async def made_by_plugins(bench: Bench) -> dict[str, str]:
    kinds = (SERVICE, CONFIG_MAP, NETWORK_POLICY, SECRET)
    found = [(kind.kind, one) for kind in kinds for one in await bench.client.find_all(kind, "default")]
    return {f"{kind}/{name_of(one)}": uid_of(one) for kind, one in found if name_of(one).startswith("demo")}


def test_q01_pods_that_have_finished_stay_counted_in_a_finished_job() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("a", 2), make.task("b", 1), minAvailable=1))
        await bench.until_running(3)
        for pod, phase in (("demo-a-0", "Succeeded"), ("demo-a-1", "Succeeded"), ("demo-b-0", "Failed")):
            await bench.end(pod, phase)
        await bench.until_phase("Completed")
        await bench.settle()
        status = await status_of(bench)
        assert (status["succeeded"], status["failed"]) == (2, 1)
        assert status["taskStatusCount"] == {"a": {"phase": {"Succeeded": 2}}, "b": {"phase": {"Failed": 1}}}

    on_bench(script)


@pytest.mark.parametrize("action", ["RestartPod", "RestartTask", "RestartPartition"])
def test_q02_b01_b02_a_target_kill_leaves_the_objects_of_plugins_and_their_keys_alone(action: str) -> None:
    async def script(bench: Bench) -> None:
        parts = {"totalPartitions": 2, "partitionSize": 1, "minPartitions": 2}
        task = make.task("worker", 2, partitionPolicy=parts)
        policies, plugins = [make.policy("PodFailed", action)], {"svc": [], "ssh": []}
        await bench.create(make.new_job("demo", task, make.task("other"), policies=policies, plugins=plugins))
        await bench.until_running(3)
        before = await made_by_plugins(bench)
        keys = (await bench.client.get(SECRET, "demo-ssh", "default"))["data"]
        await bench.end("demo-worker-0", "Failed", 1)
        await bench.until_running(3)
        await bench.settle()
        assert (await status_of(bench))["retryCount"] == 1
        assert await made_by_plugins(bench) == before
        assert (await bench.client.get(SECRET, "demo-ssh", "default"))["data"] == keys

    on_bench(script)


def test_q03_a_scale_down_is_no_eviction() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 3), policies=[make.policy("*", "TerminateJob")]))
        await bench.until_running(3)
        await bench.scale("demo", 0, 1)
        for name in ("demo-worker-1", "demo-worker-2"):
            await bench.until(
                lambda name=name: is_deleting(bench.store.object(POD, name, "default") or {"metadata": {}}),
                f"{name} is told to go",
            )
            await bench.end(name, "Failed", 143)
        await bench.settle()
        status = await status_of(bench)
        assert (status["state"]["phase"], status.get("version", 0)) == ("Running", 0)

    on_bench(script)


def test_q07_an_unknown_group_is_answered_after_a_restart_too() -> None:
    job = make.job("demo", make.task("worker"), policies=[make.policy("Unknown", "RestartJob")])
    job["status"] = {"state": {"phase": "Running"}, "version": 3}
    (one,) = occurrences(read_job(job), [], "Unknown")
    assert answer(read_job(job), one).action == "RestartJob"


def test_q08_a_pod_that_runs_when_it_is_first_seen_starts_no_pending_timeout() -> None:
    policies = [make.policy("PodPending", "AbortJob", timeout="10s")]
    job = make.job("demo", make.task("worker"), policies=policies)
    job["status"] = {"state": {"phase": "Running"}}
    pods = read_pods([make.job_pod(job, phase="Running")])
    found = decide(read_job(job), pods, "Running", Waiting(), NOW + timedelta(hours=1))
    assert (found.order.action, found.next_due) == ("SyncJob", None)


def test_q09_a_partition_whose_last_pod_was_evicted_is_restarted_all_the_same() -> None:
    async def script(bench: Bench) -> None:
        parts = {"totalPartitions": 2, "partitionSize": 1, "minPartitions": 2}
        task = make.task("worker", 2, partitionPolicy=parts, policies=[make.policy("PodEvicted", "RestartPartition")])
        await bench.create(make.new_job("demo", task))
        await bench.until_running(2)
        await bench.client.delete(POD, "demo-worker-1", "default")
        await bench.until_running(2)
        await bench.settle()
        status = await status_of(bench)
        assert (status["state"]["phase"], status["retryCount"]) == ("Running", 1)

    on_bench(script)


def test_q10_a_delayed_answer_that_another_has_replaced_never_comes() -> None:
    policies = [
        make.policy("PodPending", "TerminateJob", timeout="60s"),
        make.policy("PodFailed", "AbortJob", timeout="5m"),
    ]
    job = make.job("demo", make.task("worker"), policies=policies)
    job["status"] = {"state": {"phase": "Running"}}
    waiting = Waiting()
    pending = read_pods([make.job_pod(job, phase="Pending")])
    assert decide(read_job(job), pending, "Inqueue", waiting, NOW).next_due == 60.0
    failed = read_pods([make.job_pod(job, phase="Failed", exit_code=1)])
    found = decide(read_job(job), failed, "Running", waiting, NOW + timedelta(seconds=90))
    assert (found.order.action, found.next_due) == ("SyncJob", 210.0)


def test_q19_counters_are_fresh_while_the_gang_waits_to_be_let_in_again() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 2)))
        await bench.until_running(2)
        (group,) = await bench.client.find_all(POD_GROUP, "default")
        await bench.client.patch(POD_GROUP, name_of(group), {"status": {"phase": "Pending"}}, "default")
        await bench.client.delete(POD, "demo-worker-0", "default")
        await bench.settle()
        status = await status_of(bench)
        assert (status["running"], status["taskStatusCount"]["worker"]["phase"]) == (1, {"Running": 1})
        assert [name_of(pod) for pod in await bench.client.find_all(POD, "default")] == ["demo-worker-1"]

    on_bench(script)


@pytest.mark.parametrize("replicas", [2, 3])
def test_q23_a_delayed_restart_is_written_down_and_counted_once(replicas: int) -> None:
    async def script(bench: Bench) -> None:
        policies = [make.policy("PodFailed", "RestartJob", timeout="3s")]
        await bench.create(make.new_job("demo", make.task("worker", replicas), policies=policies))
        before = {uid_of(pod) for pod in await bench.until_running(replicas)}
        await bench.end("demo-worker-0", "Failed", 1)
        await bench.settle()
        after = {uid_of(pod) for pod in await bench.until_running(replicas)}
        status = await status_of(bench)
        assert not before & after
        assert status["retryCount"] == 1
        assert "Restarting" in [condition["status"] for condition in status["conditions"]]

    on_bench(script)


def test_b03_the_hosts_of_the_keys_follow_scaling_and_the_keys_stay() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 1), plugins={"ssh": []}))
        await bench.until_running(1)
        before = (await bench.client.get(SECRET, "demo-ssh", "default"))["data"]
        await bench.scale("demo", 0, 3)
        await bench.until_running(3)
        after = (await bench.client.get(SECRET, "demo-ssh", "default"))["data"]
        assert before["config"] != after["config"]
        assert before["id_rsa"] == after["id_rsa"]

    on_bench(script)


@pytest.mark.parametrize("scaled_by", [2, -1])
def test_b03_containers_on_a_kubelet_keep_their_keys_when_the_job_is_scaled(scaled_by: int) -> None:
    """It takes the mounted directory from those that run, whatever has changed in it; the hosts follow at a restart."""

    async def script(bench: Bench) -> None:
        status = {"nodeInfo": {"containerRuntimeVersion": "containerd://2.1.4"}}
        await bench.client.create(NODE, {"metadata": {"name": "node-0"}, "status": status})
        job = await bench.create(make.new_job("demo", make.task("worker", 2), plugins={"ssh": []}))
        await bench.until_running(2)
        before = (await bench.client.get(SECRET, "demo-ssh", "default"))["data"]
        await bench.scale("demo", 0, 2 + scaled_by)
        await bench.until_running(2 + scaled_by)
        await bench.settle()
        assert (await bench.client.get(SECRET, "demo-ssh", "default"))["data"] == before
        await bench.command("RestartJob", job)
        await bench.until_phase("Restarting")
        await bench.until_running(2 + scaled_by)
        after = (await bench.client.get(SECRET, "demo-ssh", "default"))["data"]
        assert base64.b64decode(after["config"]).decode().count("HostName") == 2 + scaled_by
        assert {**after, "config": ""} == {**before, "config": ""}

    on_bench(script)


def foreign(kind: Any, name: str) -> Obj:
    content: Obj = {"spec": {"ports": [{"port": 80}]}} if kind is SERVICE else {"data": {"bm90ZQ": "bWluZQ=="}}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **content}


@pytest.mark.parametrize(
    ("kind", "name", "plugins"),
    [
        (CONFIG_MAP, "demo-svc", {"svc": []}),
        (SERVICE, "demo", {"svc": []}),
        (SECRET, "demo-ssh", {"ssh": []}),
        (SERVICE, "demo-head-svc", {"ray": []}),
    ],
)
def test_b04_an_object_of_another_owner_is_neither_changed_nor_deleted(
    kind: Any, name: str, plugins: dict[str, list[str]]
) -> None:
    async def script(bench: Bench) -> None:
        mine = await bench.client.create(kind, foreign(kind, name))
        job = await bench.create(make.new_job("demo", make.task("head"), plugins=plugins))
        await bench.settle()
        words = (
            f'PluginError: Execute plugin when job add failed, err: {kind.singular} "{name}" exists and does not belong'
        )
        assert any(event.startswith(words) for event in await told(bench))
        await bench.command("TerminateJob", job)
        await bench.until_phase("Terminated")
        await bench.settle()
        left = await bench.client.get(kind, name, "default")
        assert (uid_of(left), left["metadata"]["resourceVersion"]) == (
            uid_of(mine),
            mine["metadata"]["resourceVersion"],
        )

    on_bench(script)


def test_b05_nothing_of_the_plugins_is_left_after_a_restart_that_ends_in_failure() -> None:
    async def script(bench: Bench) -> None:
        policies, plugins = [make.policy("PodFailed", "RestartJob")], {"svc": [], "ssh": []}
        await bench.create(make.new_job("demo", policies=policies, plugins=plugins, maxRetry=1))
        await bench.until_running(1)
        assert len(await made_by_plugins(bench)) == 4
        await bench.end("demo-worker-0", "Failed", 1)
        await bench.until_phase("Failed")
        await bench.settle()
        assert await made_by_plugins(bench) == {}
        assert "controlledResources" not in await status_of(bench)

    on_bench(script)


def test_b06_an_object_that_vanished_is_there_again_for_the_next_pod() -> None:
    async def script(bench: Bench) -> None:
        plugins = {"svc": [], "ssh": []}
        await bench.create(make.new_job("demo", make.task("worker", 2), plugins=plugins))
        await bench.until_running(2)
        names = set(await made_by_plugins(bench))
        for kind, name in ((SERVICE, "demo"), (NETWORK_POLICY, "demo"), (CONFIG_MAP, "demo-svc"), (SECRET, "demo-ssh")):
            await bench.client.delete(kind, name, "default")
        await bench.client.delete(POD, "demo-worker-0", "default")
        await bench.until_running(2)
        assert set(await made_by_plugins(bench)) == names

    on_bench(script)


def test_b06_an_object_that_vanished_is_there_again_for_a_container_that_starts_again() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 2), plugins={"svc": [], "ssh": []}))
        await bench.until_running(2)
        await bench.settle()
        before = await made_by_plugins(bench)
        for kind, name in ((SERVICE, "demo"), (NETWORK_POLICY, "demo"), (CONFIG_MAP, "demo-svc"), (SECRET, "demo-ssh")):
            await bench.client.delete(kind, name, "default")
        status = {"containerStatuses": [make.container_status("Running", restarts=1)]}
        await bench.client.patch(POD, "demo-worker-0", {"status": status}, "default", subresource="status")
        await bench.settle()
        # New keys would lock out the pods that have the old ones.
        assert set(await made_by_plugins(bench)) == set(before) - {"Secret/demo-ssh"}

    on_bench(script)


@pytest.mark.parametrize(("kind", "name"), [(SERVICE, "demo"), (NETWORK_POLICY, "demo"), (CONFIG_MAP, "demo-svc")])
def test_b06_an_object_that_vanished_is_there_again_though_nothing_else_happens(kind: Kind, name: str) -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 2), plugins={"svc": []}))
        await bench.until_running(2)
        await bench.settle()
        for _ in range(2):
            gone = await bench.client.get(kind, name, "default")
            await bench.client.delete(kind, name, "default")
            await bench.until(lambda: bench.store.object(kind, name, "default"), f"{name} is there again")
            again = await bench.client.get(kind, name, "default")
            assert uid_of(again) != uid_of(gone)
            assert again["metadata"]["ownerReferences"] == gone["metadata"]["ownerReferences"]

    on_bench(script)


def test_b06_a_name_that_another_took_meanwhile_does_not_hold_up_a_job_that_runs() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 2), plugins={"svc": []}))
        await bench.until_running(2)
        await bench.settle()
        await bench.client.delete(SERVICE, "demo", "default")
        await bench.client.create(SERVICE, foreign(SERVICE, "demo"))
        await bench.end("demo-worker-0")
        await bench.settle()
        assert 'PluginError: service "demo" exists and does not belong to this job' in await told(bench)
        await bench.end("demo-worker-1")
        await bench.until_phase("Completed")

    on_bench(script)


def test_b07_the_host_list_follows_scaling_while_the_job_waits() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 2), plugins={"svc": []}))
        await bench.until_running(2)
        (group,) = await bench.client.find_all(POD_GROUP, "default")
        await bench.client.patch(POD_GROUP, name_of(group), {"status": {"phase": "Pending"}}, "default")
        for replicas in (4, 0, 2):
            await bench.scale("demo", 0, replicas)
            await bench.settle()
            hosts = (await bench.client.get(CONFIG_MAP, "demo-svc", "default"))["data"]
            assert hosts["VC_WORKER_NUM"] == str(replicas)
            assert hosts["VC_WORKER_HOSTS"] == ",".join(f"demo-worker-{index}.demo" for index in range(replicas))

    on_bench(script)


def test_b08_a_job_is_told_that_ray_replaces_its_command() -> None:
    async def script(bench: Bench) -> None:
        head = make.task("head", pod={"containers": [make.container("head", command=["python", "x.py"])]})
        await bench.create(make.new_job("demo", head, plugins={"ray": []}))
        await bench.until_running(1)
        await bench.settle()
        words = 'spec.plugins[ray]: the command of container "head" in task "head" is replaced by "ray start"'
        assert f"PluginError: {words}" in await told(bench)

    on_bench(script)


def test_b12_arguments_nobody_reads_are_told_on_the_job() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job(plugins={"svc": ["--no-such-thing"], "ssh": ["--ssh-port=abc"]}))
        await bench.until_running(1)
        await bench.settle()
        events = await told(bench)
        assert "PluginError: spec.plugins[svc]: flag provided but not defined: -no-such-thing" in events
        assert 'PluginError: spec.plugins[ssh]: invalid value "abc" for flag -ssh-port: parse error' in events

    on_bench(script)


def test_b32_a_quiet_job_causes_no_writes() -> None:
    async def script(bench: Bench) -> int:
        plugins: dict[str, list[str]] = {"env": [], "svc": [], "ssh": []}
        await bench.create(make.new_job("demo", make.task("worker", 3), plugins=plugins))
        await bench.until_running(3)
        await bench.settle()
        before = bench.transport.writes
        await asyncio.sleep(600)
        return bench.transport.writes - before

    assert on_bench(script)[0] == 0
