"""The schema for older clients is there whatever people write into their definitions."""

from __future__ import annotations

from hekla.apiserver.openapi_protobuf import encode_document


def test_nulls_say_nothing_and_whole_numbers_may_be_written_as_fractions() -> None:
    odd = {"type": "string", "description": None, "format": None, "maximum": None, "maxLength": 10.0, "x-a": None}
    plain = {"type": "string", "maxLength": 10}
    assert encode_document({"definitions": {"a": odd}}) == encode_document({"definitions": {"a": plain}})
