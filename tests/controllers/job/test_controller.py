"""The job controller against an API server: what a person would see."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hekla.api.kinds import (
    COMMAND,
    CONFIG_MAP,
    EVENT,
    JOB,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    QUEUE,
    Kind,
)
from hekla.api.meta import annotations_of, is_deleting, labels_of, name_of, uid_of
from hekla.client.transport import Answer
from hekla.errors import ApiError, Forbidden, Invalid
from tests import make
from tests.controllers.bench import Bench, on_bench
from tests.transports import nothing, refusal


async def events(bench: Bench) -> list[str]:
    return [f"{event['reason']}: {event['message']}" for event in await bench.client.find_all(EVENT, "default")]


async def uids(bench: Bench, kind: Any) -> dict[str, str]:
    return {name_of(one): uid_of(one) for one in await bench.client.find_all(kind, "default")}


def test_a_claim_is_made_once_and_a_missing_one_is_named() -> None:
    async def script(bench: Bench) -> None:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
        await bench.create(make.new_job(volumes=[{"mountPath": "/data", "volumeClaim": claim}]))
        (pod,) = await bench.until_running(1)
        (made,) = await bench.client.find_all(PERSISTENT_VOLUME_CLAIM, "default")
        job = await bench.client.get(JOB, "demo", "default")
        volume = job["spec"]["volumes"][0]
        assert volume["volumeClaimName"] == name_of(made)
        # Who stores the name writes back the rest, too, in upstream's spelling.
        assert volume["volumeClaim"]["resources"] == {"requests": {"storage": "1Gi"}}
        assert job["status"]["controlledResources"] == {f"volume-pvc-{name_of(made)}": name_of(made)}
        assert pod["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] == "/data"
        await bench.create(make.new_job("other", volumes=[{"mountPath": "/d", "volumeClaimName": "nothere"}]))
        await bench.settle()
        assert any("pvc nothere is not found" in event for event in await events(bench))

    on_bench(script)


def test_an_empty_claim_is_the_servers_to_refuse() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job(volumes=[{"mountPath": "/data", "volumeClaim": {}}]))
        await bench.settle()
        told = [event for event in await events(bench) if event.startswith("PVCError")]
        assert all("spec.accessModes: Required value" in event for event in told)
        assert told

    on_bench(script)


def test_a_timeout_is_told_as_it_is_stored() -> None:
    async def script(bench: Bench) -> None:
        policies = [make.policy("PodFailed", "RestartJob", timeout="90s")]
        await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies))
        await bench.until_running(2)
        await bench.end("demo-worker-0", "Failed", 1)
        await bench.settle()
        assert "ExecuteAction: Execute action RestartJob after 1m30s" in await events(bench)

    on_bench(script)


def test_a_delayed_answer_is_called_off_when_the_gang_has_mended_itself() -> None:
    async def script(bench: Bench) -> None:
        policies = [make.policy("Unknown", "RestartJob", timeout="90s")]
        await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies))
        await bench.until_running(2)
        (group,) = await bench.client.find_all(POD_GROUP, "default")
        # A minute each: of the first time it is lost, 60 of 90 seconds; then it is whole for two; then lost for good.
        for phase in ("Unknown", "Running", "Running"):
            await bench.client.patch(POD_GROUP, name_of(group), {"status": {"phase": phase}}, "default")
            await bench.settle()
        assert bench.phase("demo") == "Running"
        assert bench.job("demo")["status"].get("version") is None
        await bench.client.patch(POD_GROUP, name_of(group), {"status": {"phase": "Unknown"}}, "default")
        await bench.until_phase("Restarting")

    on_bench(script)


def test_a_delayed_answer_to_a_lost_gang_survives_a_restart_of_the_controller() -> None:
    async def script(bench: Bench) -> None:
        policies = [make.policy("Unknown", "AbortJob", timeout="150s")]
        await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies))
        await bench.until_running(2)
        (group,) = await bench.client.find_all(POD_GROUP, "default")
        await bench.client.patch(POD_GROUP, name_of(group), {"status": {"phase": "Unknown"}}, "default")
        for _ in range(2):
            await bench.settle()
            await bench.stop_controllers()
            bench.start_controllers()
        assert bench.phase("demo") == "Running"
        await bench.settle()
        assert bench.phase("demo") == "Aborted"

    on_bench(script)


@pytest.mark.parametrize("action", ["AbortJob", "RestartJob"])
def test_a_lost_gang_is_given_up_before_what_is_left_of_it_is_stopped(action: str) -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 2), policies=[make.policy("Unknown", action)]))
        await bench.until_running(2)
        (group,) = await bench.client.find_all(POD_GROUP, "default")
        deleted: list[str] = []

        async def note(request: str) -> None:
            if request.startswith("DELETE"):
                deleted.append(request.rsplit("/", 2)[1])

        bench.disturb = note
        await bench.client.patch(POD_GROUP, name_of(group), {"status": {"phase": "Unknown"}}, "default")
        await bench.settle()
        assert deleted[:3] == ["podgroups", "pods", "pods"]

    on_bench(script)


@pytest.mark.parametrize("timeout", ["", "10s"])
def test_a_lost_gang_is_answered_once_each_time_it_is_lost_whoever_is_there_to_see_it(timeout: str) -> None:
    async def script(bench: Bench) -> list[int]:
        policies = [make.policy("Unknown", "RestartTask", **({"timeout": timeout} if timeout else {}))]
        await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies))
        await bench.until_running(2)
        (group,) = await bench.client.find_all(POD_GROUP, "default")
        retries = []
        for phase in ("Unknown", "Running", "Unknown"):
            await bench.client.patch(POD_GROUP, name_of(group), {"status": {"phase": phase}}, "default")
            await bench.settle()
            await bench.stop_controllers()
            bench.start_controllers()
            await bench.settle()
            retries.append(bench.job("demo")["status"]["retryCount"])
        return retries

    assert on_bench(script)[0] == [1, 1, 2]


def test_without_a_partition_there_is_none_to_restart() -> None:
    async def script(bench: Bench) -> None:
        policies = [make.policy("PodFailed", "RestartPartition")]
        job = await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies))
        first = {name_of(pod): uid_of(pod) for pod in await bench.until_running(2)}
        await bench.command("RestartPartition", job)
        await bench.end("demo-worker-0", "Failed", 1)
        await bench.settle()
        status = (await bench.client.get(JOB, "demo", "default"))["status"]
        assert (status["state"]["phase"], status.get("retryCount", 0)) == ("Running", 0)
        assert await uids(bench, POD) == first
        assert await bench.client.find_all(COMMAND, "default") == []

    on_bench(script)


def test_a_task_or_pod_that_a_command_does_not_name_is_restarted_in_name_only() -> None:
    async def script(bench: Bench) -> None:
        job = await bench.create(make.new_job("demo", make.task("worker", 2)))
        first = {name_of(pod): uid_of(pod) for pod in await bench.until_running(2)}
        for action in ("RestartTask", "RestartPod"):
            await bench.command(action, job)
            await bench.settle()
        status = (await bench.client.get(JOB, "demo", "default"))["status"]
        assert (status["state"]["phase"], status["retryCount"]) == ("Running", 2)
        assert await uids(bench, POD) == first

    on_bench(script)


def test_scaling_up_tells_the_gang_and_the_host_list() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 1), plugins={"svc": []}))
        await bench.until_running(1)
        await bench.scale("demo", 0, 3)
        await bench.until_running(3)
        (group,) = await bench.client.find_all(POD_GROUP)
        assert (group["spec"]["minMember"], group["spec"]["minTaskMember"]) == (3, {"worker": 3})
        hosts = (await bench.client.get(CONFIG_MAP, "demo-svc", "default"))["data"]
        assert hosts["VC_WORKER_NUM"] == "3"

    on_bench(script)


def test_a_suspended_job_tells_of_a_gang_of_another_size_when_it_goes_on() -> None:
    async def script(bench: Bench) -> None:
        job = await bench.create(make.new_job("demo", make.task("worker", 3)))
        await bench.until_running(3)
        await bench.command("AbortJob", job)
        await bench.until_phase("Aborted")
        await bench.scale("demo", 0, 1)
        await bench.settle()
        assert bench.job("demo")["status"]["minAvailable"] == 3
        await bench.command("ResumeJob", job)
        await bench.until_running(1)
        assert bench.job("demo")["status"]["minAvailable"] == 1
        assert bench.phase("demo") == "Running"

    on_bench(script)


def test_a_smaller_gang_that_is_resumed_and_not_let_in_can_be_suspended_again() -> None:
    async def script(bench: Bench) -> None:
        bench.lets_gangs_in = False
        job = await bench.create(make.new_job("demo", make.task("worker", 3)))
        await bench.until_phase("Pending")
        await bench.command("AbortJob", job)
        await bench.until_phase("Aborted")
        await bench.scale("demo", 0, 2)
        await bench.command("ResumeJob", job)
        await bench.until_phase("Pending")
        await bench.command("AbortJob", job)
        await bench.until_phase("Aborted")

    on_bench(script)


def test_a_job_that_waits_to_be_let_in_tells_of_a_gang_of_another_size_when_it_is() -> None:
    async def script(bench: Bench) -> None:
        bench.lets_gangs_in = False
        await bench.create(make.new_job("demo", make.task("worker", 3)))
        await bench.settle()
        await bench.scale("demo", 0, 2)
        await bench.settle()
        assert bench.job("demo")["status"]["minAvailable"] == 3
        (group,) = await bench.client.find_all(POD_GROUP, "default")
        await bench.client.patch(POD_GROUP, name_of(group), {"status": {"phase": "Inqueue"}}, "default")
        await bench.until_running(2)
        assert bench.job("demo")["status"]["minAvailable"] == 2

    on_bench(script)


def test_a_task_is_made_when_the_one_it_depends_on_is_ready() -> None:
    async def script(bench: Bench) -> None:
        after = make.task("second", 1, dependsOn={"name": ["first"]})
        await bench.create(make.new_job("demo", make.task("first", 1), after, minAvailable=1))
        names = sorted(name_of(pod) for pod in await bench.until_running(2))
        assert names == ["demo-first-0", "demo-second-0"]

    on_bench(script)


def test_gangs_that_were_let_in_get_their_pods_before_all_others_are_begun() -> None:
    jobs = 1000

    async def script(bench: Bench) -> None:
        await bench.stop_controllers()
        for number in range(jobs):
            await bench.create(make.new_job(f"many-{number}", make.task("worker", 1)))
        groups: set[str] = set()
        begun_at_first_pod: list[int] = []
        bench.watch(POD_GROUP, lambda update: groups.add(name_of(update.obj)))
        bench.watch(POD, lambda update: begun_at_first_pod.append(len(groups)))
        bench.start_controllers()
        await bench.until(lambda: len(bench.pods()) == jobs, "all jobs have their pods")
        assert begun_at_first_pod[0] < 0.6 * jobs

    on_bench(script)


def test_a_job_made_again_under_its_name_has_nothing_of_the_old_one() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 2), plugins={"svc": []}))
        await bench.until_running(2)
        await bench.client.delete(JOB, "demo", "default", propagation="Background")
        new = await bench.create(make.new_job("demo", make.task("worker", 2), plugins={"svc": []}))
        await bench.settle()
        pods = await bench.until_running(2)
        owners = {reference["uid"] for pod in pods for reference in pod["metadata"]["ownerReferences"]}
        assert owners == {uid_of(new)}
        assert not [event for event in await events(bench) if event.startswith("Failed")]
        assert not (await bench.client.get(JOB, "demo", "default"))["status"].get("retryCount")

    on_bench(script)


def test_a_pod_of_somebody_else_keeps_its_name_and_the_job_says_so() -> None:
    async def script(bench: Bench) -> None:
        other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "demo-worker-0", "namespace": "default"}}
        theirs = await bench.client.create(POD, {**other, "spec": {"containers": [make.container()]}})
        await bench.create(make.new_job("demo", make.task("worker", 2), minAvailable=1))
        await bench.settle()
        told = [event for event in await events(bench) if event.startswith("FailedCreate")]
        assert told
        assert all('pods "demo-worker-0" already exists' in event for event in told)
        assert (await uids(bench, POD))["demo-worker-0"] == uid_of(theirs)
        assert "demo-worker-1" in await uids(bench, POD)

    on_bench(script)


def test_a_gang_that_was_disowned_is_the_jobs_again() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 2)))
        await bench.until_running(2)
        (group,) = await bench.client.find_all(POD_GROUP, "default")
        made = await bench.client.create(CONFIG_MAP, {"metadata": {"name": "note", "namespace": "default"}})
        note = {"apiVersion": "v1", "kind": "ConfigMap", "name": "note", "uid": uid_of(made)}
        await bench.client.patch(POD_GROUP, name_of(group), {"metadata": {"ownerReferences": [note]}}, "default")
        await bench.settle()
        (adopted,) = await bench.client.find_all(POD_GROUP, "default")
        assert uid_of(adopted) == uid_of(group)
        assert adopted["metadata"]["ownerReferences"] == [note, *group["metadata"]["ownerReferences"]]
        for pod in bench.pods():
            await bench.end(name_of(pod))
        await bench.until_phase("Completed")
        await bench.until(lambda: not bench.store.objects(POD_GROUP), "the gang goes with its end")

    on_bench(script)


def test_a_pod_that_was_disowned_is_missed_at_once_and_keeps_its_name() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 2)))
        first = {name_of(pod): uid_of(pod) for pod in await bench.until_running(2)}
        await bench.client.patch(POD, "demo-worker-0", {"metadata": {"ownerReferences": None}}, "default")
        await bench.settle()
        assert bench.job("demo")["status"]["running"] == 1
        assert any('pods "demo-worker-0" already exists' in event for event in await events(bench))
        assert await uids(bench, POD) == first

    on_bench(script)


@pytest.mark.parametrize(
    "edited",
    [
        {"annotations": {"volcano.sh/job-version": None}},
        {"annotations": {"volcano.sh/job-version": "of old"}},
        {"annotations": dict.fromkeys(("volcano.sh/task-spec", "volcano.sh/job-name", "volcano.sh/job-retry-count"))},
        {"annotations": {"volcano.sh/job-retry-count": None}},
        {"labels": {"volcano.sh/task-index": "first"}},
    ],
)
def test_a_pod_whose_marks_were_taken_off_gets_them_back_and_nothing_has_happened(edited: dict[str, Any]) -> None:
    async def script(bench: Bench) -> None:
        policies = [make.policy("PodEvicted", "TerminateJob"), make.policy("PodFailed", "RestartJob")]
        await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies))
        await bench.until_running(2)
        # Marks that differ from those of a new job.
        await bench.end("demo-worker-0", "Failed", 3)
        await bench.until_running(2)
        first, pod = await uids(bench, POD), await bench.client.get(POD, "demo-worker-0", "default")
        marks = annotations_of(pod)
        assert marks["volcano.sh/job-version"] == marks["volcano.sh/job-retry-count"] == "1"
        await bench.client.patch(POD, "demo-worker-0", {"metadata": edited}, "default")
        await bench.settle()
        restored = await bench.client.get(POD, "demo-worker-0", "default")
        assert (annotations_of(restored), labels_of(restored)) == (marks, labels_of(pod))
        assert (bench.phase("demo"), bench.job("demo")["status"]["running"]) == ("Running", 2)
        assert await uids(bench, POD) == first

    on_bench(script)


def test_what_happens_to_a_pod_at_the_moment_its_marks_are_taken_off_is_answered() -> None:
    async def script(bench: Bench) -> None:
        policies = [make.policy("PodFailed", "RestartJob")]
        await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies))
        await bench.until_running(2)
        first = await uids(bench, POD)
        unmarked = {"metadata": {"annotations": {"volcano.sh/job-version": None}}}
        await bench.client.patch(POD, "demo-worker-0", unmarked, "default")
        await bench.end("demo-worker-1", "Failed", 3)
        await bench.until_running(2)
        assert bench.job("demo")["status"]["retryCount"] == 1
        assert not first.items() & (await uids(bench, POD)).items()

    on_bench(script)


def test_a_pod_that_we_kill_counts_as_evicted_by_nobody_though_its_marks_are_taken_off() -> None:
    async def script(bench: Bench) -> None:
        policies = [make.policy("PodEvicted", "TerminateJob"), make.policy("PodFailed", "RestartTask")]
        await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies))
        await bench.until_running(2)
        first = await uids(bench, POD)
        await bench.end("demo-worker-0", "Failed", 3)
        await bench.until(lambda: any(map(is_deleting, bench.pods())), "the other is killed, too")
        await bench.client.patch(POD, "demo-worker-1", {"metadata": {"annotations": None}}, "default")
        await bench.until_running(2)
        assert not first.items() & (await uids(bench, POD)).items()
        assert bench.phase("demo") == "Running"

    on_bench(script)


def test_a_pod_gets_its_marks_back_though_another_cannot_be_made() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 2), minAvailable=1))
        await bench.until_running(2)
        pod = await bench.client.get(POD, "demo-worker-0", "default")
        other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "demo-worker-2", "namespace": "default"}}
        await bench.client.create(POD, {**other, "spec": {"containers": [make.container()]}})
        await bench.scale("demo", 0, 3)
        await bench.settle()
        unmarked = {"metadata": {"annotations": {"volcano.sh/job-version": None}}}
        await bench.client.patch(POD, "demo-worker-0", unmarked, "default")
        await bench.settle()
        assert annotations_of(await bench.client.get(POD, "demo-worker-0", "default")) == annotations_of(pod)

    on_bench(script)


def test_marks_that_may_not_be_written_hold_up_neither_other_marks_nor_the_job() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 3), minAvailable=1))
        await bench.until_running(3)
        pods = {name_of(pod): annotations_of(pod) for pod in await bench.client.find_all(POD, "default")}

        async def refuse(request: str) -> Answer | None:
            refused = request.startswith("PATCH") and request.endswith("/pods/demo-worker-0")
            return refusal(Forbidden("not yours to write")) if refused else None

        bench.disturb = refuse
        for name in ("demo-worker-0", "demo-worker-1"):
            unmarked = {"metadata": {"annotations": {"volcano.sh/job-version": None}}}
            await bench.client.patch(POD, name, unmarked, "default")
        await bench.end("demo-worker-2")
        await bench.settle()
        assert bench.job("demo")["status"]["succeeded"] == 1
        assert annotations_of(await bench.client.get(POD, "demo-worker-1", "default")) == pods["demo-worker-1"]
        bench.disturb = nothing
        await bench.settle()
        assert annotations_of(await bench.client.get(POD, "demo-worker-0", "default")) == pods["demo-worker-0"]

    on_bench(script)


def test_a_delayed_answer_comes_in_time_though_something_about_the_job_fails_again_and_again() -> None:
    async def script(bench: Bench) -> None:
        policies = [make.policy("PodFailed", "RestartJob", timeout="10s")]
        await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies))
        await bench.until_running(2)
        other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "demo-worker-2", "namespace": "default"}}
        await bench.client.create(POD, {**other, "spec": {"containers": [make.container()]}})
        await bench.scale("demo", 0, 3)
        # By now it is tried every half a minute.
        await bench.settle()
        failed = {"status": {"phase": "Failed", "containerStatuses": []}}
        await bench.client.patch(POD, "demo-worker-0", failed, "default", subresource="status")
        await asyncio.sleep(9)
        assert "retryCount" not in bench.job("demo")["status"]
        await asyncio.sleep(2)
        assert bench.job("demo")["status"]["retryCount"] == 1

    on_bench(script)


def test_a_pod_whose_marks_were_taken_off_while_nobody_looked_is_told_of() -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 2)))
        await bench.until_running(2)
        await bench.stop_controllers()
        unmarked = {"metadata": {"annotations": {"volcano.sh/job-version": None}}}
        await bench.client.patch(POD, "demo-worker-0", unmarked, "default")
        bench.start_controllers()
        await bench.settle()
        told = [event for event in await events(bench) if event.startswith("FailedCreate")]
        assert any("demo-worker-0" in event and "volcano.sh/job-version" in event for event in told)

    on_bench(script)


@pytest.mark.parametrize("error", [Forbidden("not yours to write"), Invalid("not a status")])
def test_a_status_that_is_refused_is_told_once_and_written_when_it_may_be(error: ApiError) -> None:
    async def script(bench: Bench) -> None:
        refused = []

        async def refuse(request: str) -> Answer | None:
            if not request.startswith("PUT") or not request.endswith("/jobs/demo/status"):
                return None
            refused.append(request)
            return refusal(error)

        bench.disturb = refuse
        await bench.create(make.new_job("demo", make.task("worker", 2)))
        await bench.settle()
        told = [one for one in await bench.client.find_all(EVENT, "default") if one["reason"] == "JobStatusError"]
        assert [(one["type"], one["message"]) for one in told] == [
            ("Warning", f"Failed to initialize job status, err: {error}")
        ]
        # Less and less often.
        assert 3 < len(refused) < 20
        bench.disturb = nothing
        await bench.until_running(2)
        bench.disturb = refuse
        await bench.end("demo-worker-0")
        await bench.settle()
        assert f"JobStatusError: Failed to update job status, err: {error}" in await events(bench)

    on_bench(script)


@pytest.mark.parametrize("come_as_far_as", ["Job", "Pod", "running Pod"])
def test_jobs_that_go_with_their_namespace_are_nothing_to_warn_of(
    come_as_far_as: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(bench: Bench) -> None:
        await bench.client.create(NAMESPACE, {"metadata": {"name": "team"}})
        plugins: dict[str, list[str]] = {"svc": [], "ssh": []}
        policies = [make.policy("PodEvicted", "RestartJob")]
        for name in ("first", "second"):
            job = make.new_job(name, make.task("worker", 3), namespace="team", plugins=plugins, policies=policies)
            await bench.create(job)
        if come_as_far_as == "Pod":
            await bench.until(bench.pods, "the first pods are made")
        elif come_as_far_as == "running Pod":
            await bench.until(lambda: list(bench.pod_phases().values()) == ["Running"] * 6, "all pods run")
        caplog.clear()
        await bench.client.delete(NAMESPACE, "team")
        await bench.until(lambda: bench.store.object(NAMESPACE, "team") is None, "the namespace is gone")
        await bench.settle()

    on_bench(script)
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.getMessage() for record in warnings if record.name == "hekla.controllers"] == []


@pytest.mark.parametrize("gate", ["open", "closed"])
def test_a_delayed_answer_to_an_eviction_survives_a_restart_of_the_controller(gate: str) -> None:
    async def script(bench: Bench) -> None:
        # The pod made in place of the evicted one never runs: that would call the answer off.
        waiting = {"schedulingGates": [{"name": "example.org/wait"}], "containers": [make.container()]}
        policies = [make.policy("PodEvicted", "AbortJob", timeout="150s")]
        task = make.task("worker", 1, pod=waiting, policies=policies)
        await bench.create(make.new_job("demo", make.task("other", 1), task))
        await bench.settle()
        if gate == "closed":
            (group,) = await bench.client.find_all(POD_GROUP, "default")
            await bench.client.patch(POD_GROUP, name_of(group), {"status": {"phase": "Pending"}}, "default")
            await bench.settle()
        await bench.client.delete(POD, "demo-worker-0", "default", grace_seconds=0)
        await bench.settle()
        assert "demo-worker-0" in await uids(bench, POD) or gate == "closed"
        await bench.stop_controllers()
        bench.start_controllers()
        await bench.settle()
        assert (await bench.client.get(JOB, "demo", "default"))["status"]["state"]["phase"] == "Pending"
        await bench.until_phase("Aborted")

    on_bench(script)


def test_the_last_retry_keeps_what_has_finished() -> None:
    async def script(bench: Bench) -> None:
        policies = [make.policy("PodFailed", "RestartJob")]
        await bench.create(make.new_job("demo", make.task("worker", 2), policies=policies, maxRetry=2))
        first = {name_of(pod): uid_of(pod) for pod in await bench.until_running(2)}
        await bench.end("demo-worker-0", "Failed", 1)
        await bench.until_running(2)
        second = await uids(bench, POD)
        assert not set(first.values()) & set(second.values())
        await bench.end("demo-worker-0", "Failed", 1)
        job = await bench.until_phase("Failed")
        await bench.settle()
        assert job["status"]["retryCount"] == 2
        assert await uids(bench, POD) == {"demo-worker-0": second["demo-worker-0"]}

    on_bench(script)


def test_a_job_completed_by_its_task_counts_no_retry_and_keeps_the_pod() -> None:
    async def script(bench: Bench) -> None:
        done = make.task("done", 1, policies=[make.policy("TaskCompleted", "CompleteJob")])
        await bench.create(make.new_job("demo", done, make.task("server", 1), maxRetry=1))
        await bench.until_running(2)
        await bench.end("demo-done-0")
        job = await bench.until_phase("Completed")
        await bench.settle()
        assert job["status"].get("retryCount", 0) == 0
        assert list(await uids(bench, POD)) == ["demo-done-0"]

    on_bench(script)


@pytest.mark.parametrize(
    ("action", "replicas", "groups", "pods", "left"),
    [("RestartJob", 1, 3, 2, 1), ("RestartJob", 2, 2, 4, 1), ("RestartPod", 1, 1, 2, 0), ("RestartPod", 2, 1, 3, 0)],
)
def test_a_restart_that_used_up_the_retries_makes_no_pods_and_a_gang_only_where_none_is_left_to_stop(
    action: str, replicas: int, groups: int, pods: int, left: int
) -> None:
    async def script(bench: Bench) -> None:
        seen: dict[Kind, set[str]] = {POD_GROUP: set(), POD: set()}
        bench.watch(POD_GROUP, lambda update: seen[POD_GROUP].add(uid_of(update.obj)))
        bench.watch(POD, lambda update: seen[POD].add(uid_of(update.obj)))
        policies = [make.policy("PodFailed", action)]
        await bench.create(make.new_job("demo", make.task("worker", replicas), policies=policies, maxRetry=2))
        for _ in range(2):
            await bench.until_running(replicas)
            await bench.end("demo-worker-0", "Failed", 1)
            await bench.settle()
        assert (await bench.until_phase("Failed"))["status"]["retryCount"] == 2
        assert (len(seen[POD_GROUP]), len(seen[POD])) == (groups, pods)
        assert (await uids(bench, POD_GROUP), len(await uids(bench, POD))) == ({}, left)

    on_bench(script)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (make.policy("PodFailed", "ResumeJob"), "ExecuteAction: Start to execute action ResumeJob "),
        (make.policy("PodFailed", "RestartPartition"), "ExecuteAction: Start to execute action RestartPartition "),
        (make.policy("PodFailed", "ResumeJob", timeout="30s"), "ExecuteAction: Execute action ResumeJob after 30s"),
        ({"exitCode": 1, "action": "Nonsense"}, "ExecuteAction: Start to execute action Nonsense "),
    ],
)
def test_an_answer_that_only_converges_is_told_once_and_changes_nothing(policy: dict[str, Any], told: str) -> None:
    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", make.task("worker", 3), policies=[policy]))
        await bench.until_running(3)
        for index in range(2):
            await bench.end(f"demo-worker-{index}", "Failed", 1)
        await bench.settle()
        status = bench.job("demo")["status"]
        assert (status["state"]["phase"], status["failed"], status.get("retryCount")) == ("Running", 2, None)
        counts = {f"{one['reason']}: {one['message']}": one["count"] for one in (await bench.client.list(EVENT)).items}
        actions = {text: count for text, count in counts.items() if text.startswith("ExecuteAction")}
        assert actions.keys() == {told}
        assert actions[told] <= 2

    on_bench(script)


@pytest.mark.parametrize("namespace", ["other", "default"])
def test_a_command_is_for_a_job_of_its_own_namespace_and_for_that_life_of_it_only(namespace: str) -> None:
    async def script(bench: Bench) -> None:
        await bench.client.create(NAMESPACE, {"metadata": {"name": "other"}})
        job = await bench.create(make.new_job("demo", make.task("worker", 2)))
        await bench.create(make.new_job("demo", make.task("worker"), namespace="other"))
        await bench.settle()
        command = make.command("AbortJob", job)
        command["metadata"] = {"name": "stop", "namespace": namespace}
        if namespace == "default":
            command["target"] = {**command["target"], "uid": "of-an-earlier-one"}
        await bench.client.create(COMMAND, command)
        # Something else has the Job looked at.
        await bench.client.patch(JOB, "demo", {"metadata": {"labels": {"seen": "yes"}}}, "default")
        await bench.settle()
        assert bench.store.objects(COMMAND) == []
        assert [one["status"]["state"]["phase"] for one in bench.store.objects(JOB)] == ["Running", "Running"]

    on_bench(script)


def test_a_command_that_names_no_action_asks_for_a_look() -> None:
    async def script(bench: Bench) -> None:
        job = await bench.create(make.new_job("demo", make.task("worker", 2)))
        await bench.until_running(2)
        await bench.command("", job)
        await bench.settle()
        assert bench.store.objects(COMMAND) == []
        assert "ExecuteAction" not in {one["reason"] for one in (await bench.client.list(EVENT)).items}
        assert bench.job("demo")["status"]["state"]["phase"] == "Running"

    on_bench(script)


def test_a_job_whose_queue_is_gone_says_so_once_and_goes_on_when_it_is_made_again() -> None:
    async def script(bench: Bench) -> None:
        queue = {"metadata": {"name": "brief"}, "spec": {"weight": 1}}
        await bench.client.create(QUEUE, queue)
        await bench.settle()
        await bench.create(make.new_job(queue="brief"))
        (pod,) = await bench.until_running(1)
        await bench.client.delete(QUEUE, "brief")
        await bench.settle()
        await bench.end(name_of(pod))
        await asyncio.sleep(1800)
        told = [event for event in await bench.client.find_all(EVENT, "default") if event["type"] == "Warning"]
        missing = 'queue.scheduling.volcano.sh "brief" not found'
        words = f"{missing}: nothing more becomes of this job until that queue is made again"
        assert [(event["reason"], event["message"], event["count"]) for event in told] == [("QueueUnusable", words, 1)]
        await bench.client.create(QUEUE, queue)
        await bench.until_phase("Completed")

    on_bench(script)
