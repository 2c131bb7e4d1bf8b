"""What `hekla install` gives a cluster."""

from __future__ import annotations

from typing import Any

from hekla.api.kinds import Obj
from hekla.api.meta import name_of
from hekla.local.manifests import access_manifests, component_manifests
from hekla.local.webhook_tls import WebhookTls


def template_of(certificate: bytes, component: str = "webhook") -> Any:
    objects = component_manifests("hekla:test", WebhookTls(b"authority", certificate, b"key"))
    (found,) = [obj for obj in objects if (obj["kind"], name_of(obj)) == ("Deployment", f"hekla-{component}")]
    return found["spec"]["template"]


def test_the_webhook_starts_anew_with_a_new_certificate_and_nothing_else_does() -> None:
    assert template_of(b"one") == template_of(b"one")
    assert template_of(b"one") != template_of(b"two")
    assert template_of(b"one", "scheduler") == template_of(b"two", "scheduler")


def test_only_who_asks_for_it_gets_what_a_node_needs() -> None:
    def about_nodes(objects: list[Obj]) -> list[str]:
        return [obj["kind"] for obj in objects if name_of(obj) in ("hekla-node", "hekla:node")]

    assert about_nodes(access_manifests()) == []
    assert about_nodes(access_manifests(with_node=True)) == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]


def test_who_may_lead_may_touch_its_own_lease_and_no_other() -> None:
    roles = [obj for obj in access_manifests() if obj["kind"] == "Role"]
    named = {name_of(role): [(rule["verbs"], rule.get("resourceNames")) for rule in role["rules"]] for role in roles}
    assert named == {
        "hekla-controllers-lease": [(["create"], None), (["get", "update"], ["vc-controller-manager"])],
        "hekla-scheduler-lease": [(["create"], None), (["get", "update"], ["volcano"])],
    }
    assert {rule["resources"][0] for role in roles for rule in role["rules"]} == {"leases"}
    assert {role["metadata"]["namespace"] for role in roles} == {"volcano-system"}
