"""The verbs, on built-in kinds: what is stored, what is refused and in which words."""

from __future__ import annotations

import asyncio

import pytest

from hekla.api.kinds import (
    CONFIG_MAP,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    SECRET,
    SERVICE,
    STORAGE_CLASS,
    Kind,
    Obj,
)
from hekla.apiserver.store.store import Key
from hekla.client.rest import PatchStyle
from hekla.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotFound, UnsupportedMediaType
from tests.apiserver.rig import Rig, config_map, pod, with_server

MAPS = "/api/v1/namespaces/default/configmaps"


def test_a_created_object_carries_what_only_the_server_writes() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(CONFIG_MAP, config_map(uid="mine", generation=7))
        meta = made["metadata"]
        assert len(meta["uid"]) == 36
        assert meta["creationTimestamp"].endswith("Z")
        assert meta["resourceVersion"] == str(rig.store.revision)
        assert "generation" not in meta
        assert await rig.client.get(CONFIG_MAP, "a", "default") == made

    with_server(script)


def test_a_name_is_taken_once() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map())
        with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
            await rig.client.create(CONFIG_MAP, config_map())

    with_server(script)


def test_generated_names_have_a_random_end() -> None:
    async def script(rig: Rig) -> None:
        _, first, _ = await rig.send("POST", MAPS, {"metadata": {"generateName": "g-"}})
        _, second, _ = await rig.send("POST", MAPS, {"metadata": {"generateName": "g-"}})
        assert first["metadata"]["name"].startswith("g-")
        assert len(first["metadata"]["name"]) == 7
        assert first["metadata"]["name"] != second["metadata"]["name"]

    with_server(script)


def test_what_is_not_there_is_not_found() -> None:
    async def script(rig: Rig) -> None:
        with pytest.raises(NotFound, match='configmaps "zz" not found'):
            await rig.client.get(CONFIG_MAP, "zz", "default")
        with pytest.raises(NotFound, match='namespaces "nope" not found'):
            await rig.client.create(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "nope"}})
        status, answer, _ = await rig.send("GET", "/api/v1/nothings")
        assert (status, answer["message"]) == (404, "the server could not find the requested resource")
        assert (await rig.send("GET", "/nothing"))[:2] == (404, "404 page not found\n")

    with_server(script)


def test_a_stale_update_conflicts_and_a_fresh_one_does_not() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(CONFIG_MAP, config_map())
        changed = await rig.client.update(CONFIG_MAP, {**made, "data": {"x": "2"}})
        assert int(changed["metadata"]["resourceVersion"]) == int(made["metadata"]["resourceVersion"]) + 1
        with pytest.raises(Conflict, match="the object has been modified; please apply your changes to the latest"):
            await rig.client.update(CONFIG_MAP, {**made, "data": {"x": "3"}})

    with_server(script)


def test_an_update_that_changes_nothing_makes_no_revision() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(CONFIG_MAP, config_map())
        assert await rig.client.update(CONFIG_MAP, made) == made
        assert await rig.client.patch(CONFIG_MAP, "a", {"data": {"x": "1"}}, "default") == made

    with_server(script)


def test_forty_patches_at_once_are_all_applied() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map())
        patches = (rig.client.patch(CONFIG_MAP, "a", {"data": {f"k{n}": "v"}}, "default") for n in range(40))
        await asyncio.gather(*patches)
        assert len((await rig.client.get(CONFIG_MAP, "a", "default"))["data"]) == 41

    with_server(script)


def test_unknown_and_duplicate_fields_are_warned_about_or_refused() -> None:
    async def script(rig: Rig) -> None:
        body = b'{"metadata":{"name":"a"},"data":{"a":"1","a":"2"},"nope":1}'
        status, answer, _ = await rig.send("POST", f"{MAPS}?fieldValidation=Strict", body)
        assert status == 400
        assert 'strict decoding error: unknown field "nope", duplicate field "data.a"' in answer["message"]
        status, answer, headers = await rig.send("POST", f"{MAPS}?fieldValidation=Warn", body)
        assert status == 201
        assert "nope" not in answer
        assert "299 - " in headers["warning"]
        status, _, headers = await rig.send("PUT", f"{MAPS}/a?fieldValidation=Ignore", body)
        assert (status, "warning" in headers) == (200, False)

    with_server(script)


