"""The configuration file: upstream's is understood, every mistake is named, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from hekla.scheduler.config import ConfigError, default_config, parse_config, read_config
from hekla.scheduler.extension import GroupOrder, NodeScore


def test_the_built_in_configuration_is_upstreams() -> None:
    config = default_config()
    assert config.action_names == ("enqueue", "allocate", "backfill")
    assert [[entry.name for entry in tier] for tier in config.tiers] == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder"],
    ]


def test_switches_turn_single_points_off() -> None:
    text = "actions: allocate\ntiers:\n- plugins:\n  - {name: drf, enableJobOrder: false, enablePreemptable: false}\n"
    off = parse_config(text).tiers[0][0].off
    assert GroupOrder.switch in off
    assert NodeScore.switch not in off


def test_arguments_are_typed_and_defaults_filled_in() -> None:
    text = """
actions: allocate
tiers:
- plugins:
  - name: binpack
    arguments: {binpack.weight: 10, binpack.resources: nvidia.com/gpu, binpack.resources.nvidia.com/gpu: 5}
  - name: predicates
    arguments: {predicate.NodePortsEnable: "false"}
"""
    binpack, predicates = parse_config(text).tiers[0]
    assert binpack.arguments["binpack.weight"] == 10.0
    assert binpack.arguments["binpack.cpu"] == 1.0
    assert binpack.arguments["binpack.resources.nvidia.com/gpu"] == 5.0
    assert predicates.arguments["predicate.NodePortsEnable"] is False


def test_all_mistakes_are_reported_at_once_with_their_places() -> None:
    text = """
actions: "enqueue, alocate, shuffle"
tier: []
tiers:
- plugins:
  - name: gang
    enableJobReadyy: true
  - name: nodeorder
    arguments: {leastrequested.weight: much, typo: 1}
  - name: tdm
  - name: nonsense
