"""`hekla plugin test`: a plugin of one's own, tried out before any cluster knows it."""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from hekla.admission.job import default_job
from hekla.api.job_plugins import flags_of
from hekla.api.kinds import Obj
from hekla.cli.main import EXIT_FAILED
from hekla.cli.manifest import BadFile
from hekla.cli.output import style
from hekla.cli.plugin_cases import Case, read_cases
from hekla.controllers.job import trial as job_trial
from hekla.controllers.job.model import Job
from hekla.controllers.job.plugin import PluginRefused
from hekla.errors import HeklaError
from hekla.scheduler.config import DEFAULT_CONFIG
from hekla.scheduler.extension import SchedulerPlugin
from hekla.scheduler.registry import run_file
from hekla.scheduler.trial.cases import run_case
from hekla.scheduler.trial.trace import Day, run_day
from hekla.scheduler.trial.within import Document, as_document, with_plugin, without_plugin
from hekla.scheduler.watchdog import BUDGET_SECONDS, Watchdog

# What somebody else's code may raise; who exits there has its own end in mind.
_RAISED = (Exception, SystemExit)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group()
def plugin() -> None:
    """Try out plugins of your own."""


@plugin.command("test")
@click.argument("file", type=_FILE)
@click.option("--cases", type=_FILE, default=None, help="Cases to run (default: NAME.cases.yaml beside FILE).")
@click.option("--scheduler-conf", type=_FILE, default=None, help="A configuration to try a scheduler plugin in.")
@click.option("--seed", default=0, help="Which made-up day to run it on.")
def try_out(file: Path, cases: Path | None, scheduler_conf: Path | None, seed: int) -> int:
    """Run the scheduler plugin or job plugin in FILE on cases of yours, and on made-up clusters or jobs.

    \b
    Example:  hekla plugin test examples/scheduler-plugin/plugins/maintenance.py
    """
    factory = _job_plugin(file)
    found = cases or file.with_suffix(".cases.yaml")
    given = read_cases(found, of_job_plugin=factory is not None) if found.exists() else []
    report = _Report()
    if factory is not None:
        _try_job_plugin(report, file.stem, factory, given)
    else:
        text = scheduler_conf.read_text() if scheduler_conf is not None else DEFAULT_CONFIG
        base = as_document(text, str(scheduler_conf or "built-in configuration"))
        _try_scheduler_plugin(report, file, base, given, seed)
    if not given:
        click.echo(f"\nNo cases: write some into {found}, a list of clusters or jobs and what must become of them.")
    return EXIT_FAILED if report.failed else 0


class _Report:
    def __init__(self) -> None:
        self.failed = False

    def tell(self, what: str, problems: list[str]) -> None:
        self.failed |= bool(problems)
        click.echo(f"  {style('✘', 'red') if problems else style('✔', 'green')} {what}")
        for problem in problems:
            click.echo(f"      {problem}")


def _try_scheduler_plugin(report: _Report, file: Path, base: Document, cases: list[Case], seed: int) -> None:
    name = file.stem
    config = with_plugin(base, file, {})
    kind = next(entry.plugin for tier in config.tiers for entry in tier if entry.name == name)
    points = [each.__name__ for each in kind.__bases__ if each is not SchedulerPlugin]
    click.echo(f"{name}: a scheduler plugin for {', '.join(points) or 'nothing'}")
    for argument, declared in kind.ARGUMENTS.items():
        click.echo(f"  {argument}: {declared.default!r}")
    if cases:
        click.echo("\ncases")
    for case in cases:
        report.tell(case["name"], _problems_of(partial(_scheduler_case, case, base, file)))
    day = run_day(config, seed, time.perf_counter, Watchdog(BUDGET_SECONDS))
    click.echo(f"\na made-up day: {day.jobs} jobs, {day.pods} pods, {day.cycles} cycles")
    report.tell("nodes never overfull, gangs whole, the same answer twice, no errors", list(day.problems))
    _tell_apart(day, run_day(without_plugin(base, file), seed, time.perf_counter))


def _scheduler_case(case: Case, base: Document, file: Path) -> list[str]:
    config = with_plugin(case.get("config", base), file, case.get("arguments") or {})
    return run_case(case, config, Watchdog(BUDGET_SECONDS))


