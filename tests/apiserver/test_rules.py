"""CEL rules of definitions, as far as they are evaluated."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from hekla.api.crds import load_crds
from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, HYPER_NODE, Obj
from hekla.apiserver.cel import compile_message, compile_rule
from hekla.apiserver.store.store import Key
from hekla.errors import Invalid
from tests.apiserver.rig import WIDGET, WIDGETS, Rig, with_server
from tests.apiserver.ruled import TOLD, ruled_widgets

ONE_AT_MOST = "(has(self.a) ? 1 : 0) + (has(self.b) ? 1 : 0) <= 1"
NO_WAY = "Either ExactMatch or RegexMatch or LabelMatch must be specified"
TWO_WAYS = "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified"
NO_A = '"object": no such key: a evaluating rule: {}'
EXACT: Obj = {"exactMatch": {"name": "n"}}


@pytest.mark.parametrize(
    ("rule", "value", "holds"),
    [
        ("has(self.a) || has(self.b)", {"b": {}}, True),
        ("has(self.a) || has(self.b)", {"c": 1}, False),
        ("has(self.a) && !has(self.b)", {"a": 0}, True),
        ("has(self.a) && !has(self.b)", {"a": 0, "b": 0}, False),
        ("!has(self.a) || has(self.b) && has(self.c)", {"a": 1, "b": 1}, False),
        ("has(self.a.b)", {"a": {"b": 0}}, True),
        ("has(self.a.b)", {"a": {"b": None}}, False),
        ("has(self.a__dash__b) && has(self.__namespace__)", {"a-b": 1, "namespace": 1}, True),
        ("has(self.__underscores__a__dot__b__slash__c)", {"__a.b/c": 1}, True),
        ("has(self.a.b)", {"a": "text"}, False),
        (ONE_AT_MOST, {}, True),
        (ONE_AT_MOST, {"a": 1, "b": 1}, False),
        ("3 - 1 - 1 == 1", {}, True),
        ("has(self.a) ? has(self.b) : has(self.c)", {"c": 1}, True),
    ],
)
def test_a_rule_about_what_is_there(rule: str, value: Obj, holds: bool) -> None:
    compiled = compile_rule(rule)
    assert compiled is not None
    assert bool(compiled(value)) is holds


@pytest.mark.parametrize(
    "rule",
    [
        "self.a == 'x'",
        "size(self) > 1",
        "has(self.a) ||",
        "(has(self.a)",
        "has(self.a) 1",
        pytest.param("(" * 5000 + "has(self.a)" + ")" * 5000, id="too deep"),
    ],
)
def test_a_rule_about_more_is_none_of_ours(rule: str) -> None:
    assert compile_rule(rule) is None


@pytest.mark.parametrize(
    ("expression", "value", "told"),
    [
        ("'one'", {}, "one"),
        ("'b is ' + self.b + \".\"", {"b": "x"}, "b is x."),
        ("has(self.b) ? 'with ' + self.b : 'without'", {}, "without"),
        ("self.a.b", {"a": {"b": "deep"}}, "deep"),
        (r"'it\'s \"so\"'", {}, 'it\'s "so"'),
    ],
)
def test_a_message_put_together(expression: str, value: Obj, told: str) -> None:
    compiled = compile_message(expression)
    assert compiled is not None
    assert compiled(value) == told


@pytest.mark.parametrize("expression", ["self.a.size()", "'open", r"'\x41'", "'a' 'b'", "string(self.n)"])
def test_a_message_that_takes_more_is_none_of_ours(expression: str) -> None:
    assert compile_message(expression) is None


def hyper_node(name: str, *selectors: Any, **spec: Any) -> Obj:
    members = [{"type": "Node", "selector": selector} for selector in selectors]
    return {"metadata": {"name": name}, "spec": {"tier": 1, "members": members, **spec}}


def test_a_broken_rule_is_told_in_the_real_servers_words() -> None:
    async def script(rig: Rig) -> None:
        for definition in load_crds():
            await rig.client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        both = {**EXACT, "regexMatch": {"pattern": "x"}}
        for node, told in (
            (hyper_node("a", EXACT, {}), f"spec.members[1].selector: Invalid value: {NO_WAY}"),
            (hyper_node("b", both), f"spec.members[0].selector: Invalid value: {TWO_WAYS}"),
            (
                hyper_node("c", {}, tierName=7),
                '[spec.tierName: Invalid value: "integer": spec.tierName in body must be of type string: "integer", '
                "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
                "correct the existing errors to complete validation]",
            ),
        ):
            with pytest.raises(Invalid) as refused:
                await rig.client.create(HYPER_NODE, node)
            assert str(refused.value).endswith(f" is invalid: {told}")
        await rig.client.create(HYPER_NODE, hyper_node("d", EXACT, {"labelMatch": {}}))

    with_server(script)


def text(**more: Any) -> Obj:
    return {"type": "string", **more}


def one_of(name: str, **fields: Obj) -> Obj:
    """An object that must have a field."""
    rule = {"rule": f"has(self.{name})", "message": f"{name} is missing"}
    return {"type": "object", "properties": fields, "x-kubernetes-validations": [rule]}


async def create_widget(rig: Rig, spec: Obj) -> str:
    """What the server has against it."""
    try:
        await rig.client.create(WIDGET, {"metadata": {"generateName": "w-"}, "spec": spec})
    except Invalid as refused:
        return str(refused).partition(" is invalid: ")[2]
    return ""


def test_what_counts_as_there_is_what_counts_on_the_real_server() -> None:
    definition = deepcopy(WIDGETS)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    # One that says nothing is refused by the real server; whoever had it stored goes on without it.
    schema["x-kubernetes-validations"] = [{"rule": "has(self.metadata.name)"}, {"message": "no rule at all"}]
    schema["properties"]["spec"] = {
        "type": "object",
        "properties": {
            "nullable": one_of("a", a=text(nullable=True)),
            "absent": {**one_of("a", a=text()), "nullable": True},
            "by_name": {"type": "object", "additionalProperties": one_of("a", a=text())},
        },
    }

    async def script(rig: Rig) -> None:
        await rig.client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        assert await create_widget(rig, {"nullable": {"a": "x"}}) == ""
        assert await create_widget(rig, {"nullable": {"a": None}}) == "spec.nullable: Invalid value: a is missing"
        assert await create_widget(rig, {"absent": None}) == ""
        told = await create_widget(rig, {"by_name": {"k": {}, "l": {"a": "x"}}})
        assert told == "spec.by_name[k]: Invalid value: a is missing"

    with_server(script)


@pytest.mark.parametrize(
    ("rule", "spec", "told"),
    [
        ("!has(self.a.x)", {}, NO_A),
        ("!has(self.a.x)", {"a": {}}, ""),
        ("has(self.a.x) || has(self.b)", {"b": "x"}, ""),
        ("has(self.b) || has(self.a.x)", {}, NO_A),
        ("!(has(self.a.x) && has(self.b))", {}, ""),
        ("!(has(self.a.x) && has(self.b))", {"b": "x"}, NO_A),
        ("has(self.a.x) == has(self.b)", {"a": {"x": "1"}}, "failed rule: {}"),
    ],
)
def test_a_field_of_what_is_not_there_cannot_be_asked_for_unless_it_does_not_matter(
    rule: str, spec: Obj, told: str
) -> None:
    definition = deepcopy(WIDGETS)
    fields = {"a": {"type": "object", "properties": {"x": text()}}, "b": text()}
    of_spec = {"type": "object", "properties": fields, "x-kubernetes-validations": [{"rule": rule}]}
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = of_spec

    async def script(rig: Rig) -> None:
        await rig.client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        expected = f"spec: Invalid value: {told.format(rule)}" if told else ""
        assert await create_widget(rig, spec) == expected

    with_server(script)


def test_what_got_in_before_the_rule_may_stay() -> None:
    async def script(rig: Rig) -> None:
        for definition in load_crds():
            await rig.client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        stored = {**hyper_node("old", {}), "apiVersion": HYPER_NODE.api_version, "kind": HYPER_NODE.kind}
        stored["metadata"] = {"name": "old", "uid": "u", "generation": 1}
        await rig.store.write(Key("topology.volcano.sh/hypernodes", "", "old"), lambda _: stored)
        await rig.client.patch(HYPER_NODE, "old", {"spec": {"tier": 2}})
        with pytest.raises(Invalid, match=NO_WAY):
            await rig.client.patch(HYPER_NODE, "old", {"spec": {"members": [{"type": "HyperNode", "selector": {}}]}})

    with_server(script)


@pytest.mark.parametrize(("name", "value", "told"), TOLD)
def test_a_broken_rule_says_what_its_definition_wants_it_to(name: str, value: Obj, told: str) -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CUSTOM_RESOURCE_DEFINITION, ruled_widgets())
        assert await create_widget(rig, {name: value}) == told

    with_server(script)