"""
    with pytest.raises(ConfigError) as raised:
        parse_config(text, source="my.conf")
    problems = "\n".join(raised.value.problems)
    for expected in (
        "tier: unknown field",
        "no action named 'alocate'",
        "action 'shuffle' is not supported yet",
        "tiers[0].plugins[0].enableJobReadyy: unknown field",
        "tiers[0].plugins[1].arguments.leastrequested.weight: must be a whole number, not 'much'",
        "tiers[0].plugins[1].arguments.typo: unknown argument",
        "plugin 'tdm' is not supported yet",
        "no plugin named 'nonsense'",
    ):
        assert expected in problems
    assert str(raised.value).startswith("my.conf: ")


def test_what_orders_queues_in_two_ways_may_not_share_a_tier() -> None:
    text = "actions: allocate\ntiers:\n- plugins: [{name: drf, enableHierarchy: true}, {name: proportion}]\n"
    with pytest.raises(ConfigError, match="proportion and drf with enableHierarchy may not share a tier"):
        parse_config(text)


@pytest.mark.parametrize(
    ("part", "name"),
    [("action", name) for name in ("shuffle", "gangpreempt", "gangreclaim")]
    + [
        ("plugin", name)
        for name in (
            "tdm", "numa-aware", "usage", "extender", "rescheduling", "network-topology-aware",
        )
    ],
)  # fmt: skip
def test_what_comes_later_is_named_as_such(part: str, name: str) -> None:
    actions, plugin = (f"allocate, {name}", "gang") if part == "action" else ("allocate", name)
    with pytest.raises(ConfigError, match=f"{part} '{name}' is not supported yet"):
        parse_config(f'actions: "{actions}"\ntiers: [{{plugins: [{{name: {plugin}}}]}}]')


GANG = "tiers: [{plugins: [{name: gang}]}]"


@pytest.mark.parametrize("name", ["shuffle", "gangpreempt", "gangreclaim"])
def test_what_comes_later_is_named_as_such_where_it_is_given_arguments(name: str) -> None:
    entry = f"{{name: {name}, arguments: {{maxDomains: 8}}}}"
    with pytest.raises(ConfigError, match=rf"configurations\[0\]: action '{name}' is not supported yet"):
        parse_config(f"actions: allocate\n{GANG}\nconfigurations: [{entry}]")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"actions: ' , '\n{GANG}", "actions: names none"),
        (f"actions: allocate\nactions: enqueue\n{GANG}", "line 2: actions is given twice"),
        ("actions: allocate\ntiers: [{plugins: [{name: gang, name: drf}]}]", "line 2: name is given twice"),
        (f"actions: allocate\n{GANG}\nconfigurations: [{{name: preempt, arguments: 5}}]", "must be a mapping"),
        (f"actions: allocate\n{GANG}\nconfigurations: [{{name: allocate, argument: {{}}}}]", "argument: unknown field"),
        (f"actions: allocate\n{GANG}\nconfigurations: [allocate]", "`name` must be an action"),
        (f"actions: 2001-13-13\n{GANG}", "not YAML: month must be in 1..12"),
        (f"actions: !!bool maybe\n{GANG}", "not YAML: a value is not what its tag says"),
        (f"actions: !!timestamp soon\n{GANG}", "not YAML: a value is not what its tag says"),
        (f"actions: allocate\n{GANG}\nconfigurations: [{{name: [allocate]}}]", "`name` must be an action"),
        ("actions: " + "[" * 5000, "too deeply nested"),
        ("actions: allocate\ntiers: &a [*a]", "tiers[0]: must have a list `plugins`"),
        *(
            (
                f"actions: allocate\ntiers: [{{plugins: [{{name: {plugin}, arguments: {{{name}: {value}}}}}]}}]",
                f"arguments.{name}: {problem}",
            )
            for plugin, name, value, problem in (
                ("overcommit", "overcommit-factor", ".nan", "nan is no number to reckon with"),
                ("overcommit", "overcommit-factor", "-.inf", "-inf is no number to reckon with"),
                ("overcommit", "overcommit-factor", "'1.2'", "must be a number, not '1.2'"),
                ("overcommit", "overcommit-factor", "true", "must be a number, not True"),
                ("binpack", "binpack.resources.nvidia.com/gpu", ".nan", "nan is no number"),
                ("binpack", "binpack.weight", "1" + "0" * 400, "must be a number, not 1000"),
                ("nodeorder", "leastrequested.weight", "1" + "0" * 40, "1000"),
                ("nodeorder", "leastrequested.weight", "1.5", "must be a whole number, not 1.5"),
                ("nodegroup", "strict", "maybe", "must be true or false, not 'maybe'"),
                ("sla", "sla-waiting-time", "soon", ""),
                ("sla", "sla-waiting-time", "5", "must be text, not 5"),
                ("gang", "1", "2", "unknown argument (known: none)"),
            )
        ),
    ],
)  # fmt: skip
def test_each_mistake_is_told_in_a_sentence(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(text)
    assert problem in str(raised.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "conf").write_bytes(b"actions: \xff\xfe")
    with pytest.raises(ConfigError, match="conf: not text in UTF-8"):
        read_config(tmp_path / "conf")


@pytest.mark.parametrize("text", ["", "[]", "actions: [allocate]", "actions: allocate\ntiers: 3", "{", "tiers: [3]"])
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_config(text)


def test_every_argument_of_upstreams_files_is_known() -> None:
    text = """
actions: allocate
tiers:
- plugins:
  - name: predicates
    arguments:
      volumebinding.weight: 2
      volumebinding.shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]
      predicate.DynamicResourceAllocationEnable: true
      dynamicresources.filterTimeoutSeconds: 5
  - name: capacity
    arguments: {capacity.DynamicResourceAllocationEnable: false}
"""
    assert len(parse_config(text).tiers[0]) == 2
    with pytest.raises(
        ConfigError, match=r"capacity\.DynamicResourceAllocationEnable: resource claims are not supported"
    ):
        parse_config(text.replace("AllocationEnable: false", "AllocationEnable: true"))