def _tell_apart(day: Day, without: Day) -> None:
    """What difference the plugin makes; whether that was meant only its author knows."""
    moved = sum(1 for pod, node in day.nodes.items() if without.nodes.get(pod, node) != node)
    click.echo(f"    a cycle took {day.milliseconds_a_cycle:.1f} ms, without it {without.milliseconds_a_cycle:.1f} ms")
    click.echo(f"    {moved} pods went to other nodes; {len(day.nodes)} got one, without it {len(without.nodes)}")
    for reason in sorted(day.waited.keys() | without.waited.keys()):
        with_it, otherwise = len(day.waited.get(reason, ())), len(without.waited.get(reason, ()))
        click.echo(f"    {with_it} jobs waited with {reason}, without it {otherwise}")


def _try_job_plugin(report: _Report, name: str, factory: Any, cases: list[Case]) -> None:
    click.echo(f"{name}: a job plugin")
    for flag in flags_of(factory) or ():
        click.echo(f"  --{flag.name}: {flag.default!r}  {flag.help}")
    if cases:
        click.echo("\ncases")
    for case in cases:
        report.tell(case["name"], _problems_of(partial(_job_case, name, factory, case)))
    click.echo("\nmade-up jobs")
    taken = [job for job in job_trial.sample_jobs(name, []) if not _is_refused(report, factory, job)]
    # A job without pods says little of a plugin that shapes them.
    if not any(job.replicas for job in taken) and not any("expect" in case for case in cases):
        untried = "it refuses every made-up job: write a case with one that it takes"
        report.tell("something of it was tried", [untried])


def _is_refused(report: _Report, factory: Any, job: Job) -> bool:
    """Tell what the plugin makes of the job, or that it refuses it: then there is nothing to look at."""
    tasks = ", ".join(f"{task.name} ×{task.replicas}" for task in job.tasks)
    try:
        problems = list(job_trial.broken_rules(factory, job, []))
    except PluginRefused as error:
        click.echo(f"  - {tasks} (refused: {error})")
        return True
    except _RAISED as error:
        problems = [_told(error)]
    report.tell(tasks, problems)
    return False


def _job_case(name: str, factory: Any, case: Case) -> list[str]:
    arguments = case.get("arguments") or []
    job = job_trial.case_job(_as_stored(case.get("job")), name, arguments)
    try:
        made = job_trial.made_of(factory, job, arguments)
    except PluginRefused as error:
        return [] if str(error) == case.get("refused") else [f"refused: {error}"]
    if "refused" in case:
        return [f"not refused, though it should be: {case['refused']}"]
    wanted = case.get("expect") or []
    return [
        f"nothing like {each} was made" for each in wanted if not any(job_trial.is_part_of(each, one) for one in made)
    ]


def _as_stored(job: Obj | None) -> Obj | None:
    """With what a server fills in where its user leaves it out."""
    if job is not None:
        job = copy.deepcopy(job)
        default_job(job)
    return job


def _problems_of(attempt: Callable[[], Iterable[str]]) -> list[str]:
    """What is wrong, an error of the plugin's included: it is somebody else's code, and may raise anything."""
    try:
        return list(attempt())
    except _RAISED as error:
        return [_told(error)]


def _told(error: BaseException) -> str:
    return str(error) if isinstance(error, HeklaError) else f"{type(error).__name__}: {error}"


def _job_plugin(file: Path) -> Any:
    """The file's class, if it is one that shapes pods; None where it is a scheduler plugin's file."""
    module = _module(file)
    own = [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__]
    shaping = [each for each in own if hasattr(each, "shape_pod") and hasattr(each, "objects")]
    if len(shaping) == 1:
        return shaping[0]
    if not any(issubclass(each, SchedulerPlugin) for each in own):
        raise BadFile(f"{file}: no plugin in it: neither a SchedulerPlugin nor one class with shape_pod and objects")
    return None


def _module(file: Path) -> ModuleType:
    try:
        return run_file(file, f"hekla_tried_{file.stem}")
    except _RAISED as error:
        # Whatever the author's file raises is what is wrong with it.
        raise BadFile(f"{file}: {type(error).__name__}: {error}") from error