def test_a_dry_run_answers_and_stores_nothing() -> None:
    async def script(rig: Rig) -> None:
        before = rig.store.revision
        made = await rig.client.create(CONFIG_MAP, config_map(), dry_run=True)
        assert made["metadata"]["uid"]
        assert await rig.client.find(CONFIG_MAP, "a", "default") is None
        await rig.client.create(CONFIG_MAP, config_map("b"))
        await rig.client.delete(CONFIG_MAP, "b", "default", dry_run=True)
        assert await rig.client.find(CONFIG_MAP, "b", "default") is not None
        assert rig.store.revision == before + 1

    with_server(script)


def test_wrong_types_are_named_as_go_names_them() -> None:
    async def script(rig: Rig) -> None:
        _, answer, _ = await rig.send("POST", "/api/v1/namespaces/default/pods", {"spec": {"containers": "x"}})
        assert answer["message"] == (
            'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field '
            "PodSpec.spec.containers of type []v1.Container"
        )
        _, answer, _ = await rig.send("POST", MAPS, {"metadata": {"name": "x"}, "data": {"a": 5}})
        assert answer["message"].endswith("Go struct field ConfigMap.data of type string")

    with_server(script)


def test_every_problem_of_a_pod_is_told_at_once() -> None:
    async def script(rig: Rig) -> None:
        with pytest.raises(Invalid) as caught:
            await rig.client.create(
                POD,
                {
                    "metadata": {"name": "P/", "namespace": "default"},
                    "spec": {"containers": [{"image": "x"}], "restartPolicy": "Sometimes"},
                },
            )
        fields = [cause["field"] for cause in caught.value.details["causes"]]
        assert fields == ["metadata.name", "spec.containers[0].name", "spec.restartPolicy"]

    with_server(script)


def test_a_pod_gets_the_defaults_a_cluster_gives() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(
            POD,
            {
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "image": "x",
                            "ports": [{"containerPort": 80}],
                            "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
                        }
                    ],
                    "volumes": [{"name": "v", "configMap": {"name": "a"}}, {"name": "e"}],
                },
                "status": {"phase": "Running"},
            },
        )
        spec, container = made["spec"], made["spec"]["containers"][0]
        assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
        assert container["resources"] == {
            "limits": {"cpu": "500m", "memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "1Gi"},
        }
        assert container["imagePullPolicy"] == "Always"
        assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
        assert spec["volumes"][:2] == [
            {"name": "v", "configMap": {"name": "a", "defaultMode": 420}},
            {"name": "e", "emptyDir": {}},
        ]
        assert [each["key"] for each in spec["tolerations"]] == [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        ]
        assert (spec["priority"], spec["schedulerName"], spec["restartPolicy"]) == (0, "default-scheduler", "Always")
        assert made["metadata"]["generation"] == 1

    with_server(script)


@pytest.mark.parametrize(("asked", "given"), [(-5, 1), (0, 0), (7, 7)])
def test_a_pod_has_a_second_to_end_where_it_asked_for_less_than_none(asked: int, given: int) -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod(terminationGracePeriodSeconds=asked))
        assert made["spec"]["terminationGracePeriodSeconds"] == given

    with_server(script)


def test_priority_comes_from_the_class() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod(priorityClassName="system-node-critical"))
        assert made["spec"]["priority"] == 2_000_001_000
        with pytest.raises(Forbidden, match="no PriorityClass with name nope was found"):
            await rig.client.create(POD, pod("q", priorityClassName="nope"))
        await rig.client.create(PRIORITY_CLASS, {"metadata": {"name": "d"}, "value": 5, "globalDefault": True})
        made = await rig.client.create(POD, pod("r"))
        assert (made["spec"]["priority"], made["spec"]["priorityClassName"]) == (5, "d")
        assert made["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
        polite = {"metadata": {"name": "polite"}, "value": 7, "preemptionPolicy": "Never"}
        await rig.client.create(PRIORITY_CLASS, polite)
        made = await rig.client.create(POD, pod("s", priorityClassName="polite"))
        assert made["spec"]["preemptionPolicy"] == "Never"
        with pytest.raises(Forbidden, match=r"PreemptionPolicy \(PreemptLowerPriority\) must not be provided"):
            await rig.client.create(POD, pod("t", priorityClassName="polite", preemptionPolicy="PreemptLowerPriority"))

    with_server(script)


def test_a_pods_spec_does_not_change_but_for_its_images() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod())
        with pytest.raises(Invalid, match="pod updates may not change fields other than"):
            await rig.client.patch(POD, "p", {"spec": {"nodeName": "n"}}, "default")
        image = {"spec": {"containers": [{"name": "main", "image": "python:4"}]}}
        changed = await rig.client.patch(POD, "p", image, "default", style=PatchStyle.STRATEGIC)
        assert changed["spec"]["containers"][0]["image"] == "python:4"
        assert changed["metadata"]["generation"] == made["metadata"]["generation"] + 1

    with_server(script)


