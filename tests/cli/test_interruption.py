"""What the answer to "detach or cancel?" means."""

from __future__ import annotations

import pytest

from hekla.cli.interruption import Answer, read_answer


@pytest.mark.parametrize("line", ["", "\n", "  \n", "d\n", "D", "detach\n", " det \n"])
def test_enter_alone_does_what_loses_nothing(line: str) -> None:
    assert read_answer(line) is Answer.DETACH


@pytest.mark.parametrize("line", ["c\n", "C", "cancel\n", " Can \n"])
def test_to_cancel_it_has_to_be_said(line: str) -> None:
    assert read_answer(line) is Answer.CANCEL


@pytest.mark.parametrize("line", ["n\n", "y\n", "x", "dc\n", "cd", "cancelled", "no, detach"])
def test_anything_else_is_no_answer(line: str) -> None:
    assert read_answer(line) is None
