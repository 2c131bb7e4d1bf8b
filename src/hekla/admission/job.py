"""Jobs: what is filled in when one is created, what is refused, and what may still change afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

import msgspec

from hekla.admission.amounts import amount_warnings
from hekla.admission.commands import command_warnings
from hekla.admission.graph import is_acyclic
from hekla.admission.policies import policy_warnings, validate_policies
from hekla.admission.topology import BOTH_TIERS, names_both_tiers
from hekla.api.batch import SCHEDULER_NAME
from hekla.api.claim_rules import claim_problems
from hekla.api.job_plugins import IMPLIED, Arguments, Flag, UnloadablePlugin, parse_arguments
from hekla.api.kinds import Obj
from hekla.api.names import qualified_problems, subdomain_problems
from hekla.api.plugin_advice import advice, ray_head_missing
from hekla.api.pod_rules import template_problems
from hekla.api.quantity import InvalidQuantity, milli
from hekla.api.remembered import remembered
from hekla.api.scheduling import DEFAULT_QUEUE, ROOT_QUEUE, QueueState
from hekla.api.stored import as_stored, task_as_stored

_DEFAULT_MAX_RETRY = 3
_MUTABLE = "`minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`"
_FROZEN = f"job updates may not change fields other than {_MUTABLE}"

Flags = Mapping[str, Callable[[], tuple[Flag, ...] | None]]
"""For each installed plugin, its flags; asked only for plugins that a Job uses. They may raise UnloadablePlugin."""


def default_job(job: Obj) -> None:
    """Fill in a new Job, in place."""
    spec = job["spec"]
    spec["queue"] = spec.get("queue") or DEFAULT_QUEUE
    spec["schedulerName"] = spec.get("schedulerName") or SCHEDULER_NAME
    spec["maxRetry"] = spec.get("maxRetry") or _DEFAULT_MAX_RETRY
    # parity: tasks are written back together, as upstream reads them, and only where one of them lacks something.
    if any(_lacks_something(task) for task in spec.get("tasks") or ()):
        spec["tasks"] = _filled_in_all(spec["tasks"])
    if not spec.get("minAvailable"):
        spec["minAvailable"] = sum(task["minAvailable"] for task in spec.get("tasks") or ())
    if spec.get("plugins") is not None:
        spec["plugins"] = _with_implied(spec["plugins"])


def default_changed_job(job: Obj) -> None:
    """Fill in what an update leaves out, as creation did, so that applying the same file twice changes nothing.

    Upstream defaults on creation only and refuses the second apply. An explicit 0 of `minAvailable` or `replicas`
    stays: scaling down to nothing and back are both replacements of a field that is there.
    """
    given = job["spec"].get("minAvailable")
    before = job["spec"].get("tasks") or []
    default_job(job)
    if given is not None:
        job["spec"]["minAvailable"] = given
    if job["spec"].get("tasks") is before:
        return
    for task, old in zip(job["spec"].get("tasks") or [], before, strict=True):
        if old.get("replicas") == 0:
            task["replicas"] = 0
        _take_back_required(task, old)


def validate_new_job(job: Obj, queues: Mapping[str, Obj], plugins: Flags) -> str:
    """Everything that is wrong with a new Job, as one message; empty when nothing is."""
    return "".join(new_job_messages(job, queues, plugins)).strip()


def new_job_messages(job: Obj, queues: Mapping[str, Obj], plugins: Flags) -> list[str]:
    """What is wrong with a new Job, one by one; an empty text is nothing. Punctuated to be put together."""
    spec = job.get("spec") or {}
    name, tasks = job["metadata"]["name"], _filled_in_all(spec.get("tasks") or [])
    if not tasks:
        return ["No task specified in job spec"]
    understood = _understood(spec, plugins)
    if _mpi_master_missing(spec, understood):
        return ["The specified mpi master task was not found"]
    messages = [BOTH_TIERS if names_both_tiers(spec.get("networkTopology")) else ""]
    replicas = 0
    seen: set[str] = set()
    for position, task in enumerate(tasks):
        messages.append(_gang_message(job, task))
        replicas += int(task.get("replicas") or 0)
        if task["name"] in seen:
            # parity: of a duplicate nothing more is checked, and what follows it is neither checked nor counted.
            messages.append(f" duplicated task name {task['name']};")
            break
        seen.add(task["name"])
        messages += _task_messages(job, task, position)
    problems = qualified_problems(name)
    if problems:
        messages.append(f"create job with name {name} validate failed [{' '.join(problems)}]")
    if replicas < int(spec.get("minAvailable") or 0):
        messages.append(" job 'minAvailable' should not be greater than total replicas in tasks;")
    messages.append(validate_policies(spec.get("policies"), "spec.policies"))
    messages += _plugin_messages(spec, plugins, understood)
    messages.append(_volume_message(spec.get("volumes") or ()))
    messages += _queue_messages(str(spec.get("queue") or ""), queues)
    dependencies = {task["name"]: (task.get("dependsOn") or {}).get("name") or [] for task in tasks}
    if any(dependencies.values()) and not is_acyclic(dependencies):
        messages.append(" job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);")
    return messages


def warnings_about(job: Obj, plugins: Flags) -> list[str]:
    """What is let in but will not do what its writer hoped: upstream only logs it, or says nothing."""
    spec = job.get("spec") or {}
    name = str(job["metadata"].get("name") or job["metadata"].get("generateName") or "")
    told = advice(name, spec, _understood(spec, plugins))
    found = [f"spec.plugins[{plugin}]: {text}" for plugin, text in told]
    found += policy_warnings(spec.get("policies"), "spec.policies")
    for position, volume in enumerate(spec.get("volumes") or ()):
        wrong = claim_problems(volume.get("volumeClaim") or {}, f"spec.volumes[{position}].volumeClaim")
        found += [f"{one}: its claim will be refused, and the job wait" for one in wrong if "volumeClaim" in volume]
    for position, task in enumerate(spec.get("tasks") or ()):
        where = f"spec.tasks[{position}]"
        found += policy_warnings(task.get("policies"), f"{where}.policies")
        pod_spec = (task.get("template") or {}).get("spec") or {}
        found += command_warnings(pod_spec, f"{where}.template.spec")
        found += amount_warnings(pod_spec, f"{where}.template.spec")
    return found


def validate_changed_job(new: Obj, old: Obj) -> str:
    """The first thing that is wrong with an update; empty when nothing is."""
    spec = new.get("spec") or {}
    tasks = spec.get("tasks") or []
    for task in tasks:
        message = _changed_task_message(new, task)
        if message:
            return message
    if int(spec.get("minAvailable") or 0) > sum(int(task.get("replicas") or 0) for task in tasks):
        return "job 'minAvailable' must not be greater than total replicas"
    if int(spec.get("minAvailable") or 0) < 0:
        return "job 'minAvailable' must be >= 0"
    if names_both_tiers(spec.get("networkTopology")):
        return BOTH_TIERS
    if len(tasks) != len((old.get("spec") or {}).get("tasks") or []):
        return "job updates may not add or remove tasks"
    return "" if _fixed_part(new) == _fixed_part(old) else _FROZEN


def _lacks_something(task: Obj) -> bool:
    """Whether a task, as its writer sent it, needs anything filled in."""
    spec = (task.get("template") or {}).get("spec") or {}
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        return True
    return not task.get("name") or not task.get("maxRetry") or task.get("minAvailable") is None


def _filled_in_all(tasks: Sequence[Obj]) -> list[Obj]:
    return [_filled_in(task, position) for position, task in enumerate(tasks)]


def _filled_in(given: Obj, position: int) -> Obj:
    """A task as upstream stores it."""
    task: Obj = msgspec.json.decode(_filled_in_alike(msgspec.json.encode(given), position))
    return task


@remembered
def _filled_in_alike(given: bytes, position: int) -> bytes:
    task = task_as_stored(msgspec.json.decode(given))
    task["name"] = task.get("name") or f"default{position}"
    task.setdefault("maxRetry", _DEFAULT_MAX_RETRY)
    if "minAvailable" not in task:
        task["minAvailable"] = _smallest_gang(task)
    spec = task["template"]["spec"]
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    return msgspec.json.encode(task)


def _take_back_required(task: Obj, given: Obj) -> None:
    """What an update has to say itself is not filled in: that it is missing is what has to be told."""
    if not given.get("template"):
        del task["template"]
    for part in ("template", "partitionPolicy"):
        _take_back_nothings(task.get(part), given.get(part))


def _take_back_nothings(filled: Any, given: Any) -> None:
    """Texts, numbers and lists of nothing that nobody has given; but for `minPartitions` all are required."""
    if isinstance(filled, dict):
        said = given if isinstance(given, dict) else {}
        for name, value in list(filled.items()):
            if said.get(name) is None and value in ("", 0, None) and name != "minPartitions":
                del filled[name]
            else:
                _take_back_nothings(value, said.get(name))
    elif isinstance(filled, list) and isinstance(given, list):
        for value, before in zip(filled, given, strict=True):
            _take_back_nothings(value, before)


def _smallest_gang(task: Obj) -> int:
    partition: Obj = task.get("partitionPolicy") or {}
    if partition.get("minPartitions", 0) > 0:
        return int(partition["minPartitions"] * partition["partitionSize"])
    return int(task.get("replicas", 0))


def _with_implied(plugins: Obj) -> Obj:
    implied: Obj = {extra: [] for name in plugins for extra in IMPLIED.get(name, ())}
    return {**implied, **{name: arguments or [] for name, arguments in plugins.items()}}


def _gang_message(job: Obj, task: Obj) -> str:
    if (task.get("minAvailable") or 0) <= int(task.get("replicas") or 0):
        return ""
    return f" 'minAvailable' is greater than 'replicas' in task: {task['name']}, job: {job['metadata']['name']};"


def _task_messages(job: Obj, task: Obj, position: int) -> list[str]:
    name, job_name = task["name"], job["metadata"]["name"]
    messages = [validate_policies(task.get("policies"), "spec.tasks.policies")]
    pod = f"{job_name}-{name}-{_longest_index(job, task, position)}"
    problems = qualified_problems(pod)
    if problems:
        messages.append(f"create pod with name {pod} validate failed [{' '.join(problems)}];")
    template = template_problems(task.get("template") or {})
    if template:
        messages.append(f"spec.task[{position}]." + "".join(f"{problem}. " for problem in template))
    else:
        messages.append(_cpu_message(task, position))
    messages.append(_partition_message(task, job_name))
    return messages


def _longest_index(job: Obj, task: Obj, position: int) -> int:
    """With svc a pod's name is its hostname, unless its template has another, so that of the last pod counts.

    Otherwise upstream checks the task's position in place of the pod's index, and longer names are still legal.
    """
    hostname = ((task.get("template") or {}).get("spec") or {}).get("hostname")
    if "svc" in (job["spec"].get("plugins") or {}) and not hostname:
        return max(position, int(task.get("replicas") or 0) - 1)
    return position


def _cpu_message(task: Obj, position: int) -> str:
    """About the first container without whole CPUs; init containers are counted on after the others."""
    if (task.get("topologyPolicy") or "none") == "none":
        return ""
    spec = (task.get("template") or {}).get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for index, container in enumerate(containers):
        if not _has_whole_cpus(container):
            return f"the cpu request isn't an integer in spec.task[{position}] container[{index}]."
    return ""


def _has_whole_cpus(container: Obj) -> bool:
    resources = container.get("resources") or {}
    cpu = (resources.get("requests") or resources.get("limits") or {}).get("cpu", 0)
    try:
        return milli(cpu) > 0 and milli(cpu) % 1000 == 0
    except InvalidQuantity:
        return False


def _partition_message(task: Obj, job_name: str) -> str:
    policy = task.get("partitionPolicy")
    if policy is None:
        return ""
    total, size = int(policy.get("totalPartitions") or 0), int(policy.get("partitionSize") or 0)
    fewest, where = int(policy.get("minPartitions") or 0), f"in task: {task['name']}, job: {job_name}"
    if total <= 0:
        return f"'TotalPartitions' must be greater than 0 {where}"
    if size <= 0:
        return f"'PartitionSize' must be greater than 0 {where}"
    if int(task.get("replicas") or 0) != total * size:
        return f"'Replicas' are not equal to TotalPartitions*PartitionSize {where}"
    if task.get("minAvailable") is not None and fewest > 0 and task["minAvailable"] != fewest * size:
        return f"'MinAvailable' is not equal to MinPartitions*PartitionSize {where}"
    return BOTH_TIERS if names_both_tiers(policy.get("networkTopology")) else ""


def _understood(spec: Obj, plugins: Flags) -> dict[str, Arguments]:
    """The arguments of a Job's plugins, of those that take any."""
    understood = {}
    for name, arguments in (spec.get("plugins") or {}).items():
        # One that is not there, or cannot be loaded, is told of elsewhere.
        with suppress(UnloadablePlugin):
            taken = plugins[name]() if name in plugins else None
            if taken is not None:
                understood[name] = parse_arguments(taken, arguments or [])
    return understood


