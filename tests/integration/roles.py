"""The Jobs of a rehearsal, what their users do meanwhile, and the ends they may come to.

Faults of machines and connections never change an end. An accident of a pod (it fails, somebody deletes it) may: then
the ends of `touched` hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hekla.api.kinds import COMMAND, JOB, POD_GROUP, QUEUE, SECRET, Obj
from hekla.api.meta import controller_of, is_owned_by
from hekla.errors import AlreadyExists, Conflict, NotFound
from tests import make
from tests.integration.faulty_world import FaultyWorld
from tests.integration.history import SOMEBODYS

Play = Callable[[FaultyWorld, "Role"], Awaitable[None]]

ENDLESS = 1_000_000
GONE = "gone"
_COMPLETED, _FAILED, _RUNNING = frozenset({"Completed"}), frozenset({"Failed"}), frozenset({"Running"})
# A gang that has lost a member and has no policy for it may wait for ever, as upstream's does.
_MAYBE = frozenset({"Completed", "Failed", "Running", "Pending"})
_AT_WORK = ("Pending", "Running")
_SOME_SECONDS = 12.0


@dataclass(frozen=True, slots=True)
class Role:
    """`room` is what it needs for ever, in cores; `retries` what it must have used in the end, if that is certain.

    `late` are ends that hold as well where a clock was wrong: what was written with it may be an hour ahead.
    """

    name: str
    job: Obj
    ends: frozenset[str]
    touched: frozenset[str]
    play: Play | None = None
    room: int = 0
    retries: int | None = None
    late: frozenset[str] = frozenset()


def job(name: str, replicas: int = 3, *, seconds: float = 10, exit_code: int = 0, **spec: Any) -> Obj:
    return new_job(name, [task("main", replicas, seconds, exit_code)], **{"minAvailable": replicas, **spec})


def new_job(name: str, tasks: Sequence[Obj], **spec: Any) -> Obj:
    made = make.new_job(name, *tasks, **{"plugins": {"env": [], "svc": []}, **spec})
    made["apiVersion"], made["kind"] = JOB.api_version, JOB.kind
    return made


def task(name: str, replicas: int, seconds: float, exit_code: int = 0, cpu: str = "1", **fields: Any) -> Obj:
    annotations = {"hekla.dev/simulated-seconds": str(seconds), "hekla.dev/simulated-exit-code": str(exit_code)}
    container = make.container(command=["x"], resources=make.resources(cpu))
    template = {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"name": name, "replicas": replicas, "template": template, **fields}


async def _stop(world: FaultyWorld, role: Role) -> None:
    await _command(world, role, "TerminateJob")


async def _restart(world: FaultyWorld, role: Role) -> None:
    await _command(world, role, "RestartJob")


async def _suspend_and_resume(world: FaultyWorld, role: Role) -> None:
    """A storm: nobody waits for what was asked for before."""
    for _ in range(world.trouble.rng.randint(1, 4)):
        for action in ("AbortJob", "ResumeJob"):
            await _command(world, role, action)
            await asyncio.sleep(world.trouble.rng.choice((0.0, 0.01, 0.5, 3.0)))


async def _delete(world: FaultyWorld, role: Role) -> None:
    with contextlib.suppress(NotFound):
        propagation = world.trouble.rng.choice(("", "Foreground", "Background"))
        await world.client.delete(JOB, role.name, "default", propagation=propagation)


async def _leave_at_last(world: FaultyWorld, role: Role) -> None:
    """When nobody is started again any more, and would find what was left undone."""
    await world.trouble.over.wait()
    await asyncio.sleep(30)
    await _delete(world, role)


async def _make_again(world: FaultyWorld, role: Role) -> None:
    for _ in range(world.trouble.rng.randint(1, 3)):
        await _delete(world, role)
        await world.until(lambda: not world.job(role.name), f"{role.name} is gone")
        await world.client.create(JOB, role.job)
        await asyncio.sleep(world.trouble.rng.choice((0.0, 0.05, 1.0, 5.0)))


async def _scale(world: FaultyWorld, role: Role) -> None:
    for replicas in (world.trouble.rng.randint(0, 3), 2):
        await _change_replicas(world, role.name, replicas)
        await asyncio.sleep(world.trouble.rng.uniform(0, 5))


async def _close_and_open(world: FaultyWorld, role: Role) -> None:
    """The queue's parent is closed and opened, and the queue with it."""
    for action in ("CloseQueue", "OpenQueue") * world.trouble.rng.randint(1, 2):
        queue = await world.client.get(QUEUE, "upper")
        await world.client.create(COMMAND, make.command(action, queue, "Queue"))
        await asyncio.sleep(world.trouble.rng.choice((0.01, 1.0, 5.0)))


