"""Made-up days, and the words of cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from hekla.cli.plugin_cases import read_cases
from hekla.scheduler.config import DEFAULT_CONFIG
from hekla.scheduler.trial.trace import run_day
from hekla.scheduler.trial.within import as_document, with_plugin, without_plugin

EVERY_OTHER_NODE = """
import numpy as np
from hekla.api.reasons import Reason
from hekla.scheduler.extension import NodeFilter, SchedulerPlugin
from hekla.scheduler.fit import Refusal


class Narrow(SchedulerPlugin, NodeFilter):
    def refusals(self, of):
        odd = np.arange(len(self.session.snapshot.nodes.rows)) % 2 == 1
        return [Refusal("node(s) are odd", Reason.NO_NODE_MATCHES, odd)]
"""


@pytest.mark.parametrize("seed", range(3))
def test_the_same_jobs_come_whatever_becomes_of_them(seed: int, tmp_path: Path) -> None:
    file = tmp_path / "narrow.py"
    file.write_text(EVERY_OTHER_NODE)
    base = as_document(DEFAULT_CONFIG, "default")
    narrow, wide = (
        run_day(config, seed, float) for config in (with_plugin(base, file, {}), without_plugin(base, file))
    )
    assert len(narrow.nodes) < len(wide.nodes)
    assert narrow.pods == wide.pods


# Scenarios have a word more, which is for their own test.
CASES = [path for path in sorted((Path(__file__).parent / "cases").glob("*.yaml")) if path.stem != "scenarios"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_word_of_our_own_cases_says_something(path: Path) -> None:
    assert read_cases(path, of_job_plugin=False)
