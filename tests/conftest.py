"""What holds for every run: properties are not timed, and its end says as whom pods were run, and what this machine did
not allow to be tried."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings

NOT_POSSIBLE = "not possible here"

# How long an example takes says more of the machine than of the property.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    from tests.node.rig import ACCOUNTS

    passed, skipped = (terminalreporter.getreports(kind) for kind in ("passed", "skipped"))
    if not any("tests/node/" in report.nodeid or "tests/e2e/" in report.nodeid for report in [*passed, *skipped]):
        return
    missing = Counter(_reason(report) for report in skipped)
    missing.update(str(value) for report in passed for key, value in report.user_properties if key == NOT_POSSIBLE)
    terminalreporter.write_line(f"pods ran as {' and as '.join(ACCOUNTS)}; not possible here: {missing.total()}")
    for reason, count in sorted(missing.items()):
        terminalreporter.write_line(f"  {count} × {reason}")


def _reason(report: pytest.TestReport) -> str:
    return str(report.longrepr[2]).removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else report.nodeid
