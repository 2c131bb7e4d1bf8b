"""Protobuf bodies become the JSON they stand for; damaged ones are refused, never worse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.apiserver.protobuf import PROTOBUF, decode_protobuf
from tests.apiserver.rig import Rig, with_server


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\0" + field(1, field(1, api_version.encode()) + field(2, kind.encode())) + field(2, raw)


CONFIG_MAP = envelope(
    "v1",
    "ConfigMap",
    field(1, field(1, b"a") + field(2, b"") + field(7, 0)) + field(2, field(1, b"k") + field(2, b"v")),
)


def test_fields_get_their_names_and_zero_values_go() -> None:
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    assert decode_protobuf(CONFIG_MAP) == wanted


def test_an_explicit_zero_of_an_optional_field_stays() -> None:
    deployment = envelope("apps/v1", "Deployment", field(2, field(1, 0) + field(7, 0)))
    assert decode_protobuf(deployment)["spec"] == {"replicas": 0}


def test_inlined_and_special_types() -> None:
    source = field(1, b"v") + field(2, field(19, field(1, field(1, b"settings")) + field(3, 420)))
    limits = field(1, field(1, b"cpu") + field(2, field(1, b"500m")))
    probe = field(1, field(2, field(2, field(1, 1) + field(3, b"http"))))
    container = field(1, b"c") + field(8, limits) + field(10, probe)
    pod = decode_protobuf(envelope("v1", "Pod", field(2, field(1, source) + field(2, container) + field(4, 2**64 - 1))))
    assert pod["spec"]["volumes"] == [{"name": "v", "configMap": {"name": "settings", "defaultMode": 420}}]
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}}
    assert pod["spec"]["containers"][0]["livenessProbe"] == {"httpGet": {"port": "http"}}
    assert pod["spec"]["terminationGracePeriodSeconds"] == -1


def test_a_server_reads_it() -> None:
    async def script(rig: Rig) -> None:
        path = "/api/v1/namespaces/default/configmaps"
        status, made, _ = await rig.send("POST", path, CONFIG_MAP, PROTOBUF)
        assert (status, made["data"]) == (201, {"k": "v"})
        assert (await rig.send("POST", path, CONFIG_MAP[:-3], PROTOBUF))[0] == 400
        assert (await rig.send("POST", path, b"{}", PROTOBUF))[0] == 400

    with_server(script)


@given(st.binary(max_size=60), st.sampled_from(["Pod", "ConfigMap", "Deployment", "Nothing"]))
def test_no_bytes_fail_in_an_unforeseen_way(raw: bytes, kind: str) -> None:
    try:
        decode_protobuf(envelope("apps/v1" if kind == "Deployment" else "v1", kind, raw))
    except ValueError:
        pass


def test_a_body_cut_anywhere_is_refused_or_read() -> None:
    for end in range(len(CONFIG_MAP)):
        try:
            decode_protobuf(CONFIG_MAP[:end])
        except ValueError:
            continue


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="Mystery"):
        decode_protobuf(envelope("v1", "Mystery", b""))
