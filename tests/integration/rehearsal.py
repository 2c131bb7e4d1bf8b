"""One seed, from the first Job to the last word: trouble for a while, then half an hour of calm, then the verdict.

    python -m tests.integration.rehearsal 0 500

rehearses five hundred seeds and says which went wrong; a seed that did is repeated exactly by its number. With
--until-wrong the first one that does is the last.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hekla.api.kinds import PRIORITY_CLASS
from hekla.api.meta import uid_of
from hekla.scheduler.scheduler import SchedulerSettings
from tests.integration.faulty_world import FaultyWorld
from tests.integration.mischief import MENU
from tests.integration.roles import Role, cast, end_of, ends_of, enter, prepare, queue_of
from tests.integration.stage import perform

NODES = 2
_CALM_SECONDS = 1800.0
_SETTLED_SECONDS = 600.0
_EVICTING = Path(__file__).parent / "evicting-scheduler.conf"


@dataclass(frozen=True, slots=True)
class Verdict:
    seed: int
    weather: str
    roles: tuple[str, ...]
    problems: tuple[str, ...]
    stories: tuple[str, ...]
    commits: int
    trace: str


def rehearse(seed: int, *, to_the_end: bool = True) -> Verdict:
    """With the first problem as the end unless it is to go `to_the_end`: a fault may keep a world busy for long."""
    # On every other seed there is less room, and more depends on who gets it.
    cores = 3 if seed % 2 else 4
    world = FaultyWorld(seed, NODES, str(cores), settings=SchedulerSettings(conf=_EVICTING if seed % 3 == 0 else None))
    roles = cast(world.trouble.rng, NODES * cores)

    async def main() -> None:
        async with world:
            await (_perform(world, roles) if to_the_end else world.until_wrong(_perform(world, roles)))

    try:
        perform(main)
    except AssertionError as error:
        world.problems.append(str(error))
    trouble = world.trouble
    return Verdict(
        seed,
        trouble.weather.name,
        tuple(role.name for role in roles),
        tuple(world.problems),
        tuple(trouble.stories),
        world.commits,
        world.trace_hash(),
    )


async def _perform(world: FaultyWorld, roles: list[Role]) -> None:
    await world.client.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 1000})
    await prepare(world, roles)
    # 1. Trouble, and in the middle of it everybody plays.
    world.trouble.begin()
    for role in roles:
        world.see_to(enter(world, role))
    await _rage(world)
    # 2. Calm: what was broken is mended, what was begun is finished.
    world.trouble.end()
    await world.chores_done()
    calm = world.clock.monotonic()
    # 3. What comes late, such as the last of many restarts, may still be struck.
    await asyncio.sleep(60)
    world.trouble.hunting = False
    await world.chores_done()
    # 4. Everybody gets where they were going, and stays there.
    await asyncio.sleep(60)
    for role in roles:
        await world.until(lambda role=role: end_of(world, role) in ends_of(world, role), _expectation(world, role))
    await asyncio.sleep(max(60.0, calm + _CALM_SECONDS - world.clock.monotonic()))
    world.judge_at_rest()
    world.judge_quiet(calm + _SETTLED_SECONDS)
    world.problems += [problem for role in roles for problem in _odd_end(world, role)]


async def _rage(world: FaultyWorld) -> None:
    rng = world.trouble.rng
    end = world.clock.monotonic() + rng.uniform(5, 40)
    while world.clock.monotonic() < end:
        await asyncio.sleep(rng.uniform(0.01, 6.0))
        if world.trouble.weather.faults and rng.random() < 0.7:
            world.see_to(rng.choice(MENU)(world))


def _odd_end(world: FaultyWorld, role: Role) -> list[str]:
    """I5, I10: the outcome is one of those a world without trouble may have."""
    end, allowed = end_of(world, role), ends_of(world, role)
    if end not in allowed:
        return [f"I10: {role.name} ended {end}, not {sorted(allowed)}"]
    if queue_of(world, role) != "Open":
        return [f"I10: the queue of {role.name} is {queue_of(world, role)}"]
    used = (world.job(role.name).get("status") or {}).get("retryCount") or 0
    # An accident may end a Job earlier, unless it has but one end.
    certain = role.name not in world.touched or role.ends == role.touched
    if certain and role.retries is not None and end in role.ends and world.job(role.name) and used != role.retries:
        return [f"I7: {role.name} used {used} retries, not {role.retries}"]
    return list(_pods_made_too_often(world, role, used))


def _pods_made_too_often(world: FaultyWorld, role: Role, retries: int) -> Iterator[str]:
    """I7: where nobody else takes pods away, each is made once, and once more with each retry but the last.

    Nobody counts where Commands come in storms: those that find a restart under way kill again.
    """
    job = world.job(role.name)
    if not job or role.retries is None or role.name in world.touched or job["metadata"]["generation"] > 1:
        return
    attempts = min(1 + retries, max(int(job["spec"]["maxRetry"]), 1))
    for (uid, name), times in world.history.made.items():
        if uid == uid_of(job) and uid not in world.history.displaced and times > attempts:
            yield f"I7: {name} was made {times} times with {retries} retries"


def _expectation(world: FaultyWorld, role: Role) -> str:
    return f"I5: {role.name} ends {sorted(ends_of(world, role))}"


def main(first: int, last: int, *, until_wrong: bool = False) -> int:
    started, commits = time.monotonic(), 0
    weathers, played, wrong = Counter[str](), Counter[str](), []
    with ProcessPoolExecutor(initializer=_be_quiet) as processes:
        # One by one where the first that goes wrong is sought: what comes after it is not needed.
        rehearsing = partial(rehearse, to_the_end=not until_wrong)
        for verdict in processes.map(rehearsing, range(first, last), chunksize=1 if until_wrong else 5):
            commits += verdict.commits
            weathers[verdict.weather] += 1
            played.update(verdict.roles)
            if verdict.problems:
                wrong.append(verdict.seed)
                print(f"seed {verdict.seed} ({verdict.weather}; {', '.join(verdict.roles)}):", flush=True)
                print(*verdict.problems, sep="\n", flush=True)
            if verdict.problems and until_wrong:
                processes.shutdown(wait=False, cancel_futures=True)
                break
    print(f"{sum(weathers.values())} seeds, {len(wrong)} went wrong {wrong or ''}".rstrip())
    print(f"weather: {dict(weathers)}; jobs: {sum(played.values())}, {dict(played)}")
    print(f"{commits} commits judged in {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


def _be_quiet() -> None:
    """Reconciles fail all the time here; what matters is in the verdicts."""
    logging.getLogger("hekla").addHandler(logging.NullHandler())
    logging.getLogger("hekla").propagate = False
    # Most of what a rehearsal makes is gone when it is over: looking for it earlier costs a tenth of the time.
    gc.set_threshold(200_000, 20, 100)
    # What is there before the first seed is nobody's informer, and need not be looked through after each.
    gc.freeze()


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), int(sys.argv[2]), until_wrong="--until-wrong" in sys.argv[3:]))
