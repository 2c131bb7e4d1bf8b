"""Why a server refuses an object: every mistake on a line of its own, with file, line, field and remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from copy import deepcopy
from typing import Any

from hekla.admission.reading import misread
from hekla.admission.review import VolcanoAdmission
from hekla.api.crds import load_crds
from hekla.api.job_plugins import registered
from hekla.api.kinds import JOB, Kind, Obj
from hekla.api.scheduling import ROOT_QUEUE
from hekla.cli.manifest import Document, FieldPath, Mistake, parse_field_path
from hekla.cli.named import queue_names
from hekla.cli.policy_mistakes import unknown_actions
from hekla.client.rest import Client
from hekla.errors import ApiError, BadRequest, Forbidden, Invalid

_WEBHOOK = re.compile(r'^admission webhook "[^"]*" denied the request: ')
_UNREADABLE = re.compile(r"denied the request: (json: cannot unmarshal|time: |quantities must match)")
_TEMPLATE = re.compile(r"spec\.task\[(\d+)\]\.(template\S*: .+?)\.?")
_NEXT_IN_TEMPLATE = re.compile(r"\. (?=template\S*: )")
_COUNTS = ("replicas", "minAvailable", "minSuccess")
_ABOUT_ACTION = "invalid policy action"
_NOT_ONE_OF = re.compile(r'Unsupported value: "([^"]*)": supported values: (.+)')
_NO_QUEUE = re.compile(r'unable to find job queue: \S+ "([^"]*)" not found')
_SHUT_QUEUE = re.compile(r"can only submit job to queue with state `Open`, queue `([^`]*)`")
_MADE_OF_NAME = re.compile(r"create (pod|job) with name \S.* validate failed")
_MOST_QUEUES = 5  # named to who wrote another
_STRICT = re.compile(r'(unknown|duplicate) field "([^"]+)"')


async def all_mistakes(client: Client, kind: Kind, document: Document, error: ApiError) -> list[Mistake]:
    """Everything that is wrong with an object a server refused, in the order of the file.

    A server stops at unknown fields, then at values it cannot read, then at the schema, before admission is asked. So
    it is asked again without these, and admission's rules are asked here: nobody should have to repair a file three
    times.
    """
    actions = unknown_actions(document.obj) if kind is JOB else []
    mistakes = actions + [one for one in _told(document.obj, error) if not (actions and _ABOUT_ACTION in one[1])]
    rest, refused, asked_admission = deepcopy(document.obj), error, _WEBHOOK.match(error.message) is not None
    uncounted = False
    while passed_over := [path for path in _passed_over(rest, refused) if _remove(rest, path)]:
        asked_admission = False
        uncounted = uncounted or any(path.endswith(_COUNTS) for path in passed_over)
        refused = await _refusal_of(client, kind, rest)
        mistakes += _not_told(mistakes, _judgeable(_told(rest, refused), uncounted))
    if not asked_admission:
        rules = _placed(rest, await VolcanoAdmission(client).faults_of_new(kind, rest))
        mistakes += _not_told(mistakes, _judgeable(rules, uncounted))
    if any(path == "spec.queue" for path, _ in mistakes):
        queues = await queue_names(client) or frozenset()
        mistakes = [(path, message + _remedy_of_queue(message, queues)) for path, message in mistakes]
    told = dict.fromkeys((path, message + _suggestion(kind, path, message)) for path, message in mistakes)
    return sorted(told, key=lambda mistake: document.line_of(mistake[0]))


def _told(obj: Obj, error: ApiError) -> list[Mistake]:
    """What a refusal says; of a value that is of another shape as a whole, and not its keys to be unknown."""
    shapes = {parse_field_path(one.path): (one.path, one.message) for one in misread(obj)}
    found = []
    for path, message in mistakes_in(obj, error):
        fields = parse_field_path(path)
        above = next((shapes[fields[:end]] for end in range(len(fields)) if fields[:end] in shapes), None)
        found.append(above or (path, message))
    return list(dict.fromkeys(found))


def mistakes_in(obj: Obj, error: ApiError) -> list[Mistake]:
    """What a refusal says, field by field."""
    causes = (error.details or {}).get("causes") or []
    located = [
        (str(cause.get("field", "")), str(cause.get("message", "")))
        for cause in causes
        if cause.get("field") and cause.get("field") != "<nil>"
    ]
    if located:
        return located
    if _UNREADABLE.search(error.message):
        return [(one.path, one.message) for one in misread(obj)] or [("spec", _WEBHOOK.sub("", error.message))]
    strict = [(path, f"{what} field") for what, path in _STRICT.findall(error.message)]
    sentences = [part.strip() for part in _WEBHOOK.sub("", error.message).split(";") if part.strip()]
    return strict or _placed(obj, sentences)


def _passed_over(obj: Obj, error: ApiError) -> list[str]:
    """The fields without which a server says what else is wrong."""
    unreadable = [one.path for one in misread(obj)] if _UNREADABLE.search(error.message) else []
    return [path for what, path in _STRICT.findall(error.message) if what == "unknown"] + unreadable


async def _refusal_of(client: Client, kind: Kind, obj: Obj) -> ApiError:
    """What a server says to the object without what it has refused already; an empty refusal where it is content."""
    try:
        await client.create(kind, obj, field_validation="Ignore", dry_run=True)
    except (Invalid, BadRequest, Forbidden) as further:
        return further
    except ApiError:
        pass
    return Invalid("")


def _judgeable(mistakes: Iterable[Mistake], uncounted: bool) -> Iterator[Mistake]:
    """Without what compares numbers of pods, where one of them could not be read."""
    return (one for one in mistakes if not (uncounted and any(count in "".join(one) for count in _COUNTS)))


def _not_told(told: list[Mistake], more: Iterable[Mistake]) -> Iterator[Mistake]:
    """What is not about a field that something was said about already, as a bad value of a policy is told twice."""
    known = [path for path, _ in told]
    for path, message in more:
        if any(other == path or other.startswith((f"{path}[", f"{path}.")) for other in known):
            continue
        if message.startswith("Required value") and any(_parent(other) == _parent(path) for other in known):
            # Its name is misspelt, most likely: that has been told.
            continue
        if "metadata.name" in known and _MADE_OF_NAME.match(message):
            # Names made of a wrong one are wrong as well.
            continue
        yield path, message


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _placed(obj: Obj, sentences: Iterable[str]) -> list[Mistake]:
    return [mistake for sentence in sentences for mistake in _place(obj, sentence)]


def _place(obj: Obj, sentence: str) -> list[Mistake]:
    if match := _TEMPLATE.fullmatch(sentence):
        parts = (part.partition(": ") for part in _NEXT_IN_TEMPLATE.split(match[2]))
        return [(f"spec.tasks[{match[1]}].{path}", message) for path, _, message in parts]
    return [(_field_of(obj, sentence), sentence + _missing_dependency(obj, sentence))]


def _missing_dependency(job: Obj, sentence: str) -> str:
    """Upstream says of a dependency on a task that is not there that it is a ring."""
    if "directed acyclic graph" not in sentence:
        return ""
    tasks = _tasks(job)
    names = {task.get("name") for task in tasks}
    wanted = [name for task in tasks for name in (task.get("dependsOn") or {}).get("name") or ()]
    missing = sorted({repr(name) for name in wanted if name not in names})
    return f" (no task is called {', '.join(missing)})" if missing else ""


def _tasks(obj: Obj) -> list[Obj]:
    """Those of a Job; of something else, of whatever shape, none."""
    spec = obj.get("spec")
    tasks = spec.get("tasks") if isinstance(spec, dict) else None
    return [task for task in tasks if isinstance(task, dict)] if isinstance(tasks, list) else []


def _field_of(obj: Obj, sentence: str) -> str:
    """Admission's sentences name their field in words; the path of what they speak about."""
    tasks = _tasks(obj)
    names = [str(task.get("name", "")) for task in tasks]
    if match := re.search(r"duplicated task name (\S+)", sentence):
        places = [index for index, name in enumerate(names) if name == match[1]]
        return f"spec.tasks[{places[1]}].name" if len(places) > 1 else "spec.tasks"
    if match := re.search(r"in task: ([^\s,;]+)", sentence):
        task = f"spec.tasks[{names.index(match[1])}]" if match[1] in names else "spec.tasks"
        return f"{task}.minAvailable" if "minAvailable" in sentence else task
    if match := re.search(r"spec\.task\[(\d+)\]", sentence):
        return f"spec.tasks[{match[1]}].template"
    if match := re.search(r"create pod with name (\S+) validate failed", sentence):
        return next((f"spec.tasks[{index}].name" for index, name in enumerate(names) if name in match[1]), "spec.tasks")
    if match := re.search(r"job plugin: (\S+)", sentence):
        return f"spec.plugins.{match[1]}"
    if "directed acyclic graph" in sentence:
        depending = (index for index, task in enumerate(tasks) if task.get("dependsOn"))
        return f"spec.tasks[{next(depending, 0)}].dependsOn"
    for word, path in (
        ("cronJob name", "metadata.name"),
        ("schedule is ", "spec.schedule"),
        ("schedule should ", "spec.schedule"),
        ("timeZone", "spec.timeZone"),
        ("spec.tasks.policies", "spec.tasks"),
        ("minAvailable", "spec.minAvailable"),
        ("mpi", "spec.plugins.mpi"),
        ("queue", "spec.queue"),
    ):
        if word in sentence:
            return path
    return "spec.policies" if "polic" in sentence or "event" in sentence else "spec"


