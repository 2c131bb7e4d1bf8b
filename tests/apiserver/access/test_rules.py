"""Rules against a plain model: what one allows, and what some leave uncovered of another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hekla.apiserver.access.attributes import Attributes
from hekla.apiserver.access.rules import Rule, compact, uncovered

VERBS, GROUPS, RESOURCES, NAMES = (
    ("get", "list"),
    ("", "batch"),
    ("pods", "jobs", "pods/log", "jobs/log"),
    ("", "a", "b"),
)


def some(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True).map(tuple)


rules = st.builds(
    Rule,
    verbs=some(*VERBS, "*"),
    groups=some(*GROUPS, "*"),
    resources=some(*RESOURCES, "*", "*/log"),
    names=st.one_of(st.just(()), some("a", "b")),
)


def everything() -> list[Attributes]:
    return [
        Attributes(verb, group, resource.partition("/")[0], resource.partition("/")[2], "", name)
        for verb in (*VERBS, "other")
        for group in (*GROUPS, "other")
        for resource in (*RESOURCES, "other")
        for name in (*NAMES, "c")
    ]


@given(st.lists(rules, max_size=3), rules)
def test_whoever_covers_a_rule_may_do_all_that_it_allows(held: list[Rule], wanted: Rule) -> None:
    if uncovered([wanted], held):
        return
    for each in everything():
        assert not wanted.allows(each) or any(own.allows(each) for own in held), each


@given(rules, st.lists(rules, max_size=2))
def test_holding_a_rule_covers_it(wanted: Rule, others: list[Rule]) -> None:
    assert uncovered([wanted], [*others, wanted]) == []


@given(st.lists(rules, max_size=4))
def test_fewer_rules_allow_the_same(given_rules: list[Rule]) -> None:
    fewer = compact(given_rules)
    for each in everything():
        assert any(rule.allows(each) for rule in fewer) == any(rule.allows(each) for rule in given_rules)
