"""Nobody grants, or pretends to be, more than they were given."""

from __future__ import annotations

import pytest

from hekla.api.kinds import Obj
from tests.apiserver.access.people import GROUP, ask, bind, grant, rule
from tests.apiserver.rig import Rig, with_server

ROLES = f"/apis/{GROUP}/v1/namespaces/default/roles"
BINDINGS = f"/apis/{GROUP}/v1/namespaces/default/rolebindings"
WRITES = rule("create update patch", "roles rolebindings", GROUP)


def role(*rules: Obj) -> Obj:
    return {"metadata": {"name": "new"}, "rules": list(rules)}


def binding(kind: str, name: str) -> Obj:
    reference = {"apiGroup": GROUP, "kind": kind, "name": name}
    return {"metadata": {"name": "new"}, "roleRef": reference, "subjects": [{"kind": "User", "name": "x"}]}


@pytest.mark.parametrize(
    ("held", "wanted", "allowed"),
    [
        ([], [], True),
        ([], [rule("get", "pods")], False),
        ([rule("get list", "pods")], [rule("get", "pods")], True),
        ([rule("get", "pods")], [rule("get", "pods/log")], False),
        ([rule("get", "*")], [rule("get", "pods/log")], True),
        ([rule("get", "*/log")], [rule("get", "pods/log")], True),
        ([rule("get", "pods")], [rule("get", "pods", names="a")], True),
        ([rule("get", "pods", names="a")], [rule("get", "pods")], False),
        ([rule("get", "pods", names="a b")], [rule("get", "pods", names="b")], True),
        ([rule("get", "pods"), rule("list", "pods")], [rule("get list", "pods")], True),
        ([rule("get", "pods")], [rule("*", "pods")], False),
        ([rule("*", "*", "*")], [rule("*", "*", "*")], True),
        ([rule("*", "*")], [rule("get", "jobs", "batch")], False),
        ([rule("escalate", "roles", GROUP)], [rule("*", "*", "*")], True),
    ],
)
def test_a_role_may_hold_what_its_writer_has(held: list[Obj], wanted: list[Obj], allowed: bool) -> None:
    async def script(rig: Rig) -> None:
        await grant(rig, "ann", WRITES, *held)
        status, answer = await ask(rig, "ann", "POST", ROLES, role(*wanted))
        assert (status == 201) == allowed, answer
        assert allowed or "is attempting to grant RBAC permissions not currently held" in answer["message"]

    with_server(script)


def test_a_role_cannot_grow_beyond_its_writer_but_may_be_labelled() -> None:
    async def script(rig: Rig) -> None:
        await grant(rig, "ann", WRITES)
        await grant(rig, "bob", rule("get", "secrets"), namespace="default")
        assert (await ask(rig, "ann", "PATCH", f"{ROLES}/of-bob", {"metadata": {"labels": {"a": "b"}}}))[0] == 200
        assert (await ask(rig, "ann", "PATCH", f"{ROLES}/of-bob", {"rules": [rule("list", "secrets")]}))[0] == 403
        assert (await ask(rig, "ann", "PATCH", f"{ROLES}/of-bob", {"rules": []}))[0] == 200

    with_server(script)


def test_binding_a_role_needs_its_rules_or_the_right_to_bind_it() -> None:
    async def script(rig: Rig) -> None:
        await grant(rig, "ann", WRITES, rule("bind", "clusterroles", GROUP, "view"))
        for name, status in (("view", 201), ("edit", 403), ("cluster-admin", 403), ("nowhere", 404)):
            answer = await ask(rig, "ann", "POST", f"{BINDINGS}?dryRun=All", binding("ClusterRole", name))
            assert answer[0] == status, answer
        await bind(rig, "ann", "ClusterRole", "edit", namespace="default")
        assert (await ask(rig, "ann", "POST", BINDINGS, binding("ClusterRole", "edit")))[0] == 201

    with_server(script)


def test_only_those_who_have_everything_may_collect_roles() -> None:
    async def script(rig: Rig) -> None:
        await grant(rig, "ann", rule("*", "clusterroles", GROUP, ""))
        collecting = {"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {}}]}}
        # `escalate` is among the verbs of a star.
        assert (await ask(rig, "ann", "POST", f"/apis/{GROUP}/v1/clusterroles?dryRun=All", collecting))[0] == 201
        await grant(rig, "bob", rule("create", "clusterroles", GROUP))
        status, answer = await ask(rig, "bob", "POST", f"/apis/{GROUP}/v1/clusterroles", collecting)
        assert (status, "aggregationRule" in answer["message"]) == (403, True)

    with_server(script)


def test_pretending_is_granted_by_name_and_group() -> None:
    async def script(rig: Rig) -> None:
        token = await _token(rig, "default")
        who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        headers = {"Authorization": f"Bearer {token}"}

        async def pretend(**others: str) -> tuple[int, str]:
            status, answer, _ = await rig.send("POST", who, {}, **headers, **others)
            return status, answer["status"]["userInfo"]["username"] if status == 201 else answer["message"]

        assert await pretend() == (201, "system:serviceaccount:default:default")
        status, message = await pretend(**{"Impersonate-User": "ann"})
        assert status == 403
        assert message.startswith('users "ann" is forbidden: User "system:serviceaccount:default:default" cannot')
        rules = [rule("impersonate", "users", names="ann"), rule("impersonate", "groups", names="friends")]
        await grant(rig, "system:serviceaccount:default:default", *rules)
        assert await pretend(**{"Impersonate-User": "ann"}) == (201, "ann")
        assert await pretend(**{"Impersonate-User": "ann", "Impersonate-Group": "friends"}) == (201, "ann")
        for others in (
            {"Impersonate-User": "bob"},
            {"Impersonate-User": "ann", "Impersonate-Group": "system:masters"},
            {"Impersonate-User": "system:serviceaccount:kube-system:default"},
            {"Impersonate-User": "ann", "Impersonate-Uid": "1"},
            {"Impersonate-User": "ann", "Impersonate-Extra-Scopes": "x"},
        ):
            assert (await pretend(**others))[0] == 403, others
        assert (await pretend(**{"Impersonate-Group": "friends"}))[0] == 500

    with_server(script)


async def _token(rig: Rig, account: str) -> str:
    path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
    _, answer, _ = await rig.send("POST", path, {"spec": {}})
    return str(answer["status"]["token"])
