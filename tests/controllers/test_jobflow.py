from __future__ import annotations

import asyncio
from typing import Any

from hekla.api.kinds import EVENT, JOB, JOB_FLOW, JOB_TEMPLATE, NAMESPACE
from hekla.api.meta import name_of, owner_reference
from hekla.controllers.jobflow import TEMPLATES_TAKE_SECONDS
from tests import make
from tests.controllers.bench import Bench, on_bench


def template(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": [make.task("t", 1)]},
    }


def flow(**spec: Any) -> dict[str, Any]:
    flows = [{"name": "one"}, {"name": "two", "dependsOn": {"targets": ["one"]}}]
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"flows": flows, **spec},
    }


async def until_flow(bench: Bench, phase: str) -> dict[str, Any]:
    def reached() -> dict[str, Any] | None:
        found = bench.store.object(JOB_FLOW, "demo", "default") or {}
        return found if ((found.get("status") or {}).get("state") or {}).get("phase") == phase else None

    found = await bench.until(reached, f"the flow is {phase}")
    assert found is not None
    return found


def jobs(bench: Bench) -> list[str]:
    return sorted(name_of(job) for job in bench.store.objects(JOB))


def test_jobs_follow_each_other() -> None:
    async def script(bench: Bench) -> None:
        for name in ("one", "two"):
            await bench.client.create(JOB_TEMPLATE, template(name))
        await bench.client.create(JOB_FLOW, flow())
        await until_flow(bench, "Running")
        assert jobs(bench) == ["demo-one"]
        await bench.until_phase("Running", "demo-one")
        await bench.end("demo-one-t-0")
        await bench.until_phase("Running", "demo-two")
        await bench.end("demo-two-t-0")
        await until_flow(bench, "Succeed")
        await bench.settle()
        status = (await bench.client.get(JOB_FLOW, "demo", "default"))["status"]
        assert status["completedJobs"] == ["demo-one", "demo-two"]
        histories = [[one["state"] for one in job["runningHistories"]] for job in status["jobStatusList"]]
        assert histories == [["Pending", "Running", "Completed"]] * 2
        made = (await bench.client.get(JOB_TEMPLATE, "one", "default"))["status"]
        assert made == {"jobDependsOnList": ["demo-one"]}

    on_bench(script)


def test_what_became_of_a_flow_stays_told_when_its_jobs_go() -> None:
    async def script(bench: Bench) -> None:
        spec = {**template("one")["spec"], "ttlSecondsAfterFinished": 5}
        await bench.client.create(JOB_TEMPLATE, {**template("one"), "spec": spec})
        await bench.client.create(JOB_FLOW, flow(flows=[{"name": "one"}]))
        await bench.until_phase("Running", "demo-one")
        await bench.end("demo-one-t-0")
        await until_flow(bench, "Succeed")
        await bench.until(lambda: not jobs(bench), "the job's time is over")
        await bench.stop_controllers()
        bench.start_controllers()
        await bench.settle()
        status = (await bench.client.get(JOB_FLOW, "demo", "default"))["status"]
        assert status["completedJobs"] == ["demo-one"]
        assert status["conditions"]["demo-one"]["phase"] == "Completed"
        assert jobs(bench) == []

    on_bench(script)


def test_a_flow_without_a_spec_waits_for_flows() -> None:
    async def script(bench: Bench) -> None:
        await bench.client.create(JOB_FLOW, {key: value for key, value in flow().items() if key != "spec"})
        await until_flow(bench, "Pending")

    on_bench(script)


def test_a_failed_job_ends_the_flow() -> None:
    async def script(bench: Bench) -> None:
        for name in ("one", "two"):
            await bench.client.create(JOB_TEMPLATE, template(name))
        await bench.client.create(JOB_FLOW, flow())
        await bench.until(lambda: jobs(bench), "a job is made")
        await bench.until_phase("Running", "demo-one")
        await bench.end("demo-one-t-0", "Failed", 3)
        assert (await until_flow(bench, "Failed"))["status"]["failedJobs"] == ["demo-one"]
        await bench.settle()
        assert jobs(bench) == ["demo-one"]

    on_bench(script)


