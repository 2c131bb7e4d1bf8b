"""`hekla lint FILE`: everything that is wrong or doubtful in a file, found with no cluster at hand."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from hekla.api.kinds import CRON_JOB, JOB, JOB_TEMPLATE, POD, Kind, Obj
from hekla.api.meta import name_of, namespace_of
from hekla.cli.advice import advice_for
from hekla.cli.main import EXIT_BAD_FILE
from hekla.cli.manifest import BadFile, Document, Mistake, read_manifest, shortened
from hekla.cli.output import style
from hekla.cli.parameters import output_option
from hekla.cli.refusal import all_mistakes, mistakes_in
from hekla.cli.submit import document_problems, require_kind
from hekla.client.rest import Client
from hekla.controllers.cronjob.decision import job_name
from hekla.controllers.job.model import read_job
from hekla.errors import AlreadyExists, ApiError
from hekla.local.offline import offline_cluster, take_for_granted


@dataclass(frozen=True, slots=True)
class Finding:
    severity: str
    """`error`: a server refuses it; `warning`: it is taken, but will hardly do what was meant."""
    file: str
    line: int
    field: str
    message: str


# Where what Jobs are made of stands in it.
_TEMPLATES: dict[Kind, tuple[str, ...]] = {CRON_JOB: ("spec", "jobTemplate"), JOB_TEMPLATE: ()}
# A Job of a CronJob is called after its time, and any is as long.
_SOME_DAY = datetime(2030, 1, 1, tzinfo=UTC)
_NAMELESS = "job"  # for one that has no name yet, or one that is refused as it is


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@output_option("text", "json")
def lint(files: tuple[str, ...], output: str) -> int:
    """Find what is wrong in job files, and what will not do what was hoped. Needs no cluster.

    \b
    0 nothing would be refused, 3 something would
    Example:  hekla lint examples/hello-gang/job.yaml
    """
    findings = [finding for file in files for finding in asyncio.run(lint_file(file))]
    if output == "json":
        click.echo(json.dumps([_as_dict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(_as_line(finding))
        click.echo(_summary(files, findings))
    return EXIT_BAD_FILE if any(finding.severity == "error" for finding in findings) else 0


async def lint_file(file: str) -> list[Finding]:
    """Findings in the order of the file. Its objects see each other: a queue in it counts for a job in it."""
    try:
        documents = read_manifest(file)
    except BadFile as error:
        return [_told_with_place("error", file, str(error))]
    findings: list[Finding] = []
    warnings: list[str] = []
    async with offline_cluster(warnings.append) as client:
        # Jobs and pods last: what they name may come after them in the file.
        for document in sorted(documents, key=lambda one: one.obj.get("kind") in (JOB.kind, POD.kind)):
            # What the file itself is warned about may be what else is wrong.
            findings += [_told_with_place("warning", document.file, text) for text in document.warnings]
            findings += await _lint_document(client, document, warnings)
    return sorted(findings, key=lambda finding: finding.line)


async def _lint_document(client: Client, document: Document, warnings: list[str]) -> list[Finding]:
    problems = document_problems(document)
    if problems:
        return [_finding("error", document, *problem) for problem in problems]
    kind = require_kind(document)
    await take_for_granted(client, kind, document.obj)
    warnings.clear()
    try:
        made = await client.create(kind, document.obj, field_validation="Strict")
    except AlreadyExists:
        return [_finding("error", document, "metadata.name", f"a second {kind.kind} of this name in one file")]
    except ApiError as error:
        told = await all_mistakes(client, kind, document, error)
        known = {path for path, _ in told}
        named = document.obj if "metadata.name" not in known else {}
        more = [one for one in await _lint_template(client, document, kind, named) if one.field not in known]
        return [_finding("error", document, *mistake) for mistake in told] + more
    found = [_finding("warning", document, *_split(text)) for text in warnings]
    if kind is JOB:
        found += [_finding("warning", document, *advice) for advice in advice_for(read_job(made))]
    return found + await _lint_template(client, document, kind, made)


async def _lint_template(client: Client, document: Document, kind: Kind, named: Obj) -> list[Finding]:
    """A server takes what Jobs will be made of as it is, and refuses each of these Jobs later.

    `named` is what it is called, as far as that is known.
    """
    path = _TEMPLATES.get(kind)
    if path is None:
        return []
    template = document.obj
    for part in path:
        template = _mapping(template.get(part))
    metadata = {"name": _name_of_job(named, kind), "namespace": namespace_of(document.obj) or "default"}
    spec = _mapping(template.get("spec"))
    job = {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": metadata, "spec": spec}
    await take_for_granted(client, JOB, job)
    above = ".".join([*path, ""])
    try:
        made = await client.create(JOB, job, dry_run=True)
    except ApiError as error:
        told = [(f"{above}{field}", f"each Job made of it is refused: {why}") for field, why in mistakes_in(job, error)]
        return [_finding("error", document, *mistake) for mistake in told]
    return [_finding("warning", document, f"{above}{field}", text) for field, text in advice_for(read_job(made))]


def _name_of_job(named: Obj, kind: Kind) -> str:
    """What a Job made of it is called, as far as that is known: a flow puts its own name before a template's."""
    if not _mapping(named.get("metadata")).get("name"):
        return _NAMELESS
    return job_name(named, _SOME_DAY) if kind is CRON_JOB else name_of(named)


def _mapping(value: object) -> Obj:
    return value if isinstance(value, dict) else {}


def _split(warning: str) -> Mistake:
    """`spec.plugins[svc]: what is wrong`: the field a warning begins with, if it begins with one."""
    path, colon, message = warning.partition(": ")
    return (path, message) if colon and path.startswith("spec") else ("", warning)


def _told_with_place(severity: str, file: str, text: str) -> Finding:
    """What the reader of manifests says of a file begins with where it is."""
    place = re.match(rf"{re.escape(file)}:(?:(\d+):(?:\d+:)?)? ", text)
    return Finding(severity, file, int(place[1] or 1) if place else 1, "", text[place.end() if place else 0 :])


def _finding(severity: str, document: Document, path: str, message: str) -> Finding:
    return Finding(severity, document.file, document.line_of(path), path, shortened(message))


def _as_line(finding: Finding) -> str:
    severity = style(finding.severity, "red" if finding.severity == "error" else "yellow")
    field = f"{finding.field}: " if finding.field else ""
    return f"{finding.file}:{finding.line}: {severity}: {field}{finding.message}"


def _as_dict(finding: Finding) -> Obj:
    return {name: getattr(finding, name) for name in ("severity", "file", "line", "field", "message")}


def _summary(files: tuple[str, ...], findings: list[Finding]) -> str:
    looked = files[0] if len(files) == 1 else f"{len(files)} files"
    counts = {what: sum(finding.severity == what for finding in findings) for what in ("error", "warning")}
    told = [f"{count} {what}{'s' if count > 1 else ''}" for what, count in counts.items() if count]
    return f"{looked}: {', '.join(told) if told else 'nothing to complain about'}"
