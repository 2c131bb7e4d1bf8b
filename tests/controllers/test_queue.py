from __future__ import annotations

import pytest

from hekla.api.kinds import COMMAND, EVENT, POD_GROUP, QUEUE, Obj
from hekla.api.meta import annotations_of, name_of
from hekla.controllers.queue import decide_state
from tests import make
from tests.controllers.bench import Bench, on_bench

TABLE = [
    ("", "SyncQueue", 0, "Open"),
    ("", "OpenQueue", 0, "Open"),
    ("", "CloseQueue", 0, "Closed"),
    ("Open", "SyncQueue", 3, "Open"),
    ("Open", "CloseQueue", 0, "Closed"),
    ("Open", "CloseQueue", 1, "Closing"),
    ("Closing", "SyncQueue", 1, "Closing"),
    ("Closing", "SyncQueue", 0, "Closed"),
    ("Closing", "OpenQueue", 1, "Open"),
    ("Closing", "CloseQueue", 0, "Closed"),
    ("Closed", "SyncQueue", 0, "Closed"),
    ("Closed", "SyncQueue", 2, "Closed"),
    ("Closed", "OpenQueue", 0, "Open"),
    ("Closed", "CloseQueue", 2, "Closed"),
    ("Unknown", "SyncQueue", 0, "Unknown"),
    ("Unknown", "OpenQueue", 0, "Open"),
    ("Unknown", "CloseQueue", 1, "Closing"),
]


@pytest.mark.parametrize(("state", "action", "groups", "after"), TABLE)
def test_states(state: str, action: str, groups: int, after: str) -> None:
    assert decide_state(state, action, groups) == after


def state_of(bench: Bench, name: str) -> str:
    queue = bench.store.object(QUEUE, name)
    return str(((queue or {}).get("status") or {}).get("state") or "")


async def until_states(bench: Bench, **states: str) -> None:
    await bench.until(lambda: {name: state_of(bench, name) for name in states} == states, f"queues are {states}")


def new_queue(name: str, parent: str = "") -> dict[str, object]:
    queue = make.queue(name, "", **({"parent": parent} if parent else {}))
    return {**queue, "metadata": {"name": name}, "status": {}}


def test_root_and_default_are_there_and_open() -> None:
    async def script(bench: Bench) -> None:
        await until_states(bench, root="Open", default="Open")
        assert (await bench.client.get(QUEUE, "default"))["spec"]["parent"] == "root"

    on_bench(script)


def test_a_queue_closes_and_opens_by_command_and_takes_its_children_along() -> None:
    async def script(bench: Bench) -> None:
        parent = await bench.client.create(QUEUE, new_queue("parent"))
        await bench.client.create(QUEUE, new_queue("child", "parent"))
        await until_states(bench, parent="Open", child="Open")
        await bench.client.create(COMMAND, make.command("CloseQueue", parent, "Queue"))
        await until_states(bench, parent="Closed", child="Closed")
        child = await bench.client.get(QUEUE, "child")
        assert annotations_of(child)["volcano.sh/closed-by-parent"] == "true"
        await bench.client.create(COMMAND, make.command("OpenQueue", parent, "Queue"))
        await until_states(bench, parent="Open", child="Open")
        await bench.settle()
        assert annotations_of(await bench.client.get(QUEUE, "child"))["volcano.sh/closed-by-parent"] == "false"
        assert await bench.client.find_all(COMMAND) == []

    on_bench(script)


def test_a_queue_that_was_closed_itself_stays_closed_when_its_parent_opens() -> None:
    async def script(bench: Bench) -> None:
        parent = await bench.client.create(QUEUE, new_queue("parent"))
        child = await bench.client.create(QUEUE, new_queue("child", "parent"))
        await until_states(bench, parent="Open", child="Open")
        await bench.client.create(COMMAND, make.command("CloseQueue", child, "Queue"))
        await until_states(bench, child="Closed")
        for action, state in (("CloseQueue", "Closed"), ("OpenQueue", "Open")):
            await bench.client.create(COMMAND, make.command(action, parent, "Queue"))
            await until_states(bench, parent=state)
        await bench.settle()
        assert state_of(bench, "child") == "Closed"

    on_bench(script)


def test_a_queue_told_to_open_below_a_closed_parent_opens_with_it_and_says_in_time_that_it_waits() -> None:
    async def script(bench: Bench) -> None:
        parent = await bench.client.create(QUEUE, new_queue("parent"))
        child = await bench.client.create(QUEUE, new_queue("child", "parent"))
        await until_states(bench, parent="Open", child="Open")
        for queue in (child, parent):
            await bench.client.create(COMMAND, make.command("CloseQueue", queue, "Queue"))
            await until_states(bench, **{name_of(queue): "Closed"})
        await bench.client.create(COMMAND, make.command("OpenQueue", child, "Queue"))
        await bench.settle()
        assert state_of(bench, "child") == "Closed"
        assert await warnings(bench) == []
        for _ in range(2):
            await bench.settle()
        (told,) = await warnings(bench)
        assert told == (
            "OpenQueue queue failed for Failed to open queue child because its parent queue parent is closing or "
            "closed. Open the parent queue first."
        )
        await bench.stop_controllers()
        bench.start_controllers()
        await bench.client.create(COMMAND, make.command("OpenQueue", parent, "Queue"))
        await until_states(bench, parent="Open", child="Open")
        await bench.settle()
        assert bench.store.objects(COMMAND) == []

    on_bench(script)