def test_a_flow_waits_for_its_template_and_cleans_up_on_wish() -> None:
    async def script(bench: Bench) -> None:
        await bench.client.create(JOB_FLOW, flow(flows=[{"name": "one"}], jobRetainPolicy="delete"))
        await bench.settle()
        assert jobs(bench) == []
        await bench.client.create(JOB_TEMPLATE, template("one"))
        await bench.until(lambda: jobs(bench), "the job is made")
        await bench.until_phase("Running", "demo-one")
        await bench.end("demo-one-t-0")
        await until_flow(bench, "Succeed")
        await bench.settle()
        assert jobs(bench) == []

    on_bench(script)


def test_a_template_that_is_not_there_is_told() -> None:
    async def script(bench: Bench) -> None:
        await bench.client.create(JOB_TEMPLATE, template("two"))
        await bench.client.create(JOB_FLOW, flow())
        told = await bench.until(lambda: bench.store.objects(EVENT), "somebody says what is missing")
        assert [(event["type"], event["reason"]) for event in told] == [("Warning", "TemplateNotFound")]
        assert told[0]["message"] == 'JobTemplate "one" is not there: demo-one waits for it'
        assert told[0]["involvedObject"]["kind"] == "JobFlow"

    on_bench(script)


def test_a_template_that_comes_soon_after_its_flow_is_not_missed() -> None:
    async def script(bench: Bench) -> None:
        await bench.client.create(JOB_FLOW, flow(flows=[{"name": "one"}]))
        await asyncio.sleep(TEMPLATES_TAKE_SECONDS - 2)
        await bench.client.create(JOB_TEMPLATE, template("one"))
        await bench.until(lambda: jobs(bench), "the job is made")
        await bench.settle()
        assert "TemplateNotFound" not in {event["reason"] for event in bench.store.objects(EVENT)}

    on_bench(script)


def test_a_job_of_another_namespace_takes_no_part_in_a_flow_whatever_it_says() -> None:
    async def script(bench: Bench) -> None:
        await bench.client.create(NAMESPACE, {"metadata": {"name": "other"}})
        for name in ("one", "two"):
            await bench.client.create(JOB_TEMPLATE, template(name))
        owner = owner_reference(await bench.client.create(JOB_FLOW, flow()), JOB_FLOW)
        await until_flow(bench, "Running")
        foreign = make.new_job("demo-one", make.task("t"), namespace="other")
        foreign["metadata"]["ownerReferences"] = [owner]
        await bench.create(foreign)
        done = {"status": {"state": {"phase": "Completed"}}}
        await bench.client.patch(JOB, "demo-one", done, "other", subresource="status")
        # Something else has the flow looked at.
        await bench.client.patch(JOB, "demo-one", {"metadata": {"labels": {"seen": "yes"}}}, "default")
        await bench.settle()
        assert bench.job("demo-two") == {}
        assert "completedJobs" not in (await bench.client.get(JOB_FLOW, "demo", "default"))["status"]

    on_bench(script)


def test_a_job_of_a_flow_is_in_upstreams_spelling() -> None:
    async def script(bench: Bench) -> None:
        given = template("one")
        given["spec"] = {
            "tasks": [make.task("t", 1, cpu="1000m", minAvailable=1, maxRetry=3)],
            "policies": [make.policy("PodPending", "RestartJob", timeout="10m")],
        }
        await bench.client.create(JOB_TEMPLATE, given)
        await bench.client.create(JOB_FLOW, flow(flows=[{"name": "one"}]))
        spec = (await bench.until_phase("Running", "demo-one"))["spec"]
        assert spec["policies"][0]["timeout"] == "10m0s"
        container = make.container(resources={"requests": {"cpu": "1"}})
        assert spec["tasks"][0]["template"] == {"metadata": {}, "spec": {"containers": [container]}}

    on_bench(script)
