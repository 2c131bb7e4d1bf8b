"""What must never happen, and what must hold when everything has come to rest.

Each is a small function that says what is wrong, in sentences; nothing said is nothing wrong. Those in ALWAYS are asked
after every commit, those in AT_REST when nothing moves any more. The numbers are those of the reliability programme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

from hekla.api.batch import TASK_SPEC
from hekla.api.kinds import (
    COMMAND,
    CONFIG_MAP,
    JOB,
    NETWORK_POLICY,
    POD,
    POD_GROUP,
    QUEUE,
    SECRET,
    SERVICE,
    Kind,
    Obj,
)
from hekla.api.meta import annotations_of, controller_of, is_deleting, labels_of, name_of, uid_of
from hekla.api.quantity import parse
from tests.integration.history import (
    ENDED,
    SOMEBODYS,
    History,
    Moment,
    allocatable,
    holds_node,
    is_finished,
    is_victim,
    needs,
    phase_of,
)

Always = Callable[[History, Moment], Iterator[str]]
AtRest = Callable[[History], Iterator[str]]

_OWNED: tuple[Kind, ...] = (POD, POD_GROUP, SERVICE, CONFIG_MAP, SECRET, NETWORK_POLICY)
_ALIVE = frozenset({"Restarting", "Aborting", "Completing", "Terminating"})
_NEXT: dict[str, frozenset[str]] = {
    "": _ALIVE | {"Pending"},
    "Pending": _ALIVE | {"Running"},
    "Running": _ALIVE | {"Pending", "Completed", "Failed"},
    "Restarting": frozenset({"Pending", "Failed"}),
    "Aborting": frozenset({"Aborted", "Restarting"}),
    "Aborted": frozenset({"Restarting"}),
    "Completing": frozenset({"Completed"}),
    "Terminating": frozenset({"Terminated"}),
}
# A component that has not heard yet may act on what is no more; by then it has.
_HEARSAY_SECONDS = 120.0


def no_node_holds_more_than_it_has(history: History, moment: Moment) -> Iterator[str]:
    """I1: judged when a pod is bound; a node may shrink under the pods it has."""
    for step in moment.of(POD):
        if holds_node(step.after) and not holds_node(step.before):
            name = step.obj["spec"]["nodeName"]
            node = history.node(name)
            have = allocatable(node) if node is not None else {}
            for resource, used in history.used[name].items():
                if used > have.get(resource, Decimal(0)):
                    yield f"I1: {name} has {have.get(resource)} of {resource} and holds {used}"


def a_pod_is_bound_once(history: History, moment: Moment) -> Iterator[str]:
    """I2"""
    for step in moment.of(POD):
        before = step.before["spec"].get("nodeName") if step.before is not None else None
        after = step.after["spec"].get("nodeName") if step.after is not None else before
        if before and after != before:
            yield f"I2: {name_of(step.obj)} went from {before} to {after}"


def a_gang_is_bound_together(history: History, moment: Moment) -> Iterator[str]:
    """I3, where the server binds gangs: the commit that starts a gang starts enough of it.

    Unless a member was replaced (the others may be on their way, and be refused without it) or the gang was changed.
    """
    bound = [step for step in moment.of(POD) if holds_node(step.after) and not holds_node(step.before)]
    groups = {uid_of(group): group for step in bound if (group := history.group_of(step.obj)) is not None}
    for uid, group in groups.items():
        members = [pod for pod in history.members(group) if pod["spec"].get("nodeName") and not is_deleting(pod)]
        new = sum(1 for step in bound if history.group_of(step.obj) is group)
        if len(members) == new < int(group["spec"].get("minMember") or 1) and uid not in history.disturbed:
            yield f"I3: {new} pods of {name_of(group)} were bound, its gang is {group['spec'].get('minMember')}"


def nothing_is_made_for_an_owner_long_gone(history: History, moment: Moment) -> Iterator[str]:
    """I4"""
    for step in moment.steps:
        owner = controller_of(step.obj) if step.before is None else None
        if owner is not None and history.now - history.gone.get(owner["uid"], history.now) > _HEARSAY_SECONDS:
            yield f"I4: {step.resource} {name_of(step.obj)} was made for {owner['name']}, which is long gone"


def what_is_somebodys_is_left_alone(history: History, moment: Moment) -> Iterator[str]:
    """I9"""
    for step in moment.steps:
        if moment.actor and step.before is not None and labels_of(step.before) == SOMEBODYS:
            yield f"I9: {moment.actor} touched {step.resource} {name_of(step.obj)}, which is somebody's own"


def a_task_waits_for_those_it_depends_on(history: History, moment: Moment) -> Iterator[str]:
    """I6: no pod is made before enough pods of those tasks have run."""
    for step in moment.of(POD):
        owner = controller_of(step.obj) if step.before is None else None
        job = history.get(JOB, owner["uid"]) if owner is not None else None
        tasks = {task["name"]: task for task in job["spec"]["tasks"]} if job is not None else {}
        task = tasks.get(annotations_of(step.obj).get(TASK_SPEC, ""), {})
        for name in (task.get("dependsOn") or {}).get("name") or ():
            if job is not None and history.has_run(job, name) < int(tasks[name].get("minAvailable") or 0):
                yield f"I6: {name_of(step.obj)} was made before {name} had run"


def retries_grow_by_one_with_each_restart(history: History, moment: Moment) -> Iterator[str]:
    """I7: never back, never over the limit, and never without a restart."""
    for step in moment.of(JOB):
        if step.after is None:
            continue
        before, after = _retries(step.before), _retries(step.after)
        limit = int(step.after["spec"].get("maxRetry") or 0)
        name = name_of(step.after)
        if after < before or after > before + 1:
            yield f"I7: retries of {name} went from {before} to {after}"
        if after > max(limit, 1):
            yield f"I7: {name} has used {after} retries of {limit}"
        if after > history.restarts[uid_of(step.after)]:
            yield f"I7: {name} counts {after} retries and was restarted {history.restarts[uid_of(step.after)]} times"


def phases_follow_the_graph(history: History, moment: Moment) -> Iterator[str]:
    """I8"""
    for step in moment.of(JOB):
        before, after = phase_of(step.before), phase_of(step.after)
        if step.after is not None and before != after and after not in _NEXT.get(before, frozenset()):
            yield f"I8: {name_of(step.obj)} went from {before or 'nothing'} to {after or 'nothing'}"


def a_job_counts_only_its_own_pods(history: History, moment: Moment) -> Iterator[str]:
    """I9"""
    for step in moment.of(JOB):
        if step.after is None:
            continue
        status = step.after.get("status") or {}
        counted = sum(status.get(counter) or 0 for counter in ("pending", "running", "succeeded", "failed"))
        ever = len(history.pods_of[uid_of(step.after)])
        if counted > ever:
            yield f"I9: {name_of(step.after)} counts {counted} pods and has had {ever}"


def a_pods_owner_is_the_job_it_names(history: History, moment: Moment) -> Iterator[str]:
    """I9: made for one Job it never passes to another."""
    for step in moment.steps:
        if step.before is not None and step.after is not None:
            before, after = controller_of(step.before), controller_of(step.after)
            if before is not None and (after is None or after["uid"] != before["uid"]):
                yield f"I9: {step.resource} {name_of(step.obj)} changed its owner"


def a_victim_has_somebody_to_make_room_for(history: History, moment: Moment) -> Iterator[str]:
    """I12: only while a pod that may take its place waits or has just gone; and not again once it is going.

    Before that it may be: an eviction whose answer was lost is decided anew.
    """
    for step in moment.of(POD):
        if step.after is None or not is_victim(step.after):
            continue
        if is_victim(step.before):
            if (
                step.before is not None
                and is_deleting(step.before)
                and _chosen_at(step.before) != _chosen_at(step.after)
            ):
                yield f"I12: {name_of(step.obj)} was chosen twice"
            continue
        just_gone = history.now - history.last_waiting_gone < _HEARSAY_SECONDS
        if not just_gone and not any(_waits_beside(history, pod, step.after) for pod in history.objects(POD)):
            yield f"I12: {name_of(step.obj)} had to go and nobody waits for its place"


def revisions_grow_by_one(history: History, moment: Moment) -> Iterator[str]:
    """I14, as far as a store in memory can show it."""
    revisions = [step.revision for step in moment.steps]
    if revisions != list(range(revisions[0], revisions[0] + len(revisions))):
        yield f"I14: revisions {revisions}"


def no_gang_is_half_there(history: History) -> Iterator[str]:
    """I3: one of which nothing runs is not there, even if a pod that ended before a suspension is kept."""
    for group in history.objects(POD_GROUP):
        holding = sum(1 for pod in history.members(group) if holds_node(pod))
        placed = holding + sum(1 for pod in history.members(group) if is_finished(pod))
        smallest = int(group["spec"].get("minMember") or 1)
        if holding and placed < smallest and uid_of(group) not in history.thinned:
            yield f"I3: {placed} of {name_of(group)} are placed, its gang is {smallest}"


def nothing_outlives_its_owner(history: History) -> Iterator[str]:
    """I4"""
    for kind in _OWNED:
        for obj in history.objects(kind):
            owner = controller_of(obj)
            if owner is not None and owner["uid"] in history.gone:
                yield f"I4: {kind.plural} {name_of(obj)} has outlived {owner['kind']} {owner['name']}"


def live_jobs_have_their_group_and_pods(history: History) -> Iterator[str]:
    """I6: pods are made once the gang is let in, and when what their task waits for is there."""
    for job in history.objects(JOB):
        if phase_of(job) not in ("Pending", "Running", "Restarting") or is_deleting(job):
            continue
        group = _group_of_job(history, job)
        if group is None:
            yield f"I6: {name_of(job)} is {phase_of(job)} and has no PodGroup"
            continue
        if phase_of(group) in ("", "Pending"):
            continue
        have = {name_of(pod) for pod in history.pods_owned_by(job)}
        for task in job["spec"]["tasks"]:
            wanted = {f"{name_of(job)}-{task['name']}-{index}" for index in range(int(task.get("replicas") or 0))}
            if wanted - have and not task.get("dependsOn"):
                yield f"I6: {name_of(job)} is {phase_of(job)} and lacks {sorted(wanted - have)}"


def an_ended_job_runs_nothing(history: History) -> Iterator[str]:
    """I8"""
    for job in history.objects(JOB):
        running = [name_of(pod) for pod in history.pods_owned_by(job) if not is_finished(pod)]
        if phase_of(job) in ENDED and running:
            yield f"I8: {name_of(job)} is {phase_of(job)} and {running} are not finished"


def an_ended_job_leaves_only_pods(history: History) -> Iterator[str]:
    """I4: but for what a deposed leader had sent off and nobody could refuse. Its group goes all the same."""
    ended = {uid_of(job): name_of(job) for job in history.objects(JOB) if phase_of(job) in ENDED}
    for kind in _OWNED:
        for obj in history.objects(kind) if kind is not POD else ():
            owner = controller_of(obj)
            is_late = uid_of(obj) in history.late and kind is not POD_GROUP
            if owner is not None and owner["uid"] in ended and not is_late:
                yield f"I4: {ended[owner['uid']]} has ended and {kind.plural} {name_of(obj)} is left"


def a_gang_is_what_its_job_says(history: History) -> Iterator[str]:
    """I6"""
    for job in history.objects(JOB):
        group = _group_of_job(history, job)
        wanted = int(job["spec"].get("minAvailable") or 0)
        if group is not None and int(group["spec"].get("minMember") or 0) != wanted:
            yield f"I6: {name_of(job)} wants a gang of {wanted}, its group is {group['spec'].get('minMember')}"


def counts_equal_reality(history: History) -> Iterator[str]:
    """I8"""
    for job in history.objects(JOB):
        phases = [phase_of(pod) for pod in history.pods_owned_by(job)]
        status = job.get("status") or {}
        for phase in ("Pending", "Running", "Succeeded", "Failed"):
            if (status.get(phase.lower()) or 0) != phases.count(phase):
                yield f"I8: {name_of(job)} counts {status.get(phase.lower())} {phase}, its pods are {phases}"
        if status.get("terminating"):
            yield f"I8: {name_of(job)} still counts {status['terminating']} as terminating"


def a_completed_group_has_no_pod_left(history: History) -> Iterator[str]:
    """I8"""
    for group in history.objects(POD_GROUP):
        unfinished = [name_of(pod) for pod in history.members(group) if not is_finished(pod)]
        if phase_of(group) == "Completed" and unfinished:
            yield f"I8: group {name_of(group)} is Completed and {unfinished} are not finished"


def no_job_has_more_pods_than_it_asks_for(history: History) -> Iterator[str]:
    """I9: nothing was made twice and nothing too much is left."""
    for job in history.objects(JOB):
        wanted = sum(int(task.get("replicas") or 0) for task in job["spec"]["tasks"])
        pods = [name_of(pod) for pod in history.pods_owned_by(job)]
        if len(pods) > wanted:
            yield f"I9: {name_of(job)} wants {wanted} pods and has {pods}"


def every_command_was_carried_out(history: History) -> Iterator[str]:
    """I5"""
    for command in history.objects(COMMAND):
        yield f"I5: command {name_of(command)} was never carried out"


def queues_tell_what_they_hold(history: History) -> Iterator[str]:
    """I11"""
    held: dict[str, dict[str, Decimal]] = {name_of(queue): {} for queue in history.objects(QUEUE)}
    for group in history.objects(POD_GROUP):
        for pod in history.members(group):
            if holds_node(pod):
                amounts = held.setdefault(str(group["spec"].get("queue")), {})
                for name, amount in needs(pod).items():
                    amounts[name] = amounts.get(name, Decimal(0)) + amount
    for queue in history.objects(QUEUE):
        if name_of(queue) == "root":
            continue
        told = {name: parse(text) for name, text in ((queue.get("status") or {}).get("allocated") or {}).items()}
        for name, amount in held[name_of(queue)].items():
            if told.get(name, Decimal(0)) != amount:
                yield f"I11: queue {name_of(queue)} says {told.get(name)} of {name} and holds {amount}"
        if any(
            amount and name in ("cpu", "memory") and name not in held[name_of(queue)] for name, amount in told.items()
        ):
            yield f"I11: queue {name_of(queue)} says {told} and holds {held[name_of(queue)]}"


def a_closed_queue_is_empty(history: History) -> Iterator[str]:
    """I11"""
    for queue in history.objects(QUEUE):
        members = [
            name_of(group) for group in history.objects(POD_GROUP) if group["spec"].get("queue") == name_of(queue)
        ]
        if (queue.get("status") or {}).get("state") == "Closed" and members:
            yield f"I11: queue {name_of(queue)} is Closed and has {members}"


ALWAYS: tuple[Always, ...] = (
    no_node_holds_more_than_it_has,
    a_pod_is_bound_once,
    a_gang_is_bound_together,
    nothing_is_made_for_an_owner_long_gone,
    what_is_somebodys_is_left_alone,
    a_task_waits_for_those_it_depends_on,
    retries_grow_by_one_with_each_restart,
    phases_follow_the_graph,
    a_job_counts_only_its_own_pods,
    a_pods_owner_is_the_job_it_names,
    a_victim_has_somebody_to_make_room_for,
    revisions_grow_by_one,
)
AT_REST: tuple[AtRest, ...] = (
    no_gang_is_half_there,
    nothing_outlives_its_owner,
    live_jobs_have_their_group_and_pods,
    an_ended_job_runs_nothing,
    an_ended_job_leaves_only_pods,
    a_gang_is_what_its_job_says,
    counts_equal_reality,
    a_completed_group_has_no_pod_left,
    no_job_has_more_pods_than_it_asks_for,
    every_command_was_carried_out,
    queues_tell_what_they_hold,
    a_closed_queue_is_empty,
)


def _retries(job: Obj | None) -> int:
    return int(((job or {}).get("status") or {}).get("retryCount") or 0)


def _group_of_job(history: History, job: Obj) -> Obj | None:
    groups = history.objects(POD_GROUP)
    return next((group for group in groups if (controller_of(group) or {}).get("uid") == uid_of(job)), None)


def _chosen_at(pod: Obj) -> str:
    conditions = pod["status"]["conditions"]
    return str(next(one["lastTransitionTime"] for one in conditions if one["type"] == "DisruptionTarget"))


def _waits_beside(history: History, pod: Obj, victim: Obj) -> bool:
    """Of another group, and on no node yet. Who may displace whom is the configuration's to say."""
    if pod["spec"].get("nodeName") or is_finished(pod):
        return False
    mine, its = history.group_of(pod), history.group_of(victim)
    return mine is not None and mine is not its
