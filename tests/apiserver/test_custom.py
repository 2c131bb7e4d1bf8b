"""Custom resources: served from the moment their definition is stored, pruned, defaulted and checked by it."""

from __future__ import annotations

import pytest

from hekla.api.crds import load_crds
from hekla.api.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, QUEUE, Obj
from hekla.api.meta import copy_of
from hekla.apiserver.resource import DEFINITIONS_RESOURCE
from hekla.apiserver.store.store import Key, Remove
from hekla.client.rest import PatchStyle
from hekla.errors import BadRequest, Conflict, Invalid, MethodNotAllowed, NotFound, UnsupportedMediaType
from tests.apiserver.mistyped import TOLD, causes, mistyped_widgets
from tests.apiserver.rig import WIDGET, WIDGETS, Rig, config_map, widget, with_server


def test_a_kind_is_served_from_the_moment_it_is_defined() -> None:
    async def script(rig: Rig) -> None:
        with pytest.raises(NotFound):
            await rig.client.list(WIDGET)
        await rig.define_widgets()
        definition = await rig.client.get(CUSTOM_RESOURCE_DEFINITION, "widgets.example.org")
        conditions = {each["type"]: each["status"] for each in definition["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        assert (await rig.client.list(WIDGET)).items == []
        await rig.client.create(WIDGET, widget())
        await rig.client.delete(CUSTOM_RESOURCE_DEFINITION, "widgets.example.org")
        assert len((await rig.client.list(WIDGET)).items) == 1, "served until its objects are gone"
        with pytest.raises(
            MethodNotAllowed, match="create not allowed while custom resource definition is terminating"
        ):
            await rig.client.create(WIDGET, widget("x"))

    with_server(script)


def test_objects_are_pruned_and_defaulted() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        sent = widget(unknown=1, color=None, free={"any": {"thing": 1}}, parts=[{"name": "a", "bad": 1}])
        made = await rig.client.create(WIDGET, {**sent, "status": {"phase": "x"}})
        assert made["spec"] == {
            "size": 3,
            "color": "red",
            "free": {"any": {"thing": 1}},
            "parts": [{"name": "a", "weight": 7}],
        }
        assert "status" not in made
        with pytest.raises(BadRequest, match=r'unknown field "spec.parts\[0\].bad", unknown field "spec.unknown"'):
            await rig.client.create(WIDGET, {**sent, "metadata": {"name": "b"}}, field_validation="Strict")

    with_server(script)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ({"size": 11}, "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"),
        ({"size": "x"}, 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'),
        ({"color": "green"}, 'spec.color: Unsupported value: "green": supported values: "red", "blue"'),
        ({"parts": [{}]}, "spec.parts[0].name: Required value"),
        ({"parts": [{"name": "a"}, {"name": "a"}]}, 'spec.parts[1]: Duplicate value: {"name":"a"}'),
    ],
)
def test_a_rule_that_is_broken_is_named(spec: dict[str, object], message: str) -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        with pytest.raises(Invalid) as caught:
            await rig.client.create(WIDGET, widget(**spec))
        assert caught.value.message == f'Widget.example.org "w" is invalid: {message}'
        assert caught.value.details["kind"] == "Widget"

    with_server(script)


@pytest.mark.parametrize(("spec", "told"), TOLD, ids=[str(spec)[1:40] for spec, _ in TOLD])
def test_a_value_that_is_not_what_its_field_wants_is_told_in_the_real_servers_words(spec: Obj, told: list[str]) -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CUSTOM_RESOURCE_DEFINITION, mistyped_widgets())
        assert await causes(rig.client, spec) == sorted(told)

    with_server(script)


def test_a_plugin_with_nothing_behind_it_is_one_without_arguments() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CUSTOM_RESOURCE_DEFINITION, mistyped_widgets())
        made = await rig.client.create(WIDGET, {**widget(words={"svc": None}, numbers={"a": None}, port=None)})
        assert (made["spec"]["words"], made["spec"]["numbers"]) == ({"svc": []}, {})
        assert "port" not in made["spec"]

    with_server(script)


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"labels": {"a": 5}}, "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"),
        (
            {"finalizers": "x"},
            "json: cannot unmarshal string into Go struct field ObjectMeta.finalizers of type []string",
        ),
        ({"nope": 5}, 'strict decoding error: unknown field "metadata.nope"'),
    ],
)
def test_metadata_of_the_wrong_type_is_named_without_the_field_it_stands_in(metadata: Obj, told: str) -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        sent = widget()
        with pytest.raises(BadRequest) as caught:
            await rig.client.create(
                WIDGET, {**sent, "metadata": {**sent["metadata"], **metadata}}, field_validation="Strict"
            )
        assert caught.value.message == f'Widget in version "v1" cannot be handled as a Widget: {told}'

    with_server(script)


