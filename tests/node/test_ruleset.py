"""Rules as nft reads them: real nft checks every text, what they mean is checked by hand."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from hekla.api.kinds import Obj
from hekla.node.ruleset import Network, clearing, rules_id, ruleset


def pod(name: str, address: str, *, namespace: str = "default", ports: Any = (), **labels: str) -> Obj:
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "c", "ports": list(ports)}]},
        "status": {"podIP": address, "conditions": ready},
    }


def policy(*ingress: Obj, namespace: str = "default", **spec: Any) -> Obj:
    chosen = {"podSelector": {"matchLabels": {"job": "a"}}, "policyTypes": ["Ingress"], **spec}
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": {**chosen, "ingress": list(ingress)}}


def service(address: str = "10.96.0.9", **spec: Any) -> Obj:
    ports = [{"port": 80, "targetPort": "web"}]
    return {
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"clusterIP": address, "selector": {"job": "a"}, "ports": ports, **spec},
    }


A1 = pod("a1", "10.77.0.2", job="a", ports=[{"name": "web", "containerPort": 8080}])
A2 = pod("a2", "10.77.0.3", job="a")
B1 = pod("b1", "10.77.0.4", job="b")
FAR = pod("far", "10.77.0.5", namespace="other", job="a")
PODS = (A1, A2, B1, FAR)


def rules(*policies: Obj, services: tuple[Obj, ...] = (), pods: tuple[Obj, ...] = PODS) -> str:
    namespaces = {"default": {"team": "red"}, "other": {"team": "blue"}}
    text = ruleset(Network(pods, services, policies, namespaces))
    separate = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    for _ in range(2):  # the second time something is there to be replaced
        done = subprocess.run(
            [*separate, "nft", "-f", "-"], input=text + clearing() + text, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"
    return text


def test_without_policies_and_addresses_there_are_no_rules() -> None:
    assert ruleset(Network(pods=PODS, services=(service("None"),))) == ""
    assert rules_id("") == ""


def test_a_jobs_pods_hear_each_other_and_nobody_else() -> None:
    text = rules(policy({"from": [{"podSelector": {"matchLabels": {"job": "a"}}}]}))
    assert "ip daddr vmap { 10.77.0.2 : jump policies-0, 10.77.0.3 : jump policies-0 }" in text
    assert "    ip saddr { 10.77.0.2, 10.77.0.3 } accept\n    drop\n" in text
    assert "10.77.0.4" not in text
    assert "10.77.0.5" not in text


def test_a_policy_without_rules_closes_its_pods() -> None:
    assert "chain policies-0 {\n    drop\n  }" in rules(policy())


def test_a_rule_without_sources_or_ports_is_open() -> None:
    assert "chain policies-0 {\n    accept\n    drop\n  }" in rules(policy({}))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"ports": [{"port": 22}]}, "tcp dport 22 accept"),
        ({"ports": [{"port": 1000, "endPort": 2000, "protocol": "UDP"}]}, "udp dport 1000-2000 accept"),
        ({"ports": [{"protocol": "TCP"}]}, "meta l4proto tcp accept"),
        ({"from": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]}, "ip saddr { 10.77.0.5 } accept"),
        ({"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"job": "b"}}}]}, "{ 10.77.0.4 } accept"),
        (
            {"from": [{"ipBlock": {"cidr": "10.0.0.1/8", "except": ["10.1.0.0/16"]}}]},
            "ip saddr 10.0.0.0/8 ip saddr != 10.1.0.0/16 accept",
        ),
        ({"from": [{"podSelector": {}}], "ports": [{"port": 1}]}, "10.77.0.4 } tcp dport 1 accept"),
    ],
)
def test_a_rule_lets_in_what_it_names(rule: Obj, expected: str) -> None:
    assert expected in rules(policy(rule))


def test_a_port_by_name_is_each_pods_own() -> None:
    text = rules(policy({"ports": [{"port": "web"}]}))
    assert text.count("tcp dport 8080 accept") == 1
    assert text.count("drop") == 2


def test_a_service_leads_to_its_ready_pods_that_have_the_port() -> None:
    text = rules(services=(service(),))
    assert "ip daddr 10.96.0.9 tcp dport 80 dnat ip to numgen random mod 1 map { 0 : 10.77.0.2 . 8080 }" in text


def test_a_service_remembers_its_clients_when_asked_to() -> None:
    ports = [{"port": 53, "protocol": "UDP"}]
    text = rules(services=(service(ports=ports, sessionAffinity="ClientIP"),))
    assert "udp dport 53 dnat ip to jhash ip saddr mod 2 map { 0 : 10.77.0.2 . 53, 1 : 10.77.0.3 . 53 }" in text
