"""Tables: cells as kubectl's users know them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hekla.api.duration import human_duration
from hekla.api.kinds import BUILT_IN_KINDS
from hekla.apiserver.columns.pods import pod_status
from hekla.apiserver.columns.tables import BUILT_IN_TABLES
from hekla.apiserver.definitions import load_definitions
from hekla.apiserver.schema import Node
from hekla.apiserver.table import read_json_path
from tests.apiserver.rig import WIDGET, Rig, pod, widget, with_server

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (119, "119s"), (120, "2m"), (121, "2m1s"), (600, "10m"), (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"),
        (9 * 3600 + 60, "9h"), (48 * 3600, "2d"), (49 * 3600, "2d1h"), (10 * 86400 + 3600, "10d"),
        (800 * 86400, "2y70d"),
    ],
)  # fmt: skip
def test_durations_read_as_kubectl_writes_them(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def status(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"initContainers": [{}, {}]}, "status": fields}


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        (status(phase="Running"), "Running"),
        (status(phase="Failed", reason="Evicted"), "Evicted"),
        (
            status(phase="Pending", containerStatuses=[{"state": {"waiting": {"reason": "ErrImagePull"}}}]),
            "ErrImagePull",
        ),
        (
            status(phase="Succeeded", containerStatuses=[{"state": {"terminated": {"reason": "Completed"}}}]),
            "Completed",
        ),
        (status(phase="Failed", containerStatuses=[{"state": {"terminated": {"exitCode": 3}}}]), "ExitCode:3"),
        (status(phase="Failed", containerStatuses=[{"state": {"terminated": {"signal": 9}}}]), "Signal:9"),
        (status(phase="Pending", initContainerStatuses=[{"state": {"running": {}}}]), "Init:0/2"),
        (
            status(phase="Pending", initContainerStatuses=[{"state": {"terminated": {"exitCode": 1}}}]),
            "Init:ExitCode:1",
        ),
    ],
)
def test_a_pods_state_is_one_word(shown: dict[str, Any], word: str) -> None:
    assert pod_status(shown, NOW) == word


def test_a_pod_being_deleted_is_terminating() -> None:
    going = {**status(phase="Running"), "metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}
    assert pod_status(going, NOW + timedelta(1)) == "Terminating"


def test_printer_columns_give_cells() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        await rig.client.create(WIDGET, widget())
        conditions = [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]
        await rig.client.patch(WIDGET, "w", {"status": {"conditions": conditions}}, "default", subresource="status")
        _, table, _ = await rig.send("GET", WIDGET.path("default"), Accept=TABLE)
        assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Size", "Ready", "Age"]
        (row,) = table["rows"]
        assert row["cells"] == ["w", 3, "True", "0s"]
        assert row["object"]["kind"] == "PartialObjectMetadata"

    with_server(script)


def test_a_list_of_pods_is_a_table_with_wide_columns() -> None:
    async def script(rig: Rig) -> None:
        await rig.send("POST", "/api/v1/namespaces/default/pods", pod())
        _, table, _ = await rig.send("GET", "/api/v1/pods", Accept=TABLE)
        assert table["rows"][0]["cells"] == ["p", "0/1", "Pending", "0", "0s", "<none>", "<none>", "<none>", "<none>"]
        assert (await rig.send("GET", "/api/v1/pods", Accept="application/foo"))[0] == 406

    with_server(script)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        (".l[0].n", ["x"]),
        (".l[*].n", ["x", "y"]),
        ('.l[?(@.n=="y")].v', [2]),
        (".a\\.b", [3]),
        (".zz", []),
    ],
)
def test_the_json_paths_of_columns(path: str, found: list[Any]) -> None:
    value: list[Any] = [{"a": {"b": 1}, "l": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "a.b": 3}]
    for step in read_json_path(path):
        value = [below for each in value for below in step(each)]
    assert value == found


@pytest.mark.parametrize("storage", BUILT_IN_TABLES)
def test_no_object_can_spoil_the_table_of_its_kind(storage: str) -> None:
    """Whatever is written where no rule is asked: in a status, or in kinds that nobody here attends to."""
    group, _, plural = storage.partition("/")
    kind = next(each for each in BUILT_IN_KINDS if (each.group, each.plural) == (group, plural))
    definitions = load_definitions()
    name = definitions.name_of(kind)
    assert name is not None
    for depth in range(1, 7):
        obj = {**hollow(definitions.node(name), depth), "metadata": {"name": "x"}}
        assert [cell(obj, NOW) for _, _, _, cell in BUILT_IN_TABLES[storage]]


def hollow(node: Node, depth: int) -> Any:
    """A value with all its fields, of which those at some depth have nothing in them."""
    if node.format == "date-time":
        return "2020-01-01T00:00:00+24:00"  # as far from here as Go reads, and farther than Python does
    if node.type == "array":
        return [hollow(node.items, depth - 1)] if node.items is not None else []
    if node.properties is not None:
        return {name: hollow(child, depth - 1) for name, child in node.properties.items()} if depth > 0 else {}
    return {"integer": 1, "boolean": True, "string": "x", "number": 1.0}.get(node.type, {})
