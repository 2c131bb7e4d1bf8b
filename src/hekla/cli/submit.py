"""Sending a manifest's objects to a cluster; what the server refuses comes back with file, line and field."""

from __future__ import annotations

import asyncio
import difflib
import json
import random

import click

from hekla.api.kinds import BATCH_JOB, BUILT_IN_KINDS, JOB, QUEUE, VOLCANO_KINDS, Kind, Obj, kind_of
from hekla.api.meta import name_of, namespace_of, uid_of
from hekla.api.names import label_problems
from hekla.cli.likeness import is_as_written
from hekla.cli.manifest import BadFile, Document, Mistake, locate
from hekla.cli.vcctl import is_vcctl
from hekla.client.rest import Client
from hekla.client.watch import Relisted, follow
from hekla.errors import AlreadyExists, BadRequest, Forbidden, HeklaError, Invalid, UsageError

_QUEUE_SECONDS = 10.0
_MOST_LINES = 5  # of a file, to be named
_LIKENESS = 0.8  # of what was written to what was meant


def check_documents(documents: list[Document], namespace: str = "") -> None:
    """What can be said before a server is asked: each document is an object of a known kind with a name."""
    problems = [locate(document, *problem) for document in documents for problem in document_problems(document)]
    if problems:
        raise BadFile("\n".join(problems))
    for document in documents:
        if namespace and require_kind(document).namespaced:
            document.obj["metadata"].setdefault("namespace", namespace)
        while document.warnings:
            click.echo(f"warning: {document.warnings.pop(0)}", err=True)


def only_job(documents: list[Document], command: str) -> Document:
    """The Job of a file that should hold one; a command can do nothing with others."""
    jobs = [document for document in documents if kind_of(document.obj) is JOB]
    if len(jobs) == 1:
        return jobs[0]
    needed = f"{documents[0].file}: `hekla {command}` needs exactly one batch.volcano.sh Job in the file"
    if jobs:
        lines = ", ".join([*(str(job.line) for job in jobs[:_MOST_LINES]), *(["…"] if jobs[_MOST_LINES:] else [])])
        raise BadFile(f"{needed}, found {len(jobs)} (lines {lines}); `hekla up` and `kubectl apply -f` run them all")
    beginning = f"a Job begins with `apiVersion: {JOB.api_version}`"
    others = "other kinds need a cluster that stays: `hekla up`, then `kubectl apply -f`"
    held = ", ".join(sorted({f"{one.obj.get('apiVersion')} {one.obj.get('kind')}" for one in documents}))
    raise BadFile(f"{needed}, found only {held}; {beginning}; {others}")


def require_kind(document: Document) -> Kind:
    kind = kind_of(document.obj)
    if kind is None:
        raise BadFile(f"{document.file}:{document.line}: unknown kind {document.obj.get('kind')!r}")
    return kind


async def submit_all(client: Client, documents: list[Document], namespace: str, *, flags: str = "") -> Obj:
    """Create a file's objects, what the job needs first; the Job. When one is refused, none of them stays.

    `flags` lead other commands to the same cluster.
    """
    check_documents(documents, namespace)
    created: list[tuple[Kind, Obj]] = []
    try:
        for document in sorted(documents, key=lambda document: kind_of(document.obj) is JOB):
            kind = require_kind(document)
            if kind is not JOB and (
                found := await client.find(kind, name_of(document.obj), namespace_of(document.obj))
            ):
                click.echo(_told_of_existing(document, kind, found), err=True)
                continue
            made = await create_document(client, document, flags=flags + namespace_flag(document.obj, namespace))
            created.append((kind, made))
            if kind is QUEUE:
                await _wait_until_open(client, name_of(made))
    except HeklaError:
        for kind, obj in reversed(created):
            await client.delete(kind, name_of(obj), namespace_of(obj), uid=uid_of(obj))
        raise
    return created[-1][1]


def _told_of_existing(document: Document, kind: Kind, found: Obj) -> str:
    name = f"{kind.kind} {name_of(document.obj)!r}"
    if is_as_written(kind, document.obj, found):
        return f"{name} is there already and used as it is"
    # Often a script that was edited since the last run: who overlooks this would look for their change in vain.
    other = f"is there already with other content than in {document.file}, and used as it is"
    return f"warning: {name} {other}: delete it first to use the file's"


def namespace_flag(obj: Obj, default: str) -> str:
    """What a command needs to look for the object where it is, and not in the default namespace."""
    return f" -n {namespace_of(obj)}" if namespace_of(obj) and namespace_of(obj) != default else ""


