"""Who may do what: nothing without a role, what a role says with one, and not a moment longer."""

from __future__ import annotations

from hekla.api.kinds import CONFIG_MAP, NAMESPACE, POD, ROLE, ROLE_BINDING, SECRET
from tests.apiserver.access.people import ask, bind, grant, may, rule
from tests.apiserver.rig import Rig, config_map, pod, with_server

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


def test_a_stranger_may_find_out_what_there_is_and_nothing_else() -> None:
    async def script(rig: Rig) -> None:
        for path in ("/api", "/apis", "/api/v1", "/openapi/v3", "/version", "/healthz"):
            assert await may(rig, "stranger", "GET", path), path
        for path in ("/metrics", PODS, "/api/v1/nodes", "/api/v1/namespaces/default/secrets/x", "/nothing"):
            assert not await may(rig, "stranger", "GET", path), path
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert not await may(rig, "stranger", method, PODS if method == "POST" else f"{PODS}/p", {}), method

    with_server(script)


def test_a_role_grants_its_verbs_in_its_namespace_only() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(NAMESPACE, {"metadata": {"name": "other"}})
        await grant(rig, "ann", rule("get list", "pods"), namespace="default")
        assert await may(rig, "ann", "GET", PODS)
        assert await may(rig, "ann", "GET", f"{PODS}/p")
        for method, path in (
            ("GET", f"{PODS}?watch=1"), ("DELETE", PODS), ("DELETE", f"{PODS}/p"), ("GET", f"{PODS}/p/log"),
            ("GET", "/api/v1/pods"), ("GET", "/api/v1/namespaces/other/pods"), ("PATCH", f"{PODS}/p/status"),
        ):  # fmt: skip
            assert not await may(rig, "ann", method, path, {}), path

    with_server(script)


def test_a_refusal_says_who_what_and_where() -> None:
    async def script(rig: Rig) -> None:
        status, answer = await ask(rig, "ann", "GET", PODS)
        assert (status, answer["reason"], answer["details"]) == (403, "Forbidden", {"kind": "pods"})
        assert answer["message"] == (
            'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default"'
        )
        _, answer = await ask(rig, "ann", "GET", "/apis/batch.volcano.sh/v1alpha1/jobs")
        assert answer["message"].endswith('resource "jobs" in API group "batch.volcano.sh" at the cluster scope')
        await bind(rig, "ann", "Role", "missing", namespace="default")
        _, answer = await ask(rig, "ann", "GET", PODS)
        assert answer["message"].endswith(': RBAC: role.rbac.authorization.k8s.io "missing" not found')

    with_server(script)


def test_names_limit_a_grant() -> None:
    async def script(rig: Rig) -> None:
        await grant(rig, "ann", rule("get list update", "configmaps", names="one"), namespace="default")
        assert await may(rig, "ann", "GET", f"{MAPS}/one")
        assert await may(rig, "ann", "GET", f"{MAPS}?fieldSelector=metadata.name%3Done")
        for path in (MAPS, f"{MAPS}/two", f"{MAPS}?fieldSelector=metadata.name!%3Done"):
            assert not await may(rig, "ann", "GET", path), path

    with_server(script)


def test_a_grant_for_the_empty_name_is_no_grant_for_every_name() -> None:
    async def script(rig: Rig) -> None:
        for user, name in (("ann", ""), ("bob", "*")):
            await grant(rig, user, {**rule("get list", "configmaps"), "resourceNames": [name]}, namespace="default")
            assert not await may(rig, user, "GET", f"{MAPS}/one")
        assert await may(rig, "ann", "GET", MAPS)

    with_server(script)