async def _replace_queue(world: FaultyWorld, role: Role) -> None:
    """The queue is closed, deleted and made again before the Job comes."""
    queue = await world.client.get(QUEUE, "brief")
    await world.client.create(COMMAND, make.command("CloseQueue", queue, "Queue"))
    await world.until(lambda: _queue_state(world, "brief") == "Closed", "brief is closed")
    await world.client.delete(QUEUE, "brief")
    await world.until(lambda: world.store.object(QUEUE, "brief") is None, "brief is gone")
    await _open_queue(world, "brief")
    await world.client.create(JOB, role.job)


async def _give_way(world: FaultyWorld, role: Role) -> None:
    """Somebody else's Secret has the name the Job needs; until they remove it, the Job waits."""
    await asyncio.sleep(world.trouble.rng.uniform(0, _SOME_SECONDS))
    await world.client.delete(SECRET, f"{role.name}-ssh", "default")


async def _leave_the_name(world: FaultyWorld, role: Role) -> None:
    """Another Job has a pod of the name that the Job's pod needs; until it goes, the Job waits."""
    await asyncio.sleep(world.trouble.rng.uniform(0, _SOME_SECONDS))
    await world.client.delete(JOB, "same-name", "default")


async def _wait_outside(world: FaultyWorld, role: Role) -> None:
    """A gang waits for room in its queue; the queue is closed, then there is room, then the queue is opened."""
    await world.trouble.over.wait()
    await asyncio.sleep(60)
    # An accident of the other's pod may have made room already.
    waits = _group_phase(world, role.name) == "Pending"
    queue = await world.client.get(QUEUE, "small")
    if waits:
        await world.client.create(COMMAND, make.command("CloseQueue", queue, "Queue"))
        await world.until(lambda: _queue_state(world, "small") == "Closing", "small is closing")
        await asyncio.sleep(10)
    await world.client.delete(JOB, "filler", "default")
    if waits:
        await asyncio.sleep(60)
        assert _group_phase(world, role.name) == "Pending", f"I11: {role.name} was let into a closed queue"
        await world.client.create(COMMAND, make.command("OpenQueue", queue, "Queue"))


# A pair that is made anew is another each time, and no seed would repeat it.
_WITH_KEYS = {"ssh": ["--ssh-private-key=private", "--ssh-public-key=public"], "svc": [], "env": []}
_AGAIN = {"policies": [make.policy("PodFailed", "RestartJob")]}
_CHAIN = [
    task("a", 1, 2),
    task("b", 1, 2, dependsOn={"name": ["a"]}),
    task("c", 1, 2, dependsOn={"name": ["b"]}),
]
_LEADER = [task("main", 1, 4, policies=[make.policy("TaskCompleted", "CompleteJob")]), task("helper", 2, ENDLESS)]
_MIXED = [task("frail", 1, 1, 3), task("firm", 1, ENDLESS)]
_LATER = {"policies": [make.policy("PodFailed", "RestartJob", timeout="5s")]}
_FRAIL = [task("frail", 1, 2, 3, policies=[make.policy("PodFailed", "RestartTask")]), task("firm", 1, ENDLESS)]

