"""Sending a manifest's objects to a cluster; what the server refuses comes back with file, line and field."""

from __future__ import annotations

import asyncio
import random
import re
from copy import deepcopy

import click

from hekla.api.kinds import JOB, QUEUE, Kind, Obj, kind_of
from hekla.api.meta import name_of, namespace_of, uid_of
from hekla.cli.manifest import BadFile, Document, parse_field_path
from hekla.client.rest import Client
from hekla.client.watch import Relisted, follow
from hekla.errors import AlreadyExists, ApiError, BadRequest, Forbidden, HeklaError, Invalid, UsageError

_WEBHOOK = re.compile(r'^admission webhook "[^"]*" denied the request: ')
_STRICT = re.compile(r'(unknown|duplicate) field "([^"]+)"')
_QUEUE_SECONDS = 10.0


def check_documents(documents: list[Document], namespace: str = "") -> None:
    """What can be said before a server is asked: each document is an object of a known kind with a name."""
    problems = [problem for document in documents for problem in _problems(document)]
    if problems:
        raise BadFile("\n".join(problems))
    for document in documents:
        if namespace and require_kind(document).namespaced:
            document.obj["metadata"].setdefault("namespace", namespace)
        while document.warnings:
            click.echo(f"warning: {document.warnings.pop(0)}", err=True)


def require_kind(document: Document) -> Kind:
    kind = kind_of(document.obj)
    if kind is None:
        raise BadFile(f"{document.file}:{document.line}: unknown kind {document.obj.get('kind')!r}")
    return kind


async def submit_all(client: Client, documents: list[Document], namespace: str) -> Obj:
    """Create a file's objects, what the job needs first; the Job. When one is refused, none of them stays."""
    check_documents(documents, namespace)
    created: list[tuple[Kind, Obj]] = []
    try:
        for document in sorted(documents, key=lambda document: kind_of(document.obj) is JOB):
            kind = require_kind(document)
            if kind is not JOB and await client.find(kind, name_of(document.obj), namespace_of(document.obj)):
                click.echo(f"{kind.kind} {name_of(document.obj)!r} is there already and used as it is", err=True)
                continue
            made = await create_document(client, document)
            created.append((kind, made))
            if kind is QUEUE:
                await _wait_until_open(client, name_of(made))
    except HeklaError:
        for kind, obj in reversed(created):
            await client.delete(kind, name_of(obj), namespace_of(obj), uid=uid_of(obj))
        raise
    return created[-1][1]


async def create_document(client: Client, document: Document, *, dry_run: bool = False) -> Obj:
    """Create the object as written; unknown fields are mistakes, and all mistakes are told at once."""
    kind = require_kind(document)
    try:
        return await client.create(kind, document.obj, field_validation="Strict", dry_run=dry_run)
    except AlreadyExists:
        name = name_of(document.obj)
        remedy = f"hekla job delete {name}" if kind is JOB else f"kubectl delete {kind.singular} {name}"
        raise UsageError(
            f"{kind.kind} {name!r} exists already: delete it (`{remedy}`), rename yours, or use metadata.generateName"
        ) from None
    except (Invalid, BadRequest, Forbidden) as error:
        raise BadFile("\n".join(await _explain(client, kind, document, error))) from None


async def _explain(client: Client, kind: Kind, document: Document, error: ApiError) -> list[str]:
    """One line a mistake. A server stops at unknown fields: ask it again without them, for what else is wrong."""
    lines = explain_refusal(document, error)
    unknown = [path for what, path in _STRICT.findall(error.message) if what == "unknown"]
    if not unknown:
        return lines
    rest = deepcopy(document.obj)
    for path in unknown:
        _remove(rest, path)
    try:
        await client.create(kind, rest, field_validation="Ignore", dry_run=True)
    except (Invalid, BadRequest, Forbidden) as further:
        lines += explain_refusal(document, further)
    except ApiError:
        pass
    return lines


