"""Probes and hooks of real containers: who is ready, who is restarted, what runs before and after."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from hekla.api.kinds import EVENT, POD, Obj
from hekla.client.informer import Informer, Update
from hekla.node.directory import PodDirectory
from tests.eventually import LIMIT_SECONDS, soon
from tests.node.rig import ACCOUNTS, Rig, exit_code, phase, rig

_QUICK = {"periodSeconds": 1, "timeoutSeconds": 60, "failureThreshold": 1}
_SERVE = "python3 -c 'import http.server; http.server.test(http.server.SimpleHTTPRequestHandler, port=8080)'"


# Where a test leaves a word for a pod; what it waits for happens when the test says so.
_DOOR: Obj = {"name": "door", "emptyDir": {}}
_AT_THE_DOOR = {"volumeMounts": [{"name": "door", "mountPath": "/door"}]}
_WAIT = "until [ -e /door/open ]; do sleep 0.1; done"
_OPEN = {"exec": {"command": ["test", "-e", "/door/open"]}}


def door(node: Rig, pod: Obj) -> Path:
    return PodDirectory(node.data_dir, pod["metadata"]["uid"]).volume(_DOOR) / "open"


async def armed(node: Rig, name: str) -> Obj:
    """The pod, once it runs, its hooks have, and it has said that it is ready for a signal."""
    pod = await node.until(name, ready)
    await soon(lambda: node.log(pod).startswith("armed\n"), what="it can be told to end")
    return pod


async def end_its_time(node: Rig, name: str) -> None:
    await node.client.patch(POD, name, {"spec": {"activeDeadlineSeconds": 1}}, "default")


def ready(pod: Obj) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions") or ())


def status_of(pod: Obj) -> Obj:
    return dict(pod["status"]["containerStatuses"][0])


async def events(node: Rig, pod: str, reason: str, *, times: int = 1) -> list[str]:
    """Waits until one has been told so many times."""
    found: list[str] = []
    heard = asyncio.Event()

    def hear(update: Update) -> None:
        each = update.obj
        if each["reason"] == reason and pod in str(each.get("involvedObject") or each.get("regarding")):
            found.append(str(each.get("message") or each.get("note")))
            if each["count"] >= times:
                heard.set()

    informer = Informer(node.client, EVENT, rng=random.Random(1))
    informer.subscribe(hear)
    async with asyncio.timeout(LIMIT_SECONDS), asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(informer.run())
        await heard.wait()
        watching.cancel()
    return found


Story = Callable[[Rig], Coroutine[Any, Any, None]]
Run = Callable[[Story], None]


@pytest.fixture(scope="module", params=ACCOUNTS)
def each_account(request: pytest.FixtureRequest) -> Iterator[Run]:
    with shared_node(request.param) as run:
        yield run


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with shared_node(ACCOUNTS[0]) as run:
        yield run


@contextlib.contextmanager
def shared_node(account: str) -> Iterator[Run]:
    stack = contextlib.AsyncExitStack()

    async def begin() -> Rig:
        node = await stack.enter_async_context(rig(account))
        await node.start_agent()
        return node

    with asyncio.Runner() as runner:
        node = runner.run(begin())
        yield lambda story: runner.run(story(node))
        runner.run(stack.aclose())


_HANDLERS = {
    "by-command": _OPEN,
    "by-port": {"tcpSocket": {"port": 8080}},
    "by-page": {"httpGet": {"port": "web", "path": "tmp/", "httpHeaders": [{"name": "X-A", "value": "b"}]}},
}


def test_a_pod_is_ready_when_its_probe_says_so(each_account: Run) -> None:
    async def test(node: Rig) -> None:
        script = f"cd /; {_WAIT}; {_SERVE} >/dev/null 2>&1"
        for name, handler in _HANDLERS.items():
            probe = {"readinessProbe": {**handler, **_QUICK}, "ports": [{"name": "web", "containerPort": 8080}]}
            await node.create_pod(name, script, container={**probe, **_AT_THE_DOOR}, volumes=[_DOOR])
        for name in _HANDLERS:
            assert (await events(node, name, "Unhealthy"))[0].startswith("Readiness probe failed: ")
            pod = await node.running(name)
            assert not ready(pod)
            door(node, pod).touch()
            assert status_of(await node.until(name, ready))["ready"]

    each_account(test)


def test_a_pod_that_stops_answering_is_unready_again(run: Run) -> None:
    async def test(node: Rig) -> None:
        container = {"readinessProbe": {**_OPEN, **_QUICK}, **_AT_THE_DOOR}
        await node.create_pod("house", "sleep 600", container=container, volumes=[_DOOR])
        entrance = door(node, await node.running("house"))
        entrance.touch()
        await node.until("house", ready)
        entrance.unlink()
        pod = await node.until("house", lambda pod: not ready(pod))
        assert "running" in status_of(pod)["state"]

    run(test)


def test_a_container_that_is_not_alive_is_restarted(run: Run) -> None:
    async def test(node: Rig) -> None:
        check = ["sh", "-c", "[ -e /tmp/deaf ] || exit 0; echo cold; exit 3"]
        probe = {"exec": {"command": check}, **_QUICK, "terminationGracePeriodSeconds": 1}
        # Deaf to requests, so the probe's own short grace decides.
        script = "trap '' TERM; touch /tmp/deaf; while :; do sleep 0.1; done"
        await node.create_pod("sick", script, container={"livenessProbe": probe}, restartPolicy="Always")
        pod = await node.until("sick", lambda pod: phase(pod) == "Running" and status_of(pod)["restartCount"] >= 1)
        assert status_of(pod)["lastState"]["terminated"]["exitCode"] == 137
        assert "Liveness probe failed: cold" in await events(node, "sick", "Unhealthy")
        assert "Container main failed liveness probe, will be restarted" in await events(node, "sick", "Killing")

    run(test)


def test_a_dead_container_of_a_pod_that_runs_once_fails_it(run: Run) -> None:
    async def test(node: Rig) -> None:
        probe = {"exec": {"command": ["test", "!", "-e", "/tmp/armed"]}, **_QUICK}
        script = "trap 'exit 9' TERM; touch /tmp/armed; while :; do sleep 0.1; done"
        await node.create_pod("dead", script, container={"livenessProbe": probe}, terminationGracePeriodSeconds=60)
        pod = await node.finished("dead")
        assert (phase(pod), exit_code(pod)) == ("Failed", 9)

    run(test)


def test_nobody_asks_whether_it_lives_before_it_has_started(run: Run) -> None:
    async def test(node: Rig) -> None:
        container = {
            "startupProbe": {**_OPEN, **_QUICK, "failureThreshold": 300},
            "livenessProbe": {**_OPEN, **_QUICK},
            **_AT_THE_DOOR,
        }
        made = await node.create_pod("slow", "sleep 600", container=container, volumes=[_DOOR])
        told = await events(node, "slow", "Unhealthy", times=3)
        assert {text.partition(":")[0] for text in told} == {"Startup probe failed"}
        door(node, made).touch()
        pod = await node.until("slow", ready)
        assert status_of(pod)["started"]
        assert status_of(pod)["restartCount"] == 0

    run(test)


def test_hooks_run_after_the_start_and_before_the_end(run: Run) -> None:
    async def test(node: Rig) -> None:
        lifecycle = {
            "postStart": {"exec": {"command": ["sh", "-c", "echo hello > /tmp/greeting"]}},
            "preStop": {"exec": {"command": ["sh", "-c", "touch /tmp/leaving"]}},
        }
        script = "trap 'cat /tmp/greeting; ls /tmp/leaving; exit 4' TERM; echo armed; while :; do sleep 0.1; done"
        container = {"lifecycle": lifecycle}
        await node.create_pod("guest", script, container=container, terminationGracePeriodSeconds=60)
        await armed(node, "guest")
        await end_its_time(node, "guest")
        pod = await node.finished("guest")
        assert pod["status"]["reason"] == "DeadlineExceeded"
        assert node.log(pod) == "armed\nhello\n/tmp/leaving\n"
        assert exit_code(pod) == 4

    run(test)


def test_a_start_hook_that_fails_ends_its_container(run: Run) -> None:
    async def test(node: Rig) -> None:
        lifecycle = {"postStart": {"exec": {"command": ["sh", "-c", "echo no >&2; exit 1"]}}}
        await node.create_pod(
            "unwelcome", "sleep 600", container={"lifecycle": lifecycle}, terminationGracePeriodSeconds=0
        )
        assert phase(await node.finished("unwelcome")) == "Failed"
        assert await events(node, "unwelcome", "FailedPostStartHook") == ["PostStartHook failed: no"]

    run(test)


def test_an_end_hook_that_hangs_does_not_keep_a_pod_beyond_its_grace(run: Run) -> None:
    async def test(node: Rig) -> None:
        lifecycle = {"preStop": {"exec": {"command": ["sleep", "600"]}}}
        script = "trap 'exit 0' TERM; echo armed; while :; do sleep 0.1; done"
        await node.create_pod("clinger", script, container={"lifecycle": lifecycle}, terminationGracePeriodSeconds=1)
        await armed(node, "clinger")
        await end_its_time(node, "clinger")
        assert exit_code(await node.finished("clinger")) == 0

    run(test)


def test_readiness_survives_the_agent(run: Run) -> None:
    async def test(node: Rig) -> None:
        probe = {"exec": {"command": ["true"]}, **_QUICK}
        await node.create_pod("steady", "sleep 600", container={"readinessProbe": probe})
        before = await node.until("steady", ready)
        await node.kill_agent()
        await node.start_agent()
        await node.create_pod("later", "true")
        await node.finished("later")
        after = await node.until("steady", ready)
        assert after["status"]["conditions"] == before["status"]["conditions"]

    run(test)
