"""Many random clusters, decided by the scheduler and by the model:

python -m tests.scheduler.model 20000        # so many
python -m tests.scheduler.model 20000 7000   # beginning with this one
python -m tests.scheduler.model --show 4711  # one of them, as small as it can be made
"""

from __future__ import annotations

import argparse

import yaml

from tests.scheduler.model.comparing import differences, random_case
from tests.scheduler.model.reducing import reduce_world

_MOST_TOLD = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scheduler.model", description=__doc__)
    parser.add_argument("number", type=int, nargs="?", default=1000)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("--show", type=int, metavar="SEED")
    given = parser.parse_args()
    return compare_many(given.first, given.number) if given.show is None else show(given.show)


def compare_many(first: int, number: int) -> int:
    different, seed = 0, first - 1
    for seed in range(first, first + number):
        found = differences(*random_case(seed))
        different += bool(found)
        if found:
            print(f"seed {seed}: {found[0]}", flush=True)
        if different == _MOST_TOLD:
            break
    print(f"{seed + 1 - first} clusters, {different} decided otherwise than by the model")
    return 1 if different else 0


def show(seed: int) -> int:
    world, setting = random_case(seed)
    found = differences(world, setting)
    if found:
        reduce_world(world, setting)
        found = differences(world, setting)
    print(yaml.safe_dump([*world.objects.values()], sort_keys=False, default_flow_style=None, width=120))
    print(f"actions: {' '.join(setting.actions)}", *setting.tiers, *found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
