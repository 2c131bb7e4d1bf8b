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


MESSAGE = "Successfully assigned default/hello-gang-worker-0 to local"


def shown(monkeypatch: pytest.MonkeyPatch, columns: int, row: list[str]) -> str:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table(["REASON", "MESSAGE"], [row], breaks_last=True)
    return terminal.text


def test_a_message_wider_than_the_terminal_goes_on_below_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "REASON     MESSAGE\nScheduled  Successfully assigned\n           default/hello-gang-worker-0 to local\n"
    assert shown(monkeypatch, 48, ["Scheduled", MESSAGE]) == told


def test_where_there_is_no_room_for_it_beside_the_rest_it_is_below_that(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "REASON     MESSAGE\nScheduled\n    Successfully assigned\n    default/hello-gang-worker-0 to local\n"
    assert shown(monkeypatch, 40, ["Scheduled", MESSAGE]) == told


def test_columns_move_together_before_a_table_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 80, ["Scheduled", "to local"]) == "REASON      MESSAGE\nScheduled   to local\n"
    assert shown(monkeypatch, 19, ["Scheduled", "to local"]) == "REASON     MESSAGE\nScheduled  to local\n"


def test_a_file_is_as_wide_as_it_has_to_be(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_table(["REASON", "MESSAGE"], [["Scheduled", MESSAGE]], breaks_last=True)
    assert capsys.readouterr().out == f"REASON      MESSAGE\nScheduled   {MESSAGE}\n"


def test_lines_stay_lines() -> None:
    assert printable_lines(f"first\n  {EVIL}\n") == "first\n  evil red\n"