async def create_document(client: Client, document: Document, *, dry_run: bool = False, flags: str = "") -> Obj:
    """Create the object as written; unknown fields are mistakes, and all mistakes are told at once."""
    kind = require_kind(document)
    if is_vcctl():
        # parity: scripts around vcctl look for the server's own words.
        return await client.create(kind, document.obj)
    try:
        return await client.create(kind, document.obj, field_validation="Strict", dry_run=dry_run)
    except AlreadyExists:
        name = name_of(document.obj)
        remedy = f"hekla job delete {name}{flags}" if kind is JOB else f"kubectl delete {kind.singular} {name}"
        raise UsageError(
            f"{kind.kind} {name!r} exists already: delete it (`{remedy}`), rename yours, or use metadata.generateName"
        ) from None
    except (Invalid, BadRequest, Forbidden) as error:
        # Loaded when there is something to tell: it brings all of admission with it.
        from hekla.cli.refusal import all_mistakes

        mistakes = await all_mistakes(client, kind, document, error)
        raise BadFile("\n".join(locate(document, *mistake) for mistake in mistakes)) from None


async def _wait_until_open(client: Client, queue: str) -> None:
    """A queue takes jobs once its controller has opened it."""
    selector = f"metadata.name={queue}"
    try:
        async with asyncio.timeout(_QUEUE_SECONDS):
            async for news in follow(client, QUEUE, field_selector=selector, rng=random.Random()):
                seen = news.items if isinstance(news, Relisted) else [change.obj for change in news]
                if any((obj.get("status") or {}).get("state") for obj in seen):
                    return
    except TimeoutError:
        waited = f"{_QUEUE_SECONDS:.0f} s"
        raise UsageError(f"queue {queue!r} was not opened in {waited}: are the controllers running?") from None


def document_problems(document: Document) -> list[Mistake]:
    """What keeps a document from being sent anywhere at all."""
    obj = document.obj
    found: list[Mistake] = [("", f"{key} is missing") for key in ("apiVersion", "kind") if not obj.get(key)]
    meta = obj.get("metadata")
    misread = _misread_metadata(meta)
    named = isinstance(meta, dict) and (meta.get("name") or meta.get("generateName"))
    if not named and obj.get("kind") != "List" and not misread:
        found.append(("", "metadata.name is missing"))
    found += misread
    namespace = meta.get("namespace") if isinstance(meta, dict) and not misread else None
    if namespace and (wrong := label_problems(namespace)):
        found.append(("metadata.namespace", f"no namespace can be called {namespace!r}: {wrong[0]}"))
    if not found and kind_of(obj) is None:
        found.append(("kind", _unknown_kind(str(obj["apiVersion"]), str(obj["kind"]))))
    if kind_of(obj) is BATCH_JOB and isinstance(obj.get("spec"), dict) and "tasks" in obj["spec"]:
        # Without this each of its fields would be told to be unknown.
        found.append(("apiVersion", f"a Job with tasks is Volcano's: write {JOB.api_version}"))
    return found


def _misread_metadata(meta: object) -> list[Mistake]:
    """What of it is of the wrong type: YAML takes `name: 1234` for a number and `on: true` for a truth."""
    if not isinstance(meta, dict):
        return [] if meta is None else [("metadata", f"must be a mapping, not {meta!r}")]
    texts = {f"metadata.{name}": meta.get(name) for name in ("name", "generateName", "namespace")}
    found: list[Mistake] = []
    for path, held in ((f"metadata.{name}", meta.get(name)) for name in ("labels", "annotations")):
        if isinstance(held, dict):
            texts |= {f"{path}[{key}]": value for key, value in held.items()}
        elif held is not None:
            found.append((path, f"must be a mapping, not {held!r}"))
    wrong = ((path, value) for path, value in texts.items() if not isinstance(value, str | None))
    return found + [(path, f"must be text, not {_as_written(value)}") for path, value in wrong]


def _as_written(value: object) -> str:
    return f"{json.dumps(value)}: put it in quotes" if isinstance(value, bool | int | float) else repr(value)


def _unknown_kind(version: str, name: str) -> str:
    known = VOLCANO_KINDS + BUILT_IN_KINDS
    close = difflib.get_close_matches(name.lower(), [kind.kind.lower() for kind in known], n=1, cutoff=_LIKENESS)
    found = {kind.api_version: kind.kind for kind in known if kind.kind.lower() in close}
    nearest = difflib.get_close_matches(version, found, n=1, cutoff=0.0)
    meant = f" (did you mean {nearest[0]} {found[nearest[0]]}?)" if nearest else ""
    return f"{version} {name} is not a kind Hekla knows{meant}"
