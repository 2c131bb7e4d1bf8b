from __future__ import annotations

import click
import pytest

from hekla.cli.named import chosen_name, for_each_named


@pytest.mark.parametrize(("program", "chosen"), [("hekla", "word"), ("vcctl", "flag")])
def test_under_upstreams_name_the_flag_counts_and_not_the_word(program: str, chosen: str) -> None:
    deleted: list[str] = []
    with click.Context(click.Command("x"), info_name=program):
        assert chosen_name("word", "flag", "no name") == chosen
        assert chosen_name("word", "", "no name") == "word"
        for_each_named(["word"], "flag", "no name", deleted.append)
    assert deleted == [chosen]