def explain_refusal(document: Document, error: ApiError) -> list[str]:
    """One line a mistake: file, line, field, what is wrong."""
    causes = (error.details or {}).get("causes") or []
    located = [
        (str(cause.get("field", "")), str(cause.get("message", "")))
        for cause in causes
        if cause.get("field") and cause.get("field") != "<nil>"
    ]
    if located:
        return [_at(document, path, message) for path, message in located]
    unknown = [(f"{what} field", path) for what, path in _STRICT.findall(error.message)]
    if unknown:
        return [_at(document, path, what) for what, path in unknown]
    message = _WEBHOOK.sub("", error.message).strip()
    parts = [part.strip() for part in message.split(";") if part.strip()]
    return [_at(document, field_of(document.obj, part), part) for part in parts] or [message]


def field_of(job: Obj, sentence: str) -> str:
    """Admission's sentences name their field in words; the path of what they speak about."""
    tasks = (job.get("spec") or {}).get("tasks") or []
    names = [str(task.get("name", "")) for task in tasks]
    if match := re.search(r"duplicated task name (\S+)", sentence):
        places = [index for index, name in enumerate(names) if name == match[1]]
        return f"spec.tasks[{places[1]}].name" if len(places) > 1 else "spec.tasks"
    if match := re.search(r"in task: ([^\s,;]+)", sentence):
        task = f"spec.tasks[{names.index(match[1])}]" if match[1] in names else "spec.tasks"
        return f"{task}.minAvailable" if "minAvailable" in sentence else task
    if match := re.search(r"spec\.task\[(\d+)\]", sentence):
        return f"spec.tasks[{match[1]}].template"
    if match := re.search(r"job plugin: (\S+)", sentence):
        return f"spec.plugins.{match[1]}"
    for word, path in (("minAvailable", "spec.minAvailable"), ("mpi", "spec.plugins.mpi"), ("queue", "spec.queue")):
        if word in sentence:
            return path
    return "spec.policies" if "polic" in sentence or "event" in sentence else "spec"


def _at(document: Document, path: str, message: str) -> str:
    return f"{document.file}:{document.line_of(path)}: {path}: {message}"


def _remove(obj: Obj, path: str) -> None:
    """Take a field out of a copy, if it is there."""
    *parents, last = parse_field_path(path)
    place: object = obj
    for part in parents:
        if isinstance(place, dict):
            place = place.get(part)
        elif isinstance(place, list) and isinstance(part, int) and part < len(place):
            place = place[part]
        else:
            return
    if isinstance(place, dict):
        place.pop(last, None)


async def _wait_until_open(client: Client, queue: str) -> None:
    """A queue takes jobs once its controller has opened it."""
    selector = f"metadata.name={queue}"
    try:
        async with asyncio.timeout(_QUEUE_SECONDS):
            async for change in follow(client, QUEUE, field_selector=selector, rng=random.Random()):
                seen = change.items if isinstance(change, Relisted) else [change.obj]
                if any((obj.get("status") or {}).get("state") for obj in seen):
                    return
    except TimeoutError:
        waited = f"{_QUEUE_SECONDS:.0f} s"
        raise UsageError(f"queue {queue!r} was not opened in {waited}: are the controllers running?") from None


def _problems(document: Document) -> list[str]:
    obj, where = document.obj, f"{document.file}:{document.line}"
    found = [f"{where}: {key} is missing" for key in ("apiVersion", "kind") if not obj.get(key)]
    meta = obj.get("metadata")
    named = isinstance(meta, dict) and (meta.get("name") or meta.get("generateName"))
    if not named and obj.get("kind") != "List":
        found.append(f"{where}: metadata.name is missing")
    if not found and kind_of(obj) is None:
        found.append(
            f"{document.file}:{document.line_of('kind')}: {obj['apiVersion']} {obj['kind']} is not a kind Hekla knows"
        )
    return found
