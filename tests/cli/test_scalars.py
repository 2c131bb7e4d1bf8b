"""Scalars of YAML: what kubectl makes of each was asked of kubectl."""

from __future__ import annotations

import json

import pytest

from hekla.cli.scalars import read_scalar

KUBECTL = [
    ("22:22", '"22:22"'), ("190:20:30", '"190:20:30"'), ("1:2.5", '"1:2.5"'), ("-1:30", '"-1:30"'),
    ("y", "true"), ("N", "false"), ("on", "true"), ("OFF", "false"),
    ("tRUE", '"tRUE"'), ("nUll", '"nUll"'), ("~", "null"),
    ("1e3", "1000"), ("1E3", "1000"), ("+12e03", "12000"), ("1.5e3", "1500"), ("1.5", "1.5"),
    ("5.", "5"), ("-.5", "-0.5"),
    ("1.0", "1"), ("0888", "888"), ("08", "8"), ("012", "10"), ("0o17", "15"), ("0X1F", "31"), ("0b101", "5"),
    ("0b2", '"0b2"'),
    ("1_000", "1000"), ("0x1_F", "31"), ("-0x10", "-16"), ("0x", '"0x"'), ("1e", '"1e"'),
    ("1,000", '"1,000"'), ("=", '"="'),
    ("1e400", '"1e400"'), ("0xFFFFFFFFFFFFFFFFFF", '"0xFFFFFFFFFFFFFFFFFF"'), ("9" * 30, "1e+30"), ("1.2.3", '"1.2.3"'),
    ("2001-01-01", '"2001-01-01"'), ("<<", '"<<"'), (".", '"."'), ("-", '"-"'), ("_1", '"_1"'),
    ("inf", '"inf"'), ("", "null"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "read"), KUBECTL)
def test_without_quotes_it_is_read_as_by_kubectl(text: str, read: str) -> None:
    assert json.dumps(read_scalar(text, "", plain=True)) == read


@pytest.mark.parametrize(
    ("tag", "text", "read"),
    [
        ("!", "5", "5"),
        ("!own", "5", "5"),
        ("tag:yaml.org,2002:str", "5", "5"),
        ("tag:yaml.org,2002:int", "5", 5),
        ("tag:yaml.org,2002:bool", "y", True),
        ("tag:yaml.org,2002:null", "", None),
        ("tag:yaml.org,2002:float", "1.5", 1.5),
        ("tag:yaml.org,2002:binary", "aGVs bG8=", "hello"),
        ("tag:yaml.org,2002:timestamp", "2001-13-01", "2001-13-01"),
    ],
)
def test_a_tag_says_what_it_is(tag: str, text: str, read: object) -> None:
    assert read_scalar(text, tag, plain=False) == read


def test_in_quotes_everything_is_text() -> None:
    assert [read_scalar(text, "", plain=False) for text in ("5", "true", "", ".inf")] == ["5", "true", "", ".inf"]


def test_a_number_of_any_length_is_read_at_once() -> None:
    assert read_scalar("9" * 100_000, "", plain=True) == "9" * 100_000
    assert read_scalar("0x" + "f" * 100_000, "", plain=True) == "0x" + "f" * 100_000