def test_secrets_take_plain_text_and_must_be_base64() -> None:
    async def script(rig: Rig) -> None:
        secret = {"metadata": {"name": "s", "namespace": "default"}, "stringData": {"a": "b"}}
        assert (await rig.client.create(SECRET, secret))["data"] == {"a": "Yg=="}
        with pytest.raises(BadRequest, match="illegal base64 data at input byte 0"):
            await rig.client.create(SECRET, {"metadata": {"name": "t", "namespace": "default"}, "data": {"a": "!!"}})

    with_server(script)


def test_a_headless_service_keeps_its_address() -> None:
    async def script(rig: Rig) -> None:
        service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"clusterIP": "None"}}
        made = await rig.client.create(SERVICE, service)
        assert made["spec"]["clusterIPs"] == ["None"]
        assert made["spec"]["type"] == "ClusterIP"

    with_server(script)


def test_a_lease_is_made_by_its_first_update() -> None:
    async def script(rig: Rig) -> None:
        lease = {"metadata": {"name": "l", "namespace": "default"}, "spec": {"holderIdentity": "me"}}
        assert (await rig.client.update(LEASE, lease))["metadata"]["uid"]

    with_server(script)


def test_status_and_the_rest_are_written_apart() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(NODE, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})
        changed = await rig.client.patch(NODE, "n", {"spec": {"unschedulable": True}, "status": {"phase": "x"}})
        assert "phase" not in changed["status"]
        patch = {"spec": {"unschedulable": False}, "status": {"capacity": {"cpu": "8"}}}
        changed = await rig.client.patch(NODE, "n", patch, subresource="status")
        assert changed["spec"]["unschedulable"] is True
        assert changed["status"]["capacity"] == {"cpu": "8"}

    with_server(script)


def test_only_known_media_types_are_read() -> None:
    async def script(rig: Rig) -> None:
        for method, path, content_type in (
            ("POST", MAPS, "text/plain"),
            ("PATCH", f"{MAPS}/a", "application/json"),
        ):
            status, answer, _ = await rig.send(method, path, {}, content_type)
            assert (status, answer["reason"]) == (415, UnsupportedMediaType.reason)

    with_server(script)


def test_bodies_that_are_too_large_or_no_json_are_refused() -> None:
    async def script(rig: Rig) -> None:
        status, answer, _ = await rig.send("POST", MAPS, b"x" * (3 * 1024 * 1024 + 1))
        assert (status, answer["reason"]) == (413, "RequestEntityTooLarge")
        for body in (b"{nope", b"[]", b'{"a":NaN}', b"[" * 100_000, b"\xff\xfe", b""):
            assert (await rig.send("POST", MAPS, body))[0] == 400, body[:20]

    with_server(script)


def test_a_changed_spec_is_judged_as_a_new_one_is() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(POD, pod())
        changed = {"spec": {"containers": [{"name": "main", "image": ""}]}}
        with pytest.raises(Invalid, match=r"spec.containers\[0\].image: Required value"):
            await rig.client.patch(POD, "p", changed, "default", style=PatchStyle.STRATEGIC)

    with_server(script)


def test_what_got_in_under_older_rules_is_not_judged_when_its_status_is_written() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod())
        made["spec"]["containers"][0]["name"] = "Older_Rules"
        await rig.store.write(Key("/pods", "default", "p"), lambda _: made)
        patch = {"spec": {"priority": 7}, "status": {"phase": "Running"}}
        written = await rig.client.patch(POD, "p", patch, "default", subresource="status")
        assert (written["status"]["phase"], written["spec"]) == ("Running", made["spec"])

    with_server(script)


