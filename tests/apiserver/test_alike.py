"""Specs written alike are treated alike, and as if each had come first."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, POD, Obj
from hekla.apiserver import alike
from hekla.apiserver.checking import check
from hekla.apiserver.definitions import load_definitions
from hekla.apiserver.schema import compile_schema
from hekla.apiserver.shaping import WrongType, decode_shape, drop_nulls, fill_defaults, prune
from hekla.client.rest import PatchStyle
from hekla.errors import Invalid
from tests.apiserver.rig import WIDGET, WIDGETS, Rig, with_server

CUSTOM = compile_schema(WIDGETS["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
BUILT_IN = load_definitions().node("io.k8s.api.core.v1.Pod")
SPECS = st.dictionaries(
    st.sampled_from(["size", "color", "free", "parts", "nodeName", "hostNetwork", "overhead", "other"]),
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 12),
        st.sampled_from(["red", "blue", "1Gi", ""]),
        st.lists(st.fixed_dictionaries({"name": st.sampled_from(["a", "b"])}), max_size=2),
        st.dictionaries(st.sampled_from(["cpu", "x"]), st.sampled_from(["1000m", 1, None]), max_size=2),
    ),
    max_size=4,
)


PARTS = st.sampled_from(["spec", "status"])


@given(PARTS, SPECS)
def test_the_answer_is_that_of_the_walk_first_and_again(part: str, value: dict[str, Any]) -> None:
    for _ in range(2):
        obj = {part: deepcopy(value)}
        problems = [problem for problem in check({part: value}, CUSTOM) if problem.field.startswith(part)]
        assert alike.right(obj, CUSTOM) == (set() if problems else {part})
        unknown: list[str] = []
        prune({part: deepcopy(value)}, CUSTOM, unknown)
        assert alike.pruned(obj, CUSTOM) == (set() if unknown else {part})
        for nulls in (True, False):
            ours, filled = {part: deepcopy(value)}, {part: deepcopy(value)}
            if not nulls:
                drop_nulls(filled, CUSTOM)
            fill_defaults(filled, CUSTOM)
            assert alike.fill(ours, CUSTOM, nulls=nulls) == {part}
            assert ours == filled
        assert alike.shaped({part: value}, BUILT_IN) == ({part} if _stays_shaped(part, value) else set())
        assert alike.right(obj, CUSTOM, frozenset({part})) == {part}, "what is known is not asked about"


def _stays_shaped(part: str, value: dict[str, Any]) -> bool:
    shaped, unknown = {part: deepcopy(value)}, list[str]()
    try:
        decode_shape(shaped, BUILT_IN, unknown)
    except WrongType:
        return False
    return not unknown and repr(shaped[part]) == repr(value)


def pod(name: str, *containers: str) -> Obj:
    metadata = {"name": name, "namespace": "default"}
    return {"metadata": metadata, "spec": {"containers": [{"name": each, "image": "i"} for each in containers]}}


def widget(name: str) -> Obj:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"size": 5, "free": {"a": 1}}}


def test_a_definition_that_has_changed_holds_for_specs_that_came_before_it() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        assert (await rig.client.create(WIDGET, widget("first")))["spec"]["color"] == "red"
        definition = await rig.client.get(CUSTOM_RESOURCE_DEFINITION, "widgets.example.org")
        properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        properties["color"]["default"] = "blue"
        definition = await rig.client.update(CUSTOM_RESOURCE_DEFINITION, definition)
        assert (await rig.client.create(WIDGET, widget("second")))["spec"]["color"] == "blue"
        properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        properties["size"]["maximum"] = 3
        await rig.client.update(CUSTOM_RESOURCE_DEFINITION, definition)
        with pytest.raises(Invalid, match=r"spec.size in body should be less than or equal to 3"):
            await rig.client.create(WIDGET, widget("third"))

    with_server(script)


def test_what_is_wrong_is_told_of_every_pod_that_has_it() -> None:
    async def script(rig: Rig) -> None:
        for name in ("a", "b"):
            with pytest.raises(Invalid, match=rf'Pod "{name}" is invalid: spec.containers\[1\].name: Duplicate value'):
                await rig.client.create(POD, pod(name, "main", "main"))

    with_server(script)


def test_what_one_pod_was_given_is_not_another_s_to_change() -> None:
    async def script(rig: Rig) -> None:
        for name in ("a", "b"):
            await rig.client.create(POD, pod(name, "main"))
        other = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
        await rig.client.patch(POD, "a", other, "default", style=PatchStyle.STRATEGIC)
        images = [each["spec"]["containers"][0]["image"] for each in await rig.client.find_all(POD)]
        assert images[0] == "other" != images[1]

    with_server(script)
