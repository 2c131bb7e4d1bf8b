from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.api.selector import InvalidSelector, label_selector_from, parse_field_selector, parse_label_selector

LABELS = {"app": "web", "tier": "front", "size": "7"}


@pytest.mark.parametrize(
    "text",
    ["", "app=web", "app==web", "app!=db", "app in (web,db)", "tier notin (back)", "app", "!gone", "size>5", "size<9",
     "app=web,tier=front", "app in (web) , !gone", "gone!=x", "gone notin (a)"],
)  # fmt: skip
def test_a_selector_matches(text: str) -> None:
    assert parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text", ["app=db", "gone", "!app", "app notin (web)", "size>7", "app=web,tier=back", "gone>1", "app="]
)
def test_a_selector_does_not_match(text: str) -> None:
    assert not parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize("text", ["a in (b", "!", "a,,b", "a=b=c", "a" * 70, "a>x", ",", "a in b", "-a=b", "a=b c"])
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidSelector):
        parse_label_selector(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in ((b)", "unable to parse requirement: found '(', expected: ',', ')' or identifier"),
        ("/a", 'unable to parse requirement: <nil>: Invalid value: "/a": prefix part must be non-empty'),
        ("a=" + "x" * 64, f'values[0][a]: Invalid value: "{"x" * 64}": must be no more than 63 bytes'),
        ("a>x", """values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer"""),
    ],
)
def test_the_words_are_those_of_the_real_server(text: str, words: str) -> None:
    with pytest.raises(InvalidSelector) as refused:
        parse_label_selector(text)
    assert words in str(refused.value)


def test_a_backslash_makes_separators_part_of_a_field_s_value() -> None:
    assert parse_field_selector(r"metadata.name=a\,b\=c\\,x!=y") == (
        ("metadata.name", True, "a,b=c\\"),
        ("x", False, "y"),
    )
    for text, words in (("a=b=c", "unescaped character in value: 61"), (r"a=\b", r"invalid escape sequence: \b")):
        with pytest.raises(InvalidSelector) as refused:
            parse_field_selector(text)
        assert words in str(refused.value)


@pytest.mark.parametrize("text", ["a==", "a in ()", "a>5", "a in (b,,c)", "in in (in)", "! a"])
def test_odd_but_valid_text_is_taken(text: str) -> None:
    parse_label_selector(text)


def test_the_object_form_means_the_same_as_the_text_form() -> None:
    selector = label_selector_from(
        {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}]}
    )
    assert selector is not None
    assert selector.matches(LABELS)
    assert not selector.matches({"app": "web"})


def test_an_absent_selector_is_not_an_empty_one() -> None:
    assert label_selector_from(None) is None
    empty = label_selector_from({})
    assert empty is not None
    assert empty.matches(LABELS)


def test_field_selectors_give_field_sense_and_value() -> None:
    assert parse_field_selector("metadata.name=a,status.phase!=Failed") == (
        ("metadata.name", True, "a"),
        ("status.phase", False, "Failed"),
    )


@given(st.text(max_size=40))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        parse_label_selector(text).matches(LABELS)
    except InvalidSelector:
        pass
