from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hekla.cli.drafts import Drafts
from hekla.cli.output import printable


def test_of_an_unfinished_line_the_newest_draft_is_kept() -> None:
    drafts = Drafts()
    assert drafts.take(b"begun\n\r 10%") == [b"begun"]
    assert drafts.shown == " 10%"
    assert drafts.take(b"\r 20%\r") == []
    assert drafts.rest == b" 20%\r"
    assert drafts.take(b"\r100%\nname? \xc3") == [b" 20%\r\r100%"]
    assert drafts.shown == "name? "
    assert drafts.take(b"\xbc") == []
    assert drafts.shown == "name? ü"


@given(st.lists(st.sampled_from([b"a", b"b\r", b"\r", b"\r\n", b"\n", b"\rc"])))
def test_however_it_comes_what_a_terminal_would_show_is_the_same(chunks: list[bytes]) -> None:
    drafts = Drafts()
    lines = [line for chunk in chunks for line in drafts.take(chunk)] + [drafts.rest]
    assert [printable(line.decode()) for line in lines] == [
        printable(line) for line in b"".join(chunks).decode().split("\n")
    ]