@pytest.mark.parametrize(
    ("kind", "older"),
    [
        (CONFIG_MAP, {"data": {"..a": "b"}}),
        (CONFIG_MAP, {"metadata": {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "u"}]}}),
        (STORAGE_CLASS, {"provisioner": "a b", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        (PRIORITY_CLASS, {"value": 2_000_000_000, "preemptionPolicy": "Never"}),
    ],
)
def test_what_got_in_under_older_rules_can_be_changed_where_it_is_right_and_deleted(kind: Kind, older: Obj) -> None:
    async def script(rig: Rig) -> None:
        namespace = "default" if kind.namespaced else ""
        metadata = {"name": "x", "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z", "finalizers": ["a.b/c"]}
        metadata = {**metadata, "namespace": namespace, **older.get("metadata", {})}
        kept = {"apiVersion": kind.api_version, "kind": kind.kind, **older, "metadata": metadata}
        await rig.store.write(Key(f"{kind.group}/{kind.plural}", namespace, "x"), lambda _: kept)
        with pytest.raises(Invalid, match=r"metadata.labels: Invalid value: \"b c\""):
            await rig.client.patch(kind, "x", {"metadata": {"labels": {"a": "b c"}}}, namespace)
        await rig.client.delete(kind, "x", namespace)
        await rig.client.patch(kind, "x", {"metadata": {"finalizers": None}}, namespace)
        assert await rig.client.find(kind, "x", namespace) is None

    with_server(script)


def test_yaml_is_read_and_yaml_bombs_are_not() -> None:
    async def script(rig: Rig) -> None:
        good = b"metadata:\n  name: y\ndata:\n  a: b\n"
        status, answer, _ = await rig.send("POST", MAPS, good, "application/yaml")
        assert (status, answer["data"]) == (201, {"a": "b"})
        more_than_json = b"metadata: {name: z, labels: {since: 2020-01-01}}\ndata: {1: b}\n"
        status, answer, _ = await rig.send("POST", MAPS, more_than_json, "application/yaml")
        assert (status, answer["metadata"]["labels"], answer["data"]) == (201, {"since": "2020-01-01"}, {"1": "b"})
        bomb = b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"
        deep = b"a: " + b"[" * 25_000
        mistagged = (b"a: !!bool maybe", b"a: !!timestamp soon", b"a: !!int abc", b"a: !!float ''")
        for body in (bomb, deep, b"data: {[a]: b}", *mistagged):
            assert (await rig.send("POST", MAPS, body, "application/yaml"))[0] == 400

    with_server(script)


def test_a_namespace_that_is_going_takes_nothing_new() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(NAMESPACE, {"metadata": {"name": "n"}})
        gone = await rig.client.delete(NAMESPACE, "n")
        assert gone["status"]["phase"] == "Terminating"
        with pytest.raises(Forbidden, match="because it is being terminated"):
            await rig.client.create(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "n"}})
        with pytest.raises(Forbidden, match="this namespace may not be deleted"):
            await rig.client.delete(NAMESPACE, "default")

    with_server(script)


def test_a_patch_that_would_make_something_of_another_shape_is_unprocessable() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map())
        path = CONFIG_MAP.path("default", "a")
        for patch, words in (
            ({"data": 5}, "cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string"),
            ({"metadata": 5}, "cannot unmarshal number into Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
            ({"kind": "Foo"}, 'no kind "Foo" is registered for version "v1"'),
        ):
            code, status, _ = await rig.send("PATCH", path, patch, "application/merge-patch+json")
            assert (code, status["reason"]) == (422, "Invalid")
            assert status["message"].startswith(' "" is invalid: patch: Invalid value: "{')
            assert words in status["message"]
        code, status, _ = await rig.send("PATCH", path, {"metadata": None}, "application/merge-patch+json")
        assert (code, status["reason"]) == (400, "BadRequest")

    with_server(script)


def test_a_revision_that_is_none_is_an_error_in_the_words_of_the_verb() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(CONFIG_MAP, config_map())
        why = 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
        for path, expected in (
            (f"{CONFIG_MAP.path('default')}?watch=1&resourceVersion=abc", (500, why)),
            (f"{CONFIG_MAP.path('default', 'a')}?resourceVersion=abc", (500, why)),
            (f"{CONFIG_MAP.path('default')}?resourceVersion=abc", (400, f"invalid resource version: {why}")),
        ):
            code, status, _ = await rig.send("GET", path)
            assert (code, status["message"]) == expected

    with_server(script)
