"""What upstream's scheduler made of small scenarios, recorded on a real API server; and how a run compares with it.

A file holds a configuration, objects, steps taken later, and for each stage the pods, groups and queues as they
came to rest, then all Events. Firm are placements, conditions, phases at rest and queue statuses. Of Events every
text of ours has to be one of upstream's; of upstream's, those have to be told that are not about a passing moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "recordings"
DIFFERENCES = Path(__file__).parent / "recordings-differences.yaml"

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ORIGIN = re.compile(r"Origin reason is [a-z0-9.-]+:")
_STEP = re.compile(r"pod group is (not ready, \d+ minAvailable|ready, .*\d+ Binding.*)")
_MISSING = object()


@dataclass(frozen=True, eq=False)
class Recording:
    name: str
    config: str
    given: Sequence[Mapping[str, Any]]
    steps: Sequence[Mapping[str, Any]]
    stages: Sequence[Mapping[str, Any]]
    events: Mapping[str, Sequence[str]]
    varies: Mapping[str, Any]
    kubelet: str

    @property
    def nodes(self) -> list[str]:
        return [obj["metadata"]["name"] for obj in self.given if obj.get("kind") == "Node"]

    @property
    def spread_label(self) -> str | None:
        """The node label over whose values the recording counts a group's pods, where it does."""
        counted = (key for stage in self.stages for group in stage["groups"].values() for key in group["pods"])
        return next((key.removeprefix("different ") for key in counted if key.startswith("different ")), None)

    def plain(self, text: str) -> str:
        """A message without what differs from run to run: uids, the node where several would do."""
        text = _ORIGIN.sub("Origin reason is <pod>:", _UID.sub("<uid>", text))
        if len(self.nodes) < 2:
            return text
        return re.sub(rf"(?<![\w.-])({'|'.join(map(re.escape, self.nodes))})(?![\w-])", "<node>", text)


@cache
def load(name: str) -> Recording:
    document = yaml.load((FOLDER / f"{name}.yaml").read_text(), Loader=yaml.CSafeLoader)
    return Recording(
        name=document["scenario"],
        config=document["config"],
        given=document["given"],
        steps=document.get("steps", ()),
        stages=document["stages"],
        events=document["events"],
        varies=document.get("varies", {}),
        kubelet=document.get("kubelet", ""),
    )


def all_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def explained() -> dict[str, Any]:
    """Differences that are meant, and recordings that wait for a part not built yet; each with its reason."""
    found: dict[str, Any] = yaml.safe_load(DIFFERENCES.read_text())
    return found


def unexplained(recording: Recording, stages: Sequence[Mapping[str, Any]], events: Mapping[str, Any]) -> dict[str, str]:
    """What differs and is not meant to, and what is meant to differ and does not."""
    found = compare(recording, stages, events)
    meant = set(explained()["different"].get(recording.name, {}))
    stale = dict.fromkeys(meant - set(found), "explained, but the same as upstream's")
    return {path: text for path, text in found.items() if path not in meant} | stale


def compare(recording: Recording, stages: Sequence[Mapping[str, Any]], events: Mapping[str, Any]) -> dict[str, str]:
    """What differs, by path; nothing where upstream's own runs differed."""
    found: dict[str, str] = {}
    for number, (_, got) in enumerate(zip(recording.stages, stages, strict=True)):
        found.update(_stage_differences(recording, number, got))
    found.update(_event_differences(recording, events))
    return {path: text for path, text in found.items() if not _varies(recording, path)}


def stage_agrees(recording: Recording, number: int, got: Mapping[str, Any]) -> bool:
    """Whether this stage differs from upstream's in what it is meant to, and in nothing else."""
    meant = explained()["different"].get(recording.name, {})
    found = {path for path, _ in _stage_differences(recording, number, got) if not _varies(recording, path)}
    return found == {path for path in meant if path.startswith(f"stages[{number}].")}


def _stage_differences(recording: Recording, number: int, got: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for part in ("pods", "groups", "queues"):
        yield from _differences(recording, recording.stages[number][part], got[part], f"stages[{number}].{part}")


def _varies(recording: Recording, path: str) -> bool:
    # Events of a varying object are compared with all texts seen instead, see below.
    return any(path == known or path.startswith((f"{known}.", f"{known}[")) for known in recording.varies)


def _differences(recording: Recording, want: Any, got: Any, path: str) -> Iterator[tuple[str, str]]:
    if path.endswith(".phases"):
        return  # which moments were seen depends on the rhythm
    if isinstance(want, dict) and isinstance(got, dict):
        for key in [*want, *(key for key in got if key not in want)]:
            yield from _differences(recording, want.get(key, _MISSING), got.get(key, _MISSING), f"{path}.{key}")
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for number, (one, other) in enumerate(zip(want, got)):
            yield from _differences(recording, one, other, f"{path}[{number}]")
    elif _comparable(recording, want) != _comparable(recording, got):
        if path.endswith(".node") and want is _MISSING:
            return  # any node would have done
        if path.endswith(".nominated") and want is True and got is not _MISSING:
            return
        yield path, f"upstream {_shown(want)}, ours {_shown(got)}"


def _comparable(recording: Recording, value: Any) -> Any:
    return recording.plain(value) if isinstance(value, str) and " " in value else value


def _shown(value: Any) -> str:
    return "nothing" if value is _MISSING else repr(value)


def _event_differences(recording: Recording, events: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for who in sorted({*recording.events, *events}):
        path = f"events.{who}"
        varying = recording.varies.get(path, ())
        if isinstance(varying, str):
            continue  # pods that are alike: which of them it was may differ
        firm = {recording.plain(text) for text in recording.events.get(who, ())}
        possible = firm | {recording.plain(text) for text in varying}
        told = {recording.plain(text) for text in events.get(who, ())}
        for text in sorted(told - possible):
            yield f"{path} extra", text
        for text in sorted(firm - told):
            if not _is_passing(recording, text):
                yield f"{path} missing", text


def _is_passing(recording: Recording, text: str) -> bool:
    """Whether a complaint was true for a moment only: at no stage's end does a condition say it.

    We say that something waits once it has waited; what has changed by then is never said. Steps that gangs take on
    their way are.
    """
    kind, _, message = text.partition(": ")
    if kind not in ("Warning Unschedulable", "Warning FailedScheduling"):
        return False
    message = message.partition("tasks in gang unschedulable: ")[2] or message
    if kind == "Warning Unschedulable" and _STEP.fullmatch(message):
        return False  # told at once
    return not any(message in standing for standing in _standing_messages(recording))


def _standing_messages(recording: Recording) -> Iterator[str]:
    for stage in recording.stages:
        for pod in stage["pods"].values():
            yield recording.plain((pod.get("PodScheduled") or {}).get("message", ""))
        for group in stage["groups"].values():
            # An Unschedulable condition stays beside the later Scheduled one of a group that runs.
            for condition in group["conditions"] if group["phase"] in ("Pending", "Inqueue", "Unknown") else ():
                yield recording.plain(condition.get("message", ""))
