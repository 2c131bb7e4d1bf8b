"""Case files of plugins: read, and every misspelt word told, since it would make a case that cannot fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hekla.cli.manifest import BadFile
from hekla.scheduler.trial.cases import EXPECTATIONS, GIVEN, STEP
from hekla.scheduler.trial.objects import WORDS

Case = dict[str, Any]
_OF_SCHEDULER = ("name", "arguments", "config", "linger", "expect", "then", *GIVEN)
_CANNOT_FAIL = "is empty: such a case cannot fail"
_OF_JOB = ("name", "arguments", "job", "expect", "refused")


def read_cases(path: Path, *, of_job_plugin: bool) -> list[Case]:
    import yaml

    try:
        cases = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadFile(f"{path}: {error}") from None
    except (ValueError, LookupError, AttributeError):
        raise BadFile(f"{path}: a value is not what its tag says") from None
    if not isinstance(cases, list) or not all(isinstance(case, dict) and case.get("name") for case in cases):
        raise BadFile(f"{path}: must be a list of cases, each with a `name`")
    find = _job_mistakes if of_job_plugin else _scheduler_mistakes
    mistakes = [f"{path}: case {case['name']!r}: {mistake}" for case in cases for mistake in find(case)]
    if mistakes:
        raise BadFile("\n".join(mistakes))
    return cases


def _job_mistakes(case: Case) -> Iterator[str]:
    yield from _unknown(case, _OF_JOB, "")
    expected = case.get("expect")
    if "refused" in case:
        if expected:
            yield "expect: nothing is made of a job that is refused"
    elif not isinstance(expected, list):
        yield "expect: must be a list of objects, each with what is expected of it"
    elif not expected or not all(expected):
        yield f"expect: {_CANNOT_FAIL}"


def _scheduler_mistakes(case: Case) -> Iterator[str]:
    yield from _unknown(case, _OF_SCHEDULER, "")
    yield from _mistaken_expectations(case, "")
    yield from _mistaken_objects(case, "")
    steps = case.get("then") or []
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        yield "then: must be a list of steps"
        return
    if not any(step.get("expect") for step in (case, *steps)):
        yield f"expect: {_CANNOT_FAIL}"
    for number, step in enumerate(steps):
        place = f"then[{number}]."
        yield from _unknown(step, STEP, place)
        yield from _mistaken_expectations(step, place)
        if isinstance(step.get("add"), dict):
            yield from _unknown(step["add"], GIVEN, f"{place}add.")
            yield from _mistaken_objects(step["add"], f"{place}add.")


def _mistaken_objects(given: Case, place: str) -> Iterator[str]:
    for part, words in WORDS.items():
        of_part = given.get(part)
        if not isinstance(of_part, list):
            # How many pods a group has may be said with a number.
            if of_part is not None and not (part == "pods" and isinstance(of_part, int)):
                yield f"{place}{part}: must be a list"
            continue
        for number, each in enumerate(of_part):
            here = f"{place}{part}[{number}]"
            if not isinstance(each, dict):
                yield f"{here}: must be a mapping"
                continue
            yield from _unknown(each, words, f"{here}.")
            if part == "groups":
                yield from _mistaken_objects({"pods": each.get("pods")}, f"{here}.")


def _mistaken_expectations(step: Case, place: str) -> Iterator[str]:
    if isinstance(step.get("expect"), dict):
        yield from _unknown(step["expect"], tuple(EXPECTATIONS), f"{place}expect.")
    else:
        yield f"{place}expect: must say what is expected: {', '.join(EXPECTATIONS)}"


def _unknown(given: Case, known: tuple[str, ...], place: str) -> Iterator[str]:
    for word in given:
        if word not in known:
            yield f"{place}{word}: unknown (known: {', '.join(known)})"
