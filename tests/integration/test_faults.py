"""Jobs in a world where connections fail, watches lie, nodes vanish and components die: whatever the seed, all comes
right. `python -m tests.integration.rehearsal 0 500` takes many more seeds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.integration.rehearsal import rehearse

SEEDS = 30


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_comes_right_after_any_trouble(seed: int) -> None:
    verdict = rehearse(seed)
    assert verdict.problems == (), f"{verdict.weather}, {verdict.roles}, {verdict.stories[-20:]}"


@pytest.mark.parametrize("seed", range(8))
def test_trouble_is_repeated_by_its_seed(seed: int) -> None:
    first, second = rehearse(seed), rehearse(seed)
    assert first == second
    assert first.commits > 50


def test_another_process_with_other_hashes_repeats_it_too() -> None:
    """The order of sets and the like must not decide anything."""
    program = "from tests.integration.rehearsal import rehearse; print(rehearse(2).trace)"
    traces = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1
