"""Which recordings to replay, on which cluster, and what came of it in words."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from hekla.api.kinds import Obj
from tests.parity.compare import Explanation, Verdict, judge
from tests.parity.replay import Case, record_all, recorded_cases, watch_cluster


def cases_like(*patterns: str) -> list[Case]:
    return [case for name, case in recorded_cases().items() if any(fnmatchcase(name, pattern) for pattern in patterns)]


def replay_on(kubeconfig: Path, kubectl: str, cases: list[Case], explanations: list[Explanation]) -> list[Verdict]:
    programs = {"kubectl": kubectl, "vcctl": str(Path(sys.executable).with_name("vcctl"))}

    def agrees(case: Case, found: Obj) -> bool:
        # With copies: what is asked on the way must not count as a use of an explanation.
        return not judge(case.name, case.recorded, found, [replace(one) for one in explanations]).unexplained

    async def replay() -> list[Verdict]:
        async with watch_cluster(kubeconfig, programs, agrees) as target:
            found = await record_all(target, cases, at_once=10)
        return [judge(case.name, case.recorded, found[case.name], explanations) for case in cases]

    return asyncio.run(replay())


def unexplained(verdicts: list[Verdict]) -> str:
    return "\n".join(str(verdict) for verdict in verdicts if verdict.unexplained)