def test_stars_and_paths() -> None:
    async def script(rig: Rig) -> None:
        paths = {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/debug/*"]}
        await grant(rig, "ann", rule("*", "*/status", "*"), rule("get", "*", "example.org"), paths)
        assert await may(rig, "ann", "PATCH", f"{PODS}/p/status", {})
        assert await may(rig, "ann", "GET", "/apis/example.org/v1/widgets/w/scale")
        assert await may(rig, "ann", "GET", "/metrics")
        assert await may(rig, "ann", "GET", "/debug/x/y")
        for path in (f"{PODS}/p", "/debug", "/metrics/x"):
            assert not await may(rig, "ann", "GET", path), path

    with_server(script)


def test_what_is_taken_away_ends_at_once() -> None:
    async def script(rig: Rig) -> None:
        await grant(rig, "ann", rule("list", "pods"), namespace="default")
        assert await may(rig, "ann", "GET", PODS)
        await rig.client.patch(ROLE, "of-ann", {"rules": [rule("list", "secrets")]}, "default")
        assert not await may(rig, "ann", "GET", PODS)
        assert await may(rig, "ann", "GET", "/api/v1/namespaces/default/secrets")
        await rig.client.delete(ROLE_BINDING, "of-ann-for-ann", "default")
        assert not await may(rig, "ann", "GET", "/api/v1/namespaces/default/secrets")

    with_server(script)


def test_making_an_object_needs_that_right_whichever_verb_makes_it() -> None:
    async def script(rig: Rig) -> None:
        await grant(rig, "ann", rule("update patch", "configmaps leases", "core coordination.k8s.io"))
        lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
        assert not await may(rig, "ann", "PUT", lease, {"metadata": {"name": "l"}})
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
        sent = {"Impersonate-User": "ann"}
        path = f"{MAPS}/a?fieldManager=me"
        status, _, _ = await rig.send("PATCH", path, applied, "application/apply-patch+yaml", **sent)
        assert status == 403
        await rig.client.create(CONFIG_MAP, config_map("a"))
        status, _, _ = await rig.send("PATCH", path, applied, "application/apply-patch+yaml", **sent)
        assert status == 200

    with_server(script)


def test_of_requests_that_were_joined_each_is_judged_by_itself() -> None:
    async def script(rig: Rig) -> None:
        await grant(rig, "ann", rule("create", "configmaps"), namespace="default")
        made, secret = config_map("a"), {"metadata": {"name": "s", "namespace": "default"}}
        items = [
            {"method": "POST", "path": "/api/v1/namespaces/default/configmaps", "body": made},
            {"method": "POST", "path": "/api/v1/namespaces/default/secrets", "body": secret},
            {"method": "PUT", "path": "/api/v1/namespaces/default/configmaps/a", "body": made},
        ]
        _, answer = await ask(rig, "ann", "POST", "/apis/hekla.dev/v1/requestbatches", {"items": items})
        assert [each["code"] for each in answer["results"]] == [201, 403, 403]
        assert await rig.client.find(SECRET, "s", "default") is None

    with_server(script)


def test_of_many_writes_in_one_request_each_is_judged_by_itself() -> None:
    async def script(rig: Rig) -> None:
        await grant(rig, "ann", rule("create", "configmaps"), namespace="default")
        items = [
            {**config_map("a"), "apiVersion": "v1", "kind": "ConfigMap"},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}},
        ]
        _, answer = await ask(rig, "ann", "POST", "/apis/hekla.dev/v1/objectbatches", {"items": items})
        one, two = answer["results"]
        assert one["object"]["metadata"]["name"] == "a"
        assert two["status"]["code"] == 403
        assert await rig.client.find(SECRET, "s", "default") is None
        await rig.client.create(POD, pod())
        binding = {"metadata": {"name": "p", "namespace": "default"}, "target": {"name": "n"}}
        status, _ = await ask(rig, "ann", "POST", "/apis/hekla.dev/v1/bindingbatches", {"items": [binding]})
        assert status == 403
        assert "nodeName" not in (await rig.client.get(POD, "p", "default"))["spec"]

    with_server(script)


def test_roles_made_of_others_are_complete_from_the_start() -> None:
    async def script(rig: Rig) -> None:
        for name in ("view", "edit", "admin"):
            await bind(rig, name, "ClusterRole", name, namespace="default")
        expected = {
            ("view", "GET", PODS): True, ("view", "POST", PODS): False, ("edit", "POST", PODS): True,
            ("view", "GET", "/api/v1/namespaces/default/secrets"): False,
            ("edit", "GET", "/api/v1/namespaces/default/secrets"): True,
            ("edit", "GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"): False,
            ("admin", "GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"): True,
            ("admin", "GET", "/api/v1/nodes"): False,
        }  # fmt: skip
        for (user, method, path), allowed in expected.items():
            assert await may(rig, user, method, path, {}) == allowed, (user, method, path)

    with_server(script)
