"""Sending a manifest's objects to a cluster; what the server refuses comes back with file and line."""

from __future__ import annotations

import re

import click

from hekla.api.kinds import Kind, Obj, kind_of
from hekla.api.meta import name_of
from hekla.cli.manifest import BadFile, Document
from hekla.client.rest import Client
from hekla.errors import AlreadyExists, ApiError, BadRequest, Forbidden, Invalid, UsageError

_WEBHOOK = re.compile(r'^admission webhook "[^"]*" denied the request: ')
_STRICT = re.compile(r'(unknown|duplicate) field "([^"]+)"')


def check_documents(documents: list[Document], namespace: str) -> None:
    """What can be said before a server is asked: each document is an object of a known kind with a name."""
    problems = [problem for document in documents for problem in _problems(document)]
    if problems:
        raise BadFile("\n".join(problems))
    for document in documents:
        kind = require_kind(document)
        if kind.namespaced:
            document.obj["metadata"].setdefault("namespace", namespace)
        for warning in document.warnings:
            click.echo(f"warning: {warning}", err=True)


def require_kind(document: Document) -> Kind:
    kind = kind_of(document.obj)
    if kind is None:
        raise BadFile(f"{document.file}:{document.line}: unknown kind {document.obj.get('kind')!r}")
    return kind


async def create_document(client: Client, document: Document, *, dry_run: bool = False) -> Obj:
    """Create the object as written; unknown fields are mistakes, and all mistakes are told at once."""
    kind = require_kind(document)
    try:
        return await client.create(kind, document.obj, field_validation="Strict", dry_run=dry_run)
    except AlreadyExists:
        name = name_of(document.obj)
        raise UsageError(
            f"{kind.kind} {name!r} exists already: delete it (`hekla job delete {name}`), "
            "rename yours, or use metadata.generateName"
        ) from None
    except (Invalid, BadRequest, Forbidden) as error:
        raise BadFile("\n".join(explain_refusal(document, error))) from None


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
    return [f"{document.file}:{document.line_of(_guess_field(part))}: {part}" for part in parts] or [message]


def _at(document: Document, path: str, message: str) -> str:
    return f"{document.file}:{document.line_of(path)}: {path}: {message}"


def _guess_field(message: str) -> str:
    """Admission's sentences name their field in words; find the line a person should look at."""
    if "minAvailable" in message and "in task" not in message:
        return "spec.minAvailable"
    if "task name" in message or "in task" in message:
        return "spec.tasks"
    if "plugin" in message:
        return "spec.plugins"
    if "queue" in message:
        return "spec.queue"
    return "spec"


def _problems(document: Document) -> list[str]:
    obj, where = document.obj, f"{document.file}:{document.line}"
    found = [f"{where}: {key} is missing" for key in ("apiVersion", "kind") if not obj.get(key)]
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
        found.append(f"{where}: metadata.name is missing")
    if not found and kind_of(obj) is None:
        found.append(
            f"{document.file}:{document.line_of('kind')}: {obj['apiVersion']} {obj['kind']} is not a kind Hekla knows"
        )
    return found
