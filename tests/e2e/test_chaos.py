"""A little chaos on every change; `python -m tests.e2e.chaos --kills 100` makes more of it."""

from __future__ import annotations

import pytest

from tests.e2e.chaos import rampage
from tests.eventually import LIMIT_SECONDS
from tests.node.rig import ACCOUNTS

pytestmark = pytest.mark.root


@pytest.mark.parametrize("account", ACCOUNTS)
def test_whatever_is_killed_nothing_runs_twice_and_nothing_is_left(account: str) -> None:
    report = rampage(kills=11, seed=16, account=account, patience=LIMIT_SECONDS)
    print(report)
    assert report.wrong == []
