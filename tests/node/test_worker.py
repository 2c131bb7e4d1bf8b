"""A pod's time is measured, whatever the clock says and though the machine slept: real pods, a clock that is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from hekla.api.kinds import POD
from hekla.node.directory import PodDirectory
from tests.eventually import soon
from tests.node.rig import ACCOUNTS, Rig, phase, rig

pytestmark = pytest.mark.root
_HOUR = 3600


class Clock:
    def __init__(self, home: Path) -> None:
        self.file = home / "clock"
        self.set()

    def set(self, *, ahead: float = 0, slept: float = 0) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(f"{ahead} {slept}")
        new.replace(self.file)


def on_a_node(story: Callable[[Rig, Clock], Coroutine[None, None, None]]) -> None:
    async def tell() -> None:
        async with rig(ACCOUNTS[0]) as node:
            clock = Clock(node.home)
            node.variables["HEKLA_TEST_CLOCK"] = str(clock.file)
            await node.start_agent()
            await story(node, clock)

    asyncio.run(tell())


def test_the_time_of_a_pod_is_up_as_soon_as_the_machine_wakes_that_slept_meanwhile() -> None:
    async def story(node: Rig, clock: Clock) -> None:
        await node.create_pod("late", "sleep 1000", activeDeadlineSeconds=_HOUR)
        await node.running("late")
        clock.set(ahead=-2 * _HOUR, slept=_HOUR)
        pod = await node.finished("late")
        assert (phase(pod), pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")

    on_a_node(story)


def test_a_clock_set_forward_does_not_end_a_pod_before_its_time() -> None:
    async def story(node: Rig, clock: Clock) -> None:
        made = await node.create_pod(
            "early",
            "until [ -e /told/to-end ]; do sleep 0.1; done",
            activeDeadlineSeconds=_HOUR,
            volumes=[told := {"name": "told", "emptyDir": {}}],
            container={"volumeMounts": [{"name": "told", "mountPath": "/told"}]},
        )
        await node.running("early")
        clock.set(ahead=2 * _HOUR)
        # It is looked at when its spec has changed.
        await node.client.patch(POD, "early", {"spec": {"activeDeadlineSeconds": _HOUR - 1}}, "default")
        other = await node.create_pod("other", "true", activeDeadlineSeconds=_HOUR)
        await soon(lambda: phase(node.pods.get("other", "default") or other) == "Succeeded", what="another has ended")
        (PodDirectory(node.data_dir, made["metadata"]["uid"]).volume(told) / "to-end").touch()
        assert phase(await node.finished("early")) == "Succeeded"

    on_a_node(story)
