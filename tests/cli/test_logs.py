"""What somebody hears who follows the logs of a job, beside the logs."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.cli.logs import _LogsOnly
from tests import make

RUNNING = {"metadata": {"name": "j-t-0"}, "status": {"containerStatuses": [make.container_status("Running")]}}
WAITING = {"metadata": {"name": "j-t-0"}, "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("pods", "said"), [([], "warning: Old: x\n"), ([WAITING], "warning: Old: x\n"), ([RUNNING], "")]
)
def test_warnings_are_passed_on_as_long_as_no_container_has_begun(
    pods: list[dict[str, Any]], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Warnings come with their history: what a job that runs was warned of once is over."""
    display, job = _LogsOnly(), make.job("j", make.task("t"))
    display.warned("Old", "x")
    assert capsys.readouterr().err == ""
    display.changed(job, None, pods)
    display.changed(job, None, pods)
    assert capsys.readouterr().err == said
    display.warned("New", "y")
    assert capsys.readouterr().err == said.replace("Old: x", "New: y")