def _suggestion(kind: Kind, path: str, message: str) -> str:
    """The name that was probably meant, for a field, a plugin or a word nobody knows."""
    *parents, last = parse_field_path(path) or ("",)
    if choice := _NOT_ONE_OF.match(message):
        last, known = choice[1], re.findall(r'"([^"]*)"', choice[2])
    elif message == "unknown field":
        known = list(_schema_at(kind, tuple(parents)).get("properties") or {})
    elif message.startswith("unable to find job plugin"):
        known = list(registered())
    else:
        return ""
    close = difflib.get_close_matches(str(last), known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _remedy_of_queue(message: str, queues: Collection[str]) -> str:
    """Which queues there are, where a job names another; how the one it names is opened."""
    if shut := _SHUT_QUEUE.search(message):
        return f" (to open it: hekla queue operate {shut[1]} --action open)"
    missing, there = _NO_QUEUE.match(message), sorted(set(queues) - {ROOT_QUEUE})
    if missing is None or not there:
        return ""
    if close := difflib.get_close_matches(missing[1], there, n=1):
        return f" (did you mean {close[0]!r}?)"
    named = ", ".join([*there[:_MOST_QUEUES], *(["…"] if there[_MOST_QUEUES:] else [])])
    return f" (there are {named}; to make it: hekla queue create {missing[1]})"


def _schema_at(kind: Kind, path: FieldPath) -> dict[str, Any]:
    """The part of a CRD's schema that describes a field; empty where none of ours does."""
    place: dict[str, Any] = {}
    for crd in load_crds():
        if (crd["spec"]["group"], crd["spec"]["names"]["kind"]) == (kind.group, kind.kind):
            place = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in path:
        inner = place.get("items") if isinstance(part, int) else (place.get("properties") or {}).get(part)
        place = inner or place.get("additionalProperties") or {}
    return place


def _remove(obj: Obj, path: str) -> bool:
    """Take a field out of a copy, of a list what the item says: the others keep their places. Whether it was there."""
    *parents, last = (*parse_field_path(path), "") if path.endswith(".") else parse_field_path(path)
    place: object = obj
    for part in parents:
        if isinstance(place, dict):
            place = place.get(part)
        elif isinstance(place, list) and isinstance(part, int) and part < len(place):
            place = place[part]
        else:
            return False
    if isinstance(place, list) and isinstance(last, int) and last < len(place):
        place[last] = None
        return True
    return isinstance(place, dict) and place.pop(last, None) is not None