def test_what_is_warned_of_is_said_with_a_refusal_too() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        path = "/apis/example.org/v1/namespaces/default/widgets"
        status, _, headers = await rig.send("POST", f"{path}?fieldValidation=Warn", widget(size=0, nope=1))
        assert (status, headers["warning"]) == (422, '299 - "unknown field \\"spec.nope\\""')

    with_server(script)


def test_of_a_status_written_alone_the_place_in_it_is_told() -> None:
    async def script(rig: Rig) -> None:
        for definition in load_crds():
            await rig.client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        await rig.client.create(QUEUE, {"metadata": {"name": "q"}, "spec": {}})
        for wrong, told in (
            ({"state": "Odd"}, 'status.state: Unsupported value: "Odd"'),
            ({"pending": -1}, "status.pending: Invalid value: -1: pending in body should be"),
            (
                {"reservation": {"nodes": "x"}},
                'Invalid value: "string": reservation.nodes in body must be of type array',
            ),
            (
                {"pending": 1.5},
                'status: Invalid value: "": Checked value must be of type integer with format int32 in pending',
            ),
        ):
            with pytest.raises(Invalid) as caught:
                await rig.client.patch(QUEUE, "q", {"status": wrong}, subresource="status")
            assert told in caught.value.message

    with_server(script)


def test_of_a_custom_resource_without_a_subresource_the_object_is_not_found() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        await rig.client.create(WIDGET, widget())
        with pytest.raises(NotFound, match=r'^widgets\.example\.org "w" not found$'):
            await rig.client.patch(WIDGET, "w", {"spec": {"replicas": 1}}, "default", subresource="scale")

    with_server(script)


def test_all_broken_rules_are_named_at_once() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        with pytest.raises(Invalid) as caught:
            await rig.client.create(WIDGET, widget(size=0, color="x"))
        assert len(caught.value.details["causes"]) == 2

    with_server(script)


def test_what_a_later_rule_forbids_may_stay_and_may_not_come() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        await rig.client.create(WIDGET, widget(size=9))
        largest = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum"
        smaller = [{"op": "replace", "path": largest, "value": 5}]
        await rig.client.patch(CUSTOM_RESOURCE_DEFINITION, "widgets.example.org", smaller, style=PatchStyle.JSON)
        kept = await rig.client.patch(WIDGET, "w", {"spec": {"color": "blue"}}, "default")
        assert (kept["spec"]["size"], kept["spec"]["color"]) == (9, "blue")
        told = await rig.client.patch(WIDGET, "w", {"status": {"phase": "x"}}, "default", subresource="status")
        assert told["status"] == {"phase": "x"}
        with pytest.raises(Invalid, match=r"spec\.size in body should be less than or equal to 5"):
            await rig.client.patch(WIDGET, "w", {"spec": {"size": 8}}, "default")

    with_server(script)


def test_what_python_takes_for_equal_is_another_value() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        made = await rig.client.create(WIDGET, widget(size=1))
        for wrong in (True, 1.5):
            with pytest.raises(Invalid, match=r"spec\.size in body must be of type integer"):
                await rig.client.update(WIDGET, {**made, "spec": {**made["spec"], "size": wrong}})
        assert (await rig.client.get(WIDGET, "w", "default"))["spec"]["size"] is not True

    with_server(script)


def test_an_update_is_pruned_where_it_differs_and_keeps_its_order() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        made = await rig.client.create(WIDGET, widget())
        told = await rig.client.patch(WIDGET, "w", {"status": {"phase": "x"}}, "default", subresource="status")
        assert told["status"] == {"phase": "x"}
        changed = await rig.client.update(WIDGET, {**told, "spec": {**made["spec"], "bad": 1, "size": 4}, "more": 1})
        assert changed["spec"] == {**made["spec"], "size": 4}
        assert list(changed) == ["apiVersion", "kind", "metadata", "spec", "status"]

    with_server(script)


def test_finalizers_of_custom_objects_need_no_path() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        made = await rig.client.create(WIDGET, {**widget(), "metadata": {"name": "w", "finalizers": ["mine"]}})
        assert made["metadata"]["finalizers"] == ["mine"]
        with pytest.raises(
            Invalid, match=r"metadata\.finalizers: Invalid value: \"not one\": name part must consist of"
        ):
            await rig.client.patch(WIDGET, "w", {"metadata": {"finalizers": ["not one"]}}, "default")
        with pytest.raises(Invalid, match="name is neither a standard finalizer name nor is it fully qualified"):
            await rig.client.create(CONFIG_MAP, {"metadata": {"name": "c", "finalizers": ["mine"]}})

    with_server(script)


