"""The recordings whose names match, on a cluster of one's own: `python -m tests.parity --kubeconfig FILE 'b-*'`.

Groups A to D and F want nodes whose pods only pretend to run (`hekla up --nodes 0 --simulated-nodes 3`), group E real
ones that are as mute as those that recorded (`--nodes 3 --node-events warnings`), both with `--node-cpu 32
--node-memory 128Gi --node-gpus 8`. What was found can be kept (`--out`) and compared again later (`--found`).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from hekla.api.kinds import Obj
from tests.parity.compare import Verdict, judge, read_explanations, unneeded
from tests.parity.replay import HERE, Case, record_all, recorded_cases, watch_cluster


def main() -> int:
    given = read_arguments()
    cases = [case for name, case in recorded_cases().items() if any(fnmatchcase(name, one) for one in given.patterns)]
    if given.found:
        kept = {case.name: given.found / f"{case.name}.yaml" for case in cases}
        found = {name: yaml.load(path.read_text(), yaml.CSafeLoader) for name, path in kept.items() if path.exists()}
    else:
        found = asyncio.run(replay(given, cases))
    explanations = read_explanations(HERE / "differences.yaml", given.cluster)
    verdicts = [judge(one.name, one.recorded, found[one.name], explanations) for one in cases if one.name in found]
    figures = Counter(show(verdict, explained=given.explained) for verdict in verdicts)
    for reason in unneeded(explanations):
        print(f"explains nothing here: {reason}")
    print(f"{len(verdicts)} cases: {dict(figures)}")
    return 1 if figures["unexplained"] else 0


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("patterns", nargs="+")
    parser.add_argument("--kubeconfig", type=Path, help="the cluster to try")
    parser.add_argument("--cluster", choices=("local", "real"), default="local", help="whose API server it is")
    parser.add_argument("--out", type=Path, help="folder to keep what was found in")
    parser.add_argument("--found", type=Path, help="compare what is kept there, without any cluster")
    parser.add_argument("--explained", action="store_true", help="show the explained differences, too")
    parser.add_argument("--kubectl", default="kubectl")
    parser.add_argument("--at-once", type=int, default=8)
    given = parser.parse_args()
    if not given.kubeconfig and not given.found:
        parser.error("--kubeconfig or --found is needed")
    return given


async def replay(given: argparse.Namespace, cases: list[Case]) -> dict[str, Obj]:
    programs = {"kubectl": given.kubectl, "vcctl": str(Path(sys.executable).with_name("vcctl"))}
    async with watch_cluster(given.kubeconfig, programs) as target:
        found = await record_all(target, cases, at_once=given.at_once)
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        for name, one in found.items():
            (given.out / f"{name}.yaml").write_text(yaml.dump(one, sort_keys=False, allow_unicode=True))
    return found


def show(verdict: Verdict, *, explained: bool) -> str:
    if verdict.unexplained:
        print(verdict)
    if explained and verdict.explained:
        print("\n  ".join([f"{verdict.case} (explained)", *map(str, verdict.explained)]))
    return "unexplained" if verdict.unexplained else "explained" if verdict.explained else "equal"


if __name__ == "__main__":
    sys.exit(main())