ROLES: tuple[Role, ...] = (
    Role("steady", job("steady", 3, seconds=5), _COMPLETED, _MAYBE, retries=0),
    Role("keyed", job("keyed", 2, seconds=3, plugins=_WITH_KEYS), _COMPLETED, _MAYBE, retries=0),
    Role("unlucky", job("unlucky", 2, seconds=1, exit_code=3, maxRetry=2, **_AGAIN), _FAILED, _FAILED, retries=2),
    Role("frail", new_job("frail", _FRAIL, minAvailable=2, maxRetry=3), _FAILED, _MAYBE, retries=3),
    Role("endless", job("endless", 2, seconds=ENDLESS), _RUNNING, _MAYBE, room=2, retries=0),
    Role("stopped", job("stopped", 2, seconds=ENDLESS), frozenset({"Terminated"}), _MAYBE | {"Terminated"}, _stop),
    Role("renewed", job("renewed", 2, seconds=ENDLESS), _RUNNING, _MAYBE, _restart, room=2, retries=1),
    Role("stormy", job("stormy", 2, seconds=8, maxRetry=50), _COMPLETED, _MAYBE, _suspend_and_resume),
    Role("chain", new_job("chain", _CHAIN, minAvailable=1), _COMPLETED, _MAYBE, retries=0),
    Role(
        "brief", job("brief", 2, seconds=2, ttlSecondsAfterFinished=5), frozenset({GONE}), _MAYBE | {GONE},
        late=_COMPLETED,
    ),
    Role("deleted", job("deleted", 3, seconds=ENDLESS), frozenset({GONE}), frozenset({GONE}), _delete),
    Role(
        "farewell", job("farewell", 2, seconds=ENDLESS, plugins=_WITH_KEYS), frozenset({GONE}), frozenset({GONE}),
        _leave_at_last, room=2,
    ),
    Role("phoenix", job("phoenix", 2, seconds=4), _COMPLETED, _MAYBE, _make_again, retries=0),
    Role("led", new_job("led", _LEADER, minAvailable=3), _COMPLETED, _MAYBE, retries=0),
    Role("scaled", job("scaled", 1, seconds=ENDLESS), _RUNNING, _MAYBE, _scale, room=2, retries=0),
    Role("sideline", job("sideline", 2, seconds=4, queue="side"), _COMPLETED, _MAYBE, _close_and_open, retries=0),
    Role("latecomer", job("latecomer", 2, seconds=3, queue="brief"), _COMPLETED, _MAYBE, _replace_queue, retries=0),
    Role("elastic", new_job("elastic", [task("main", 4, ENDLESS)], minAvailable=1), _RUNNING, _MAYBE, room=4),
    Role("patient", new_job("patient", _MIXED, minAvailable=2, maxRetry=2, **_LATER), _FAILED, _MAYBE, retries=2),
    Role("robbed", job("robbed", 2, seconds=3, plugins=_WITH_KEYS), _COMPLETED, _MAYBE, _give_way, retries=0),
    Role(
        "same", new_job("same", [task("name-main", 1, 3)], minAvailable=1), _COMPLETED, _MAYBE, _leave_the_name,
        retries=0,
    ),
    Role("outsider", job("outsider", 2, seconds=3, queue="small"), _COMPLETED, _MAYBE, _wait_outside, retries=0),
    Role("urgent", job("urgent", 3, seconds=4, priorityClassName="urgent"), _COMPLETED, _MAYBE, retries=0),
)  # fmt: skip


def cast(rng: random.Random, cores: int) -> list[Role]:
    """Some roles that have room beside each other for ever."""
    chosen: list[Role] = []
    free = cores - 3  # the largest gang that ends must fit beside those that do not
    for role in rng.sample(ROLES, rng.randint(3, 6)):
        if role.room <= free:
            free -= role.room
            chosen.append(role)
    return chosen


