"""What others wrote is shown as text, and does nothing to the terminal."""

from __future__ import annotations

import pytest

from hekla.cli.output import print_table, printable_lines

# As a pod may leave it in its termination message, from where it goes into its status and into Events.
EVIL = "evil \x1b[31mred\x1b[2J"


class Terminal:
    """Of what goes elsewhere click itself takes the colours away."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


def test_a_cell_of_a_table_is_one_line_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    print_table(["REASON", "MESSAGE"], [["Error", f"{EVIL}\nand more"]])
    assert terminal.text == "REASON   MESSAGE\nError    evil red and more\n"


def test_lines_stay_lines() -> None:
    assert printable_lines(f"first\n  {EVIL}\n") == "first\n  evil red\n"
