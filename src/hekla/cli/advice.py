"""What a Job says that will not do what its writer hopes, though no server refuses it. Pure: a Job in, advice out."""

from __future__ import annotations

from collections.abc import Iterator

from hekla.api.batch import SCHEDULER_NAME, JobAction, JobEvent
from hekla.controllers.job.model import Job, Policy, Task

Advice = tuple[str, str]
"""A field's path and what to think of."""

_ENDING = {JobAction.COMPLETE_JOB, JobAction.TERMINATE_JOB, JobAction.ABORT_JOB}
_FAILING = {JobEvent.POD_FAILED, JobEvent.TASK_FAILED}
_CATCHING = {JobEvent.POD_FAILED, JobEvent.ANY}


def advice_for(job: Job) -> list[Advice]:
    return [
        *_foreign_schedulers(job),
        *_endless_tasks(job),
        *_policies_that_cannot_fire(job),
        *_exit_codes_that_come_too_late(job),
        *_tasks_that_never_start(job),
    ]


def _foreign_schedulers(job: Job) -> Iterator[Advice]:
    """Another scheduler may be just what is wanted, but it knows no gangs, and a local cluster has none."""
    wanted = [("spec.schedulerName", (job.obj.get("spec") or {}).get("schedulerName"))]
    for index, task in enumerate(job.tasks):
        spec = (task.obj.get("template") or {}).get("spec") or {}
        wanted.append((f"spec.tasks[{index}].template.spec.schedulerName", spec.get("schedulerName")))
    for path, name in wanted:
        if name and name != SCHEDULER_NAME:
            yield path, f"pods wait until a scheduler called {name!r} places them; Hekla's is called {SCHEDULER_NAME!r}"


def _endless_tasks(job: Job) -> Iterator[Advice]:
    """A pod that is always restarted never finishes, and a Job waits for all of its pods unless a policy ends it."""
    policies = [*job.policies, *(policy for task in job.tasks for policy in task.policies)]
    if any(policy.action in _ENDING for policy in policies) or job.min_success is not None:
        return
    for index, task in enumerate(job.tasks):
        if _restarts(task) == "Always":
            yield (
                f"spec.tasks[{index}].template.spec.restartPolicy",
                "the job cannot complete: containers that end are started again (Always, the default);"
                " write OnFailure or Never",
            )


def _policies_that_cannot_fire(job: Job) -> Iterator[Advice]:
    for number, policy in enumerate(job.policies):
        yield from _useless(policy, list(job.tasks), f"spec.policies[{number}]")
    for index, task in enumerate(job.tasks):
        for number, policy in enumerate(task.policies):
            yield from _useless(policy, [task], f"spec.tasks[{index}].policies[{number}]")


def _useless(policy: Policy, tasks: list[Task], path: str) -> Iterator[Advice]:
    about = sorted(policy.events & _FAILING) or (["exitCode"] if policy.exit_code else [])
    if about and all(_restarts(task) != "Never" for task in tasks):
        yield (
            path,
            f"{about[0]} does not see a container that fails: it is started again in its pod"
            " (restartPolicy Always or OnFailure); write restartPolicy: Never to have this policy act",
        )
    if JobEvent.TASK_COMPLETED in policy.events and all(_restarts(task) == "Always" for task in tasks):
        yield (
            path,
            "TaskCompleted never happens: the containers are always started again; write restartPolicy OnFailure",
        )
    if policy.action == JobAction.RESTART_PARTITION and all(task.partition_size is None for task in tasks):
        yield path, "RestartPartition needs a task with partitionPolicy; without one there is no partition to restart"


def _exit_codes_that_come_too_late(job: Job) -> Iterator[Advice]:
    """Of the policies in a list the first that matches is taken, and whatever the exit code is, the pod has failed."""
    lists = [("spec.policies", job.policies)]
    lists += [(f"spec.tasks[{index}].policies", task.policies) for index, task in enumerate(job.tasks)]
    for path, policies in lists:
        catching = next((at for at, policy in enumerate(policies) if policy.events & _CATCHING), len(policies))
        for at, policy in enumerate(policies):
            if policy.exit_code and at > catching:
                yield (
                    f"{path}[{at}]",
                    f"exitCode {policy.exit_code} never gets its turn: {path}[{catching}] takes every pod that fails;"
                    " write this policy before that one",
                )


def _tasks_that_never_start(job: Job) -> Iterator[Advice]:
    names = {task.name for task in job.tasks}
    for index, task in enumerate(job.tasks):
        for name in task.depends_on:
            if name not in names:
                yield f"spec.tasks[{index}].dependsOn.name", f"no task is called {name!r}: this task never starts"


def _restarts(task: Task) -> str:
    spec = (task.obj.get("template") or {}).get("spec") or {}
    return str(spec.get("restartPolicy") or "Always")