async def prepare(world: FaultyWorld, roles: Sequence[Role]) -> None:
    """What the roles need: queues, other Jobs, and somebody else's Secret."""
    names = {role.name for role in roles}
    if "sideline" in names:
        await _open_queue(world, "upper", parent="root")
        await _open_queue(world, "side", parent="upper")
    if "latecomer" in names:
        await _open_queue(world, "brief")
    if "outsider" in names:
        await _open_queue(world, "small", capability={"cpu": "2"})
        await world.client.create(JOB, job("filler", 1, seconds=ENDLESS, queue="small"))
        await world.until_phase("Running", "filler")
    if "same" in names:
        await world.client.create(JOB, job("same-name", 1, seconds=ENDLESS))
        await world.until_phase("Running", "same-name")
    if "robbed" in names:
        metadata = {"name": "robbed-ssh", "namespace": "default", "labels": SOMEBODYS}
        await world.client.create(SECRET, {"metadata": metadata, "data": {"id_rsa": "bWluZQ=="}})


async def enter(world: FaultyWorld, role: Role) -> None:
    """Submit, and have the user do what the role is about."""
    if role.play is not _replace_queue:
        await world.client.create(JOB, role.job)
    if role.play is not None:
        await asyncio.sleep(world.trouble.rng.choice((0.0, world.trouble.rng.uniform(0, _SOME_SECONDS))))
        world.trouble.tell(f"{role.name} plays")
        await role.play(world, role)


def end_of(world: FaultyWorld, role: Role) -> str:
    return world.phase(role.name) if world.job(role.name) else GONE


def ends_of(world: FaultyWorld, role: Role) -> frozenset[str]:
    ends = role.touched if role.name in world.touched else role.ends
    if _is_crowded_out(world, role):
        ends |= {"Pending"}
    return ends | role.late if any(clock.was_wrong for clock in world.clocks.values()) else ends


def _is_crowded_out(world: FaultyWorld, role: Role) -> bool:
    """Whether there is no room beside gangs that accidents left short of members.

    Those wait for ever with the room they were let in with, as upstream's do.
    """
    short = [name for name in world.touched if name != role.name and _holds_room_in_vain(world, name)]
    held = sum(int(world.job(name)["spec"]["minAvailable"]) for name in short)
    at_work = [pod for pod in world.pods() if pod["spec"].get("nodeName") and pod["status"]["phase"] in _AT_WORK]
    used = sum((controller_of(pod) or {}).get("name") not in short for pod in at_work)
    cores = sum(int(node.cpu) for node in world.nodes)
    return bool(short) and used + held + int(role.job["spec"]["minAvailable"]) > cores


def _holds_room_in_vain(world: FaultyWorld, job: str) -> bool:
    return bool(world.job(job)) and world.phase(job) == "Pending" and _group_phase(world, job) == "Inqueue"


async def _command(world: FaultyWorld, role: Role, action: str) -> None:
    found = await world.client.get(JOB, role.name, "default")
    await world.client.create(COMMAND, make.command(action, found))


async def _change_replicas(world: FaultyWorld, name: str, replicas: int) -> None:
    while True:
        found = await world.client.get(JOB, name, "default")
        found["spec"]["tasks"][0].update(replicas=replicas, minAvailable=replicas)
        found["spec"]["minAvailable"] = replicas
        with contextlib.suppress(Conflict):
            await world.client.update(JOB, found)
            return


def queue_of(world: FaultyWorld, role: Role) -> str:
    """The state of the queue the role's Job is in."""
    return _queue_state(world, role.job["spec"].get("queue", "default"))


async def _open_queue(world: FaultyWorld, name: str, **spec: Any) -> None:
    queue = make.queue(name, "", **spec)
    with contextlib.suppress(AlreadyExists):
        await world.client.create(QUEUE, {**queue, "metadata": {"name": name}})
    await world.until(lambda: _queue_state(world, name) == "Open", f"{name} is open")


def _group_phase(world: FaultyWorld, job: str) -> str:
    groups = [group for group in world.store.objects(POD_GROUP) if is_owned_by(group, world.job(job))]
    return str((groups[0].get("status") or {}).get("phase") or "") if groups else ""


def _queue_state(world: FaultyWorld, name: str) -> str:
    queue = world.store.object(QUEUE, name) or {}
    return str((queue.get("status") or {}).get("state") or "")
