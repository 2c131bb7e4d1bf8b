"""What somebody hears who follows the logs of a job, beside the logs."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.api.batch import JOB_NAME
from hekla.api.kinds import POD
from hekla.cli.logs import _LogsOnly, _print_all, check_reach, gone_containers
from hekla.client.rest import Client
from hekla.errors import UsageError
from tests import make
from tests.apiserver.rig import Rig, with_server
from tests.transports import Relay

RUNNING = {"metadata": {"name": "j-t-0"}, "status": {"containerStatuses": [make.container_status("Running")]}}
WAITING = {"metadata": {"name": "j-t-0"}, "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("pods", "said"), [([], "warning: Old: x\n"), ([WAITING], "warning: Old: x\n"), ([RUNNING], "")]
)
def test_warnings_are_passed_on_as_long_as_no_container_has_begun(
    pods: list[dict[str, Any]], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Warnings come with their history: what a job that runs was warned of once is over."""
    display, job = _LogsOnly(), make.job("j", make.task("t"))
    display.warned("Old", "x")
    assert capsys.readouterr().err == ""
    display.changed(job, None, pods)
    display.changed(job, None, pods)
    assert capsys.readouterr().err == said
    display.warned("New", "y")
    assert capsys.readouterr().err == said.replace("Old: x", "New: y")


def test_that_nothing_has_begun_is_said_where_there_is_nothing_to_read(capsys: pytest.CaptureFixture[str]) -> None:
    async def script(server: Rig) -> None:
        job = make.job("j")
        pod = {**make.pod("j-t-0"), "metadata": {"name": "j-t-0", "namespace": "default", "labels": {JOB_NAME: "j"}}}
        made = await server.client.create(POD, {**pod, "spec": {"containers": [make.container()]}})
        await _print_all(server.client, job, "default", "", {})
        assert capsys.readouterr().err == "no container of j has begun: `hekla logs -f j` waits for them\n"
        begun = {"containerStatuses": [make.container_status("Running")]}
        await server.client.update_status(POD, {**made, "status": begun})
        await _print_all(server.client, job, "default", "", {})
        assert capsys.readouterr().err == ""

    with_server(script)


@pytest.mark.parametrize(
    ("phase", "task", "said"),
    [
        ("Pending", "", "job 'j' has no pods to read logs of; `hekla why j` says what it waits for"),
        ("Completed", "", "job 'j' has no pods to read logs of"),
        ("Pending", "wroker", "no task of job 'j' is called 'wroker'; there are master, worker"),
    ],
)
def test_where_there_are_no_pods_it_is_said_what_to_do(phase: str, task: str, said: str) -> None:
    async def script(server: Rig) -> None:
        job = {**make.job("j", make.task("master"), make.task("worker")), "status": {"state": {"phase": phase}}}
        with pytest.raises(UsageError) as told:
            await _print_all(server.client, job, "default", task, {})
        assert str(told.value) == said

    with_server(script)


def test_only_a_server_of_ours_is_asked_for_more_than_the_attempt_before() -> None:
    async def script(server: Rig) -> None:
        other = Client(Relay(server.transport, batches=False))
        for previous in (0, 1, 2):
            await check_reach(server.client, previous)
        for previous in (0, 1):
            await check_reach(other, previous)
        with pytest.raises(UsageError, match=r"-pp: .* ask for that with -p"):
            await check_reach(other, 2)

    with_server(script)


def test_pods_that_are_gone_are_asked_about_by_the_names_the_job_gives_them() -> None:
    job = make.job("j", make.task("m"), make.task("w", 2))
    names = [each["name"] for each in job["spec"]["tasks"][0]["template"]["spec"]["containers"]]
    assert gone_containers(job, {"j-w-0"}) == [(pod, name) for pod in ("j-m-0", "j-w-1") for name in names]
    assert gone_containers(job, set(), "m") == [("j-m-0", name) for name in names]


def test_of_a_job_of_thousands_only_so_many_pods_are_asked_about() -> None:
    assert len(gone_containers(make.job("j", make.task("w", 5000)), set())) == 200