def test_generation_counts_changes_of_the_spec_only() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        await rig.client.create(WIDGET, widget())
        generations = []
        for patch, subresource in (
            ({"metadata": {"labels": {"a": "b"}}}, ""),
            ({"status": {"phase": "x"}}, "status"),
            ({"spec": {"size": 4}}, ""),
            ({"spec": {"size": 4}}, ""),
        ):
            changed = await rig.client.patch(WIDGET, "w", patch, "default", subresource=subresource)
            generations.append(changed["metadata"]["generation"])
        assert generations == [1, 1, 2, 2]
        assert changed["status"] == {"phase": "x"}

    with_server(script)


def test_a_default_that_came_later_is_no_change_of_the_spec_by_who_writes_a_status() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        await rig.client.create(WIDGET, widget())
        definition = await rig.client.get(CUSTOM_RESOURCE_DEFINITION, "widgets.example.org")
        properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        properties["later"] = {"type": "string", "default": "x"}
        await rig.client.update(CUSTOM_RESOURCE_DEFINITION, definition)
        changed = await rig.client.patch(WIDGET, "w", {"status": {"a": 1}}, "default", subresource="status")
        assert (changed["metadata"]["generation"], changed["spec"]["later"]) == (1, "x")

    with_server(script)


def test_an_update_must_say_which_revision_it_replaces() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        await rig.client.create(WIDGET, widget())
        with pytest.raises(
            Invalid, match=r"metadata\.resourceVersion: Invalid value: 0: must be specified for an update"
        ):
            await rig.client.update(WIDGET, widget(size=4))
        with pytest.raises(UnsupportedMediaType):
            await rig.client.patch(WIDGET, "w", {}, "default", style=PatchStyle.STRATEGIC)

    with_server(script)


def test_applying_owns_fields_and_drops_what_is_no_longer_named() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()

        async def apply(manager: str, *, force: bool = False, **spec: object) -> dict[str, object]:
            obj = {**widget(), "spec": spec}
            return await rig.client.patch(
                WIDGET, "w", obj, "default", style=PatchStyle.APPLY, field_manager=manager, force=force
            )

        made = await apply("one", size=3, color="blue", parts=[{"name": "a"}, {"name": "b"}])
        assert made["metadata"]["managedFields"][0]["manager"] == "one"
        again = await apply("one", size=3, color="blue", parts=[{"name": "a"}, {"name": "b"}])
        assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        both = await apply("two", parts=[{"name": "c", "weight": 1}])
        assert [part["name"] for part in both["spec"]["parts"]] == ["a", "b", "c"]
        fewer = await apply("one", size=3, parts=[{"name": "b"}])
        assert [part["name"] for part in fewer["spec"]["parts"]] == ["b", "c"]
        assert fewer["spec"]["color"] == "red", "no longer named by anybody: the default again"
        with pytest.raises(Conflict, match=r'Apply failed with 1 conflict: conflict with "one": \.spec\.size'):
            await apply("two", size=5)
        forced = await apply("two", force=True, size=5)
        assert forced["spec"]["size"] == 5

    with_server(script)


def test_where_a_kind_is_found_does_not_change() -> None:
    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        for spec, told in (
            ({"scope": "Cluster"}, 'spec.scope: Invalid value: "Cluster": field is immutable'),
            ({"group": "other.org"}, 'spec.group: Invalid value: "other.org": field is immutable'),
            (
                {"names": {"plural": "gadgets", "kind": "Gadget"}},
                '[spec.names.kind: Invalid value: "Gadget": field is immutable, '
                'spec.names.plural: Invalid value: "gadgets": field is immutable]',
            ),
        ):
            with pytest.raises(Invalid) as refused:
                await rig.client.patch(CUSTOM_RESOURCE_DEFINITION, "widgets.example.org", {"spec": spec})
            assert str(refused.value).endswith(f' "widgets.example.org" is invalid: {told}')
        patch = {"spec": {"names": {"singular": "gadget"}}}
        await rig.client.patch(CUSTOM_RESOURCE_DEFINITION, "widgets.example.org", patch)
        misnamed = {**WIDGETS, "metadata": {"name": "gadgets.example.org"}}
        with pytest.raises(Invalid, match=r"metadata\.name"):
            await rig.client.create(CUSTOM_RESOURCE_DEFINITION, misnamed)

    with_server(script)


def test_a_kind_whose_definition_went_unseen_is_served_no_more() -> None:
    """All there is of its going is that nothing is left."""

    async def script(rig: Rig) -> None:
        await rig.define_widgets()
        await rig.client.create(WIDGET, widget())
        definition = Key(DEFINITIONS_RESOURCE, "", "widgets.example.org")
        await rig.store.write(definition, lambda _: Remove(copy_of(WIDGETS)))
        for number in range(10):
            await rig.store.write(Key("/configmaps", "default", f"m{number}"), lambda _: config_map())
        with pytest.raises(NotFound, match="page not found"):
            await rig.client.list(WIDGET)

    with_server(script, keep_changes=5)
