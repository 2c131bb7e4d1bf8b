"""The recordings whose names match, on a cluster of one's own: `python -m tests.parity --kubeconfig FILE 'b-*'`.

Groups A to D and F want nodes whose pods only pretend to run (`hekla up --nodes 0 --simulated-nodes 3`), group E real
ones (`--nodes 3`), both with `--node-cpu 32 --node-memory 128Gi --node-gpus 8`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

from tests.parity.compare import judge, read_explanations
from tests.parity.replay import HERE, record_all, recorded_cases, watch_cluster


async def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("patterns", nargs="+")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--kubectl", default="kubectl")
    parser.add_argument("--at-once", type=int, default=8)
    given = parser.parse_args()
    cases = [case for name, case in recorded_cases().items() if any(fnmatchcase(name, one) for one in given.patterns)]
    programs = {"kubectl": given.kubectl, "vcctl": str(Path(sys.executable).with_name("vcctl"))}
    async with watch_cluster(given.kubeconfig, programs) as target:
        found = await record_all(target, cases, at_once=given.at_once)
    explanations = read_explanations(HERE / "differences.yaml")
    verdicts = [judge(case.name, case.recorded, found[case.name], explanations) for case in cases]
    figures: Counter[str] = Counter()
    for verdict in verdicts:
        figures["unexplained" if verdict.unexplained else "explained" if verdict.explained else "equal"] += 1
        if verdict.unexplained:
            print(verdict)
    print(f"{len(cases)} cases: {dict(figures)}")
    return 1 if figures["unexplained"] else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