def _mpi_master_missing(spec: Obj, understood: Mapping[str, Arguments]) -> bool:
    if "mpi" not in understood:
        return False
    return all(task.get("name") != understood["mpi"].text("master") for task in spec["tasks"])


def _plugin_messages(spec: Obj, plugins: Flags, understood: Mapping[str, Arguments]) -> list[str]:
    messages = [_unusable(name, plugins) for name in sorted(spec.get("plugins") or {})]
    if "ray" in understood and ray_head_missing(spec, understood["ray"]):
        messages.append(f' the ray head task "{understood["ray"].text("head")}" was not found;')
    return messages


def _unusable(name: str, plugins: Flags) -> str:
    if name not in plugins:
        return f" unable to find job plugin: {name};"
    try:
        plugins[name]()
    except UnloadablePlugin as error:
        return f" unable to load job plugin: {name} ({error});"
    return ""


def _volume_message(volumes: Sequence[Obj]) -> str:
    """About the first faulty volume."""
    paths: set[str] = set()
    for volume in volumes:
        path, claim, name = volume.get("mountPath"), volume.get("volumeClaim"), volume.get("volumeClaimName")
        if not path:
            return " mountPath is required;"
        if path in paths:
            return f" duplicated mountPath: {path};"
        paths.add(path)
        if claim is None and not name:
            return " either VolumeClaim or VolumeClaimName must be specified;"
        if name:
            if claim is not None:
                return (
                    "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
                    "If you want to create a new PVC, you do not need to specify VolumeClaimName"
                )
            problems = subdomain_problems(name)
            if problems:
                return f"invalid VolumeClaimName {name} : [{' '.join(problems)}]"
    return ""