@pytest.mark.parametrize("closed_first", ["child", "parent"])
def test_a_queue_told_to_open_below_a_closed_parent_and_then_to_close_stays_closed(closed_first: str) -> None:
    async def script(bench: Bench) -> None:
        parent = await bench.client.create(QUEUE, new_queue("parent"))
        child = await bench.client.create(QUEUE, new_queue("child", "parent"))
        await until_states(bench, parent="Open", child="Open")
        if closed_first == "child":
            await tell(bench, "CloseQueue", child)
        for action, queue in (("CloseQueue", parent), ("OpenQueue", child), ("CloseQueue", child)):
            await tell(bench, action, queue)
        for _ in range(3):
            await bench.settle()
        # Nobody waits for it to open any more.
        assert await warnings(bench) == []
        await bench.stop_controllers()
        bench.start_controllers()
        await tell(bench, "OpenQueue", parent)
        assert (state_of(bench, "parent"), state_of(bench, "child")) == ("Open", "Closed")
        await tell(bench, "OpenQueue", child)
        assert state_of(bench, "child") == "Open"
        assert annotations_of(await bench.client.get(QUEUE, "child")) == {"volcano.sh/closed-by-parent": "false"}

    on_bench(script)


@pytest.mark.parametrize("closes_before", [True, False])
def test_a_queue_told_to_open_while_it_closes_with_its_parent_opens_with_it(closes_before: bool) -> None:
    async def script(bench: Bench) -> None:
        parent = await bench.client.create(QUEUE, new_queue("parent"))
        child = await bench.client.create(QUEUE, new_queue("child", "parent"))
        await until_states(bench, parent="Open", child="Open")
        group = {**make.pod_group("gang", queue="child"), "metadata": {"name": "gang", "namespace": "default"}}
        await bench.client.create(POD_GROUP, group)
        await tell(bench, "CloseQueue", child)
        await tell(bench, "CloseQueue", parent)
        for action in ("OpenQueue", "CloseQueue", "OpenQueue"):
            await tell(bench, action, child)
        assert (state_of(bench, "parent"), state_of(bench, "child")) == ("Closed", "Closing")
        if closes_before:
            await bench.client.delete(POD_GROUP, "gang", "default")
            await until_states(bench, child="Closed")
        await tell(bench, "OpenQueue", parent)
        assert (state_of(bench, "parent"), state_of(bench, "child")) == ("Open", "Open")
        assert bench.store.objects(COMMAND) == []
        assert annotations_of(await bench.client.get(QUEUE, "child")) == {"volcano.sh/closed-by-parent": "false"}

    on_bench(script)


@pytest.mark.parametrize("busy", [("child",), ("parent",), ("child", "parent")])
@pytest.mark.parametrize("empties_before", [True, False])
def test_a_queue_told_to_open_and_then_to_close_while_it_closes_with_its_parent_stays_shut(
    busy: tuple[str, ...], empties_before: bool
) -> None:
    async def script(bench: Bench) -> None:
        parent = await bench.client.create(QUEUE, new_queue("parent"))
        child = await bench.client.create(QUEUE, new_queue("child", "parent"))
        await until_states(bench, parent="Open", child="Open")
        for queue in busy:
            group = {**make.pod_group(queue, queue=queue), "metadata": {"name": queue, "namespace": "default"}}
            await bench.client.create(POD_GROUP, group)
        for action, queue in (("CloseQueue", parent), ("OpenQueue", child), ("CloseQueue", child)):
            await tell(bench, action, queue)
        shut = {name: "Closing" if name in busy else "Closed" for name in ("parent", "child")}
        assert {name: state_of(bench, name) for name in shut} == shut
        if empties_before:
            for name in busy:
                await bench.client.delete(POD_GROUP, name, "default")
            await until_states(bench, parent="Closed", child="Closed")
        await tell(bench, "OpenQueue", parent)
        assert state_of(bench, "parent") == "Open"
        assert state_of(bench, "child") == ("Closed" if empties_before else shut["child"])
        assert bench.store.objects(COMMAND) == []

    on_bench(script)


def test_the_last_of_several_commands_counts_and_opening_an_open_queue_notes_nothing() -> None:
    async def script(bench: Bench) -> None:
        queue = await bench.client.create(QUEUE, new_queue("physics"))
        await until_states(bench, physics="Open")
        await bench.stop_controllers()
        for action in ("OpenQueue", "CloseQueue", "OpenQueue", "CloseQueue"):
            await bench.client.create(COMMAND, make.command(action, queue, "Queue"))
        bench.start_controllers()
        await bench.settle()
        assert state_of(bench, "physics") == "Closed"
        other = await bench.client.create(QUEUE, new_queue("chemistry"))
        await bench.client.create(COMMAND, make.command("OpenQueue", other, "Queue"))
        await bench.settle()
        assert annotations_of(await bench.client.get(QUEUE, "chemistry")) == {}

    on_bench(script)


async def tell(bench: Bench, action: str, queue: Obj) -> None:
    await bench.client.create(COMMAND, make.command(action, queue, "Queue"))
    await bench.settle()


async def warnings(bench: Bench) -> list[str]:
    return [one["message"] for one in (await bench.client.list(EVENT)).items if one["type"] == "Warning"]
