"""The argument grammar, as observed from Go's flag package."""

from __future__ import annotations

import pytest

from hekla.api.job_plugins import Flag, in_order, parse_arguments, registered

FLAGS = (Flag("master", "master"), Flag("port", 23456), Flag("wait", False), Flag("inject", True))
MAX = (1 << 63) - 1

TABLE: list[tuple[list[str], dict[str, object], bool]] = [
    ([], {}, False),
    (["--master=a", "-port=5"], {"master": "a", "port": 5}, False),
    (["--master", "a", "--port", "5"], {"master": "a", "port": 5}, False),
    (["--master a"], {}, True),
    (["--master = a"], {}, True),
    (["--master="], {"master": ""}, False),
    (["--master", "--port=5"], {"master": "--port=5"}, False),
    (["--master=a=b"], {"master": "a=b"}, False),
    (["--port=abc", "--master=a"], {"port": 0}, True),
    (["--master=a", "--port=abc"], {"master": "a", "port": 0}, True),
    (["--port=0x16"], {"port": 22}, False),
    (["--port=1_000"], {"port": 1000}, False),
    (["--port=022"], {"port": 18}, False),
    (["--port= 22"], {"port": 0}, True),
    (["--port=22.0"], {"port": 0}, True),
    (["--port="], {"port": 0}, True),
    (["--port"], {}, True),
    (["--port=99999999999999999999"], {"port": MAX}, True),
    (["--port=" + 5000 * "9"], {"port": MAX}, True),
    (["--port=-" + 5000 * "9"], {"port": -MAX - 1}, True),
    (["--port=0x" + 5000 * "0" + "1"], {"port": 1}, False),
    (["--port=9223372036854775807"], {"port": MAX}, False),
    (["--port=08"], {"port": 0}, True),
    (["--port=-0b11"], {"port": -3}, False),
    (["--port=0_7"], {"port": 7}, False),
    (["--port=1__0"], {"port": 0}, True),
    (["--master", "-h", "--port=3"], {"master": "-h", "port": 3}, False),
    (["--port=70000"], {"port": 70000}, False),
    (["--port=-1"], {"port": -1}, False),
    (["--wait"], {"wait": True}, False),
    (["--wait=T"], {"wait": True}, False),
    (["--wait=TRUE"], {"wait": True}, False),
    (["--wait=tRUE"], {}, True),
    (["--wait=yes", "--master=a"], {}, True),
    (["--wait", "false", "--master=a"], {"wait": True}, True),
    (["--inject=no"], {"inject": False}, True),
    (["--inject="], {"inject": False}, True),
    (["--nope", "--master=a"], {}, True),
    (["--master=a", "--nope", "--port=5"], {"master": "a"}, True),
    (["master=a", "--port=5"], {}, True),
    (["", "--port=5"], {}, True),
    (["-", "--port=5"], {}, True),
    (["--", "--port=5"], {}, True),
    (["---port=5"], {}, True),
    (["--=5"], {}, True),
    (["-h"], {}, True),
    (["--port=1", "--port=2"], {"port": 2}, False),
    (["--wait=true --master=a"], {}, True),
]


IDS = [" ".join(row[0])[:40] or "none" for row in TABLE]


@pytest.mark.parametrize(("arguments", "changed", "wrong"), TABLE, ids=IDS)
def test_arguments_are_read_as_go_reads_them(arguments: list[str], changed: dict[str, object], wrong: bool) -> None:
    parsed = parse_arguments(FLAGS, arguments)
    assert parsed.values == {"master": "master", "port": 23456, "wait": False, "inject": True, **changed}
    assert bool(parsed.problem) is wrong


def test_the_problem_says_what_it_is() -> None:
    assert parse_arguments(FLAGS, ["--nope"]).problem == "flag provided but not defined: -nope"
    assert parse_arguments(FLAGS, ["--port"]).problem == "flag needs an argument: -port"
    assert parse_arguments(FLAGS, ["--port=x"]).problem == 'invalid value "x" for flag -port: parse error'
    assert parse_arguments(FLAGS, ["--wait=x"]).problem == 'invalid boolean value "x" for -wait: parse error'


def test_our_own_plugins_come_in_by_the_same_door_as_others() -> None:
    assert {"env", "svc"} <= set(registered())


def test_q16_b33_plugins_act_in_a_fixed_order() -> None:
    assert in_order(["zebra", "svc", "hcclrank", "alpha", "env"]) == ["env", "svc", "hcclrank", "alpha", "zebra"]
