from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.api.kinds import Obj
from hekla.node.hooks.env import build_env, expand
from hekla.node.hooks.sources import MissingSource, Sources, references

_POD: Obj = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "web"}, "annotations": {"a/b": "c"}},
    "spec": {"containers": []},
}
_SOURCES = Sources(
    "ns",
    {
        ("configmap", "cm"): {"data": {"one": "1", "two": "2"}},
        ("secret", "s"): {"data": {"token": "aHVzaA=="}},
    },
)


def env_of(container: Obj) -> dict[str, str]:
    facts: dict[str, Any] = {"node": "n1", "address": "10.0.0.2", "allocatable": {"cpu": "4", "memory": "8Gi"}}
    return build_env(_POD, {"name": "main", **container}, _SOURCES, base={"BASE": "b"}, **facts)


def test_later_definitions_win_and_may_use_earlier_ones() -> None:
    container = {
        "envFrom": [{"configMapRef": {"name": "cm"}}, {"prefix": "S_", "secretRef": {"name": "s"}}],
        "env": [{"name": "two", "value": "$(one)$(one)"}, {"name": "four", "value": "$(two)!$(BASE)"}],
    }
    assert env_of(container) == {"BASE": "b", "one": "1", "S_token": "hush", "two": "11", "four": "11!b"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.labels['app']", "web"),
        ("metadata.annotations['a/b']", "c"),
        ("spec.nodeName", "n1"),
        ("status.podIP", "10.0.0.2"),
        ("spec.serviceAccountName", "default"),
    ],
)
def test_fields_of_the_pod_are_known(path: str, value: str) -> None:
    assert env_of({"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]})["X"] == value


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "requests.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "8192"),
    ],
)
def test_resources_are_rounded_up_to_their_divisor(reference: Obj, value: str) -> None:
    container = {
        "resources": {"limits": {"cpu": "1500m"}, "requests": {"cpu": "1500m"}},
        "env": [{"name": "X", "valueFrom": {"resourceFieldRef": reference}}],
    }
    assert env_of(container)["X"] == value


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "no", "key": "k"}}, 'configmap "no" not found'),
        ({"configMapKeyRef": {"name": "cm", "key": "k"}}, "couldn't find key k in ConfigMap ns/cm"),
        ({"secretKeyRef": {"name": "s", "key": "k"}}, "couldn't find key k in Secret ns/s"),
    ],
)
def test_what_is_missing_is_named(source: Obj, message: str) -> None:
    with pytest.raises(MissingSource, match=message):
        env_of({"env": [{"name": "X", "valueFrom": source}]})


def test_what_is_optional_may_be_missing() -> None:
    optional = {"configMapKeyRef": {"name": "no", "key": "k", "optional": True}}
    assert env_of({"env": [{"name": "X", "valueFrom": optional}]}) == {"BASE": "b"}
    assert env_of({"envFrom": [{"secretRef": {"name": "no", "optional": True}}]}) == {"BASE": "b"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("$(A)", "x"), ("$$(A)", "$(A)"), ("$(NO)", "$(NO)"), ("$A ${A}", "$A ${A}"), ("$$$(A)", "$x"), ("a$", "a$")],
)
def test_only_known_references_are_expanded(text: str, expected: str) -> None:
    assert expand(text, {"A": "x"}) == expected


@given(st.text(alphabet="ab()[] \n", max_size=30))
def test_text_without_a_dollar_is_never_changed(text: str) -> None:
    assert expand(text, {"a": "b"}) == text


def test_every_mentioned_source_is_fetched_once() -> None:
    containers = [
        {"name": "a", "envFrom": [{"configMapRef": {"name": "x"}}]},
        {"name": "b", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "y", "key": "k"}}}]},
    ]
    volumes = [
        {"name": "v", "configMap": {"name": "x"}},
        {"name": "w", "projected": {"sources": [{"secret": {"name": "z"}}]}},
    ]
    pod = {"spec": {"containers": containers, "volumes": volumes}}
    assert references(pod) == [("configmap", "x"), ("secret", "y"), ("secret", "z")]
