"""Probes and hooks of real containers: who is ready, who is restarted, what runs before and after."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from hekla.api.kinds import EVENT, Obj
from hekla.client.informer import Informer, Update
from tests.node.rig import ACCOUNTS, Rig, exit_code, phase, rig

_QUICK = {"periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 1}
_SERVE = "python3 -c 'import http.server; http.server.test(http.server.SimpleHTTPRequestHandler, port=8080)'"


def ready(pod: Obj) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions") or ())


def status_of(pod: Obj) -> Obj:
    return dict(pod["status"]["containerStatuses"][0])


async def events(node: Rig, pod: str, reason: str) -> list[str]:
    """Waits for the first."""
    found: list[str] = []
    heard = asyncio.Event()

    def hear(update: Update) -> None:
        each = update.obj
        if each["reason"] == reason and pod in str(each.get("involvedObject") or each.get("regarding")):
            found.append(str(each.get("message") or each.get("note")))
            heard.set()

    informer = Informer(node.client, EVENT, rng=random.Random(1))
    informer.subscribe(hear)
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
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
    "by-command": {"exec": {"command": ["test", "-e", "/tmp/open"]}},
    "by-port": {"tcpSocket": {"port": 8080}},
    "by-page": {"httpGet": {"port": "web", "path": "tmp/", "httpHeaders": [{"name": "X-A", "value": "b"}]}},
}


def test_a_pod_is_ready_when_its_probe_says_so(each_account: Run) -> None:
    async def test(node: Rig) -> None:
        script = f"cd /; sleep 1; touch /tmp/open; {_SERVE} >/dev/null 2>&1"
        for name, handler in _HANDLERS.items():
            container = {"readinessProbe": {**handler, **_QUICK}, "ports": [{"name": "web", "containerPort": 8080}]}
            await node.create_pod(name, script, container=container)
        for name in _HANDLERS:
            assert not ready(await node.running(name))
        for name in _HANDLERS:
            pod = await node.until(name, ready)
            assert status_of(pod)["ready"]
            assert (await events(node, name, "Unhealthy"))[0].startswith("Readiness probe failed: ")

    each_account(test)


def test_a_pod_that_stops_answering_is_unready_again(run: Run) -> None:
    async def test(node: Rig) -> None:
        probe = {"exec": {"command": ["test", "-e", "/tmp/open"]}, **_QUICK}
        script = "touch /tmp/open; sleep 2; rm /tmp/open; sleep 60"
        await node.create_pod("door", script, container={"readinessProbe": probe})
        await node.until("door", ready)
        pod = await node.until("door", lambda pod: not ready(pod))
        assert "running" in status_of(pod)["state"]

    run(test)


def test_a_container_that_is_not_alive_is_restarted(run: Run) -> None:
    async def test(node: Rig) -> None:
        probe = {"exec": {"command": ["sh", "-c", "echo cold; exit 3"]}, **_QUICK, "terminationGracePeriodSeconds": 1}
        # Deaf to requests, so the probe's own short grace decides.
        script = "trap '' TERM; while :; do sleep 0.1; done"
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
        await node.create_pod("dead", script, container={"livenessProbe": probe})
        pod = await node.finished("dead")
        assert (phase(pod), exit_code(pod)) == ("Failed", 9)

    run(test)


def test_nobody_asks_whether_it_lives_before_it_has_started(run: Run) -> None:
    async def test(node: Rig) -> None:
        container = {
            "startupProbe": {"exec": {"command": ["test", "-e", "/tmp/up"]}, **_QUICK, "failureThreshold": 30},
            "livenessProbe": {"exec": {"command": ["test", "-e", "/tmp/up"]}, **_QUICK},
        }
        await node.create_pod("slow", "sleep 3; touch /tmp/up; sleep 60", container=container)
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
        script = "trap 'cat /tmp/greeting; ls /tmp/leaving; exit 4' TERM; while :; do sleep 0.1; done"
        pod = await node.create_pod("guest", script, container={"lifecycle": lifecycle}, activeDeadlineSeconds=3)
        await node.until("guest", ready)
        pod = await node.finished("guest")
        assert node.log(pod) == "hello\n/tmp/leaving\n"
        assert exit_code(pod) == 4

    run(test)


def test_a_start_hook_that_fails_ends_its_container(run: Run) -> None:
    async def test(node: Rig) -> None:
        lifecycle = {"postStart": {"exec": {"command": ["sh", "-c", "echo no >&2; exit 1"]}}}
        await node.create_pod(
            "unwelcome", "sleep 60", container={"lifecycle": lifecycle}, terminationGracePeriodSeconds=0
        )
        assert phase(await node.finished("unwelcome")) == "Failed"
        assert await events(node, "unwelcome", "FailedPostStartHook") == ["PostStartHook failed: no"]

    run(test)


def test_an_end_hook_that_hangs_does_not_keep_a_pod_beyond_its_grace(run: Run) -> None:
    async def test(node: Rig) -> None:
        lifecycle = {"preStop": {"sleep": {"seconds": 600}}}
        script = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
        settings = {"terminationGracePeriodSeconds": 1, "activeDeadlineSeconds": 1}
        await node.create_pod("clinger", script, container={"lifecycle": lifecycle}, **settings)
        assert exit_code(await node.finished("clinger")) == 0

    run(test)


def test_readiness_survives_the_agent(run: Run) -> None:
    async def test(node: Rig) -> None:
        probe = {"exec": {"command": ["true"]}, **_QUICK}
        await node.create_pod("steady", "sleep 60", container={"readinessProbe": probe})
        before = await node.until("steady", ready)
        await node.kill_agent()
        await node.start_agent()
        await node.create_pod("later", "true")
        await node.finished("later")
        after = await node.until("steady", ready)
        assert after["status"]["conditions"] == before["status"]["conditions"]

    run(test)