def _queue_messages(name: str, queues: Mapping[str, Obj]) -> list[str]:
    queue = queues.get(name)
    if queue is None:
        return [f' unable to find job queue: queue.scheduling.volcano.sh "{name}" not found;']
    state = (queue.get("status") or {}).get("state") or ""
    children = sum(1 for other in queues.values() if (other.get("spec") or {}).get("parent") == name)
    messages = []
    if state != QueueState.OPEN:
        messages.append(f" can only submit job to queue with state `Open`, queue `{name}` status is `{state}`;")
    if name == ROOT_QUEUE:
        messages.append(" can not submit job to root queue;")
    elif children:
        messages.append(f" can only submit job to leaf queue, queue `{name}` has {children} child queues;")
    return messages


def _changed_task_message(job: Obj, task: Obj) -> str:
    replicas, fewest = int(task.get("replicas") or 0), task.get("minAvailable")
    if replicas < 0:
        return f"'replicas' must be >= 0 in task: {task.get('name')}"
    if fewest is not None and fewest < 0:
        return f"'minAvailable' must be >= 0 in task: {task.get('name')}"
    if fewest is not None and fewest > replicas:
        return f"'minAvailable' must be <= 'replicas' in task: {task.get('name')}"
    return _partition_message(task, job["metadata"]["name"])


def _fixed_part(job: Obj) -> Any:
    """The spec without what may change, in a form in which equal meaning is equal value."""
    spec = deepcopy(job.get("spec") or {})
    for field in ("minAvailable", "priorityClassName"):
        spec.pop(field, None)
    for volume in spec.get("volumes") or ():
        if volume.get("volumeClaim") is not None:
            volume.pop("volumeClaimName", None)
    try:
        spec["tasks"] = _filled_in_all(spec.get("tasks") or ())
        spec = as_stored(spec)
    except ValueError:
        # An amount that is none, let in while nobody looked: then only the same text means the same.
        return spec
    for task in spec.get("tasks") or ():
        task.pop("replicas", None)
        task.pop("minAvailable", None)
    return spec
