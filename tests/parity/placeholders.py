"""What differs from run to run, replaced by what it stands for: uids, times, addresses, random names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hekla.api.kinds import Obj

Seen = tuple[str, str, Obj]
"""Plural, watch type and object, in the order in which they were seen."""

KINDS = {
    "jobs": "Job", "cronjobs": "CronJob", "commands": "Command", "podgroups": "PodGroup", "queues": "Queue",
    "jobflows": "JobFlow", "jobtemplates": "JobTemplate", "pods": "Pod", "services": "Service",
    "configmaps": "ConfigMap", "secrets": "Secret", "persistentvolumeclaims": "PersistentVolumeClaim",
    "networkpolicies": "NetworkPolicy", "events": "Event",
}  # fmt: skip

_DAY = r"\d{4}-\d\d-\d\d"
_TIME = re.compile(_DAY + r"[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?( [+-]\d{4} \w+)?( m=\+[\d.]+)?")
_TIME_FIELD = re.compile(r"(Time|Timestamp|At)$")
_NODE_COUNT = re.compile(r"\b\d+/\d+ nodes|\b\d+ node\(s\)")
_CHOICES = re.compile(r"(valid (?:events|actions) are )(?:map)?\[([^]]*)\]")
_WORDS = re.compile(r"[,\s]+")
_PLAIN = (
    (re.compile(r"(?<=-)(?:2[89]\d{6}|3\d{7})\b"), "<minute>"),
    (re.compile(r"\b0x[0-9a-f]{8,}\b"), "<pointer>"),
    (re.compile(r"https?://127\.0\.0\.1:\d+"), "<server>"),
)
_ADDRESSES = ("podIP", "hostIP", "ip", "clusterIP", "clusterIPs")


class Placeholders:
    """Built from everything that was seen of a case, then used on its objects and texts."""

    def __init__(self, seen: Iterable[Seen], nodes: Iterable[str] = ()) -> None:
        listed = list(seen)
        words = {**_random_names(listed), **_uids(listed)}
        # A uid's placeholder may name an object whose own name holds a uid: that of a PodGroup.
        self._words = {old: _replace(new, {k: v for k, v in words.items() if k != old}) for old, new in words.items()}
        self._pattern = _alternatives(self._words)
        names = "|".join(re.escape(name) for name in sorted(nodes, key=len, reverse=True))
        self._nodes = re.compile(rf"(?<![\w.-])({names})(?![\w-])") if names else None

    def text(self, text: str) -> str:
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: self._words[found.group()], text)
        if self._nodes is not None:
            text = self._nodes.sub("<node>", text)
        text = _TIME.sub("<time>", text)
        text = _NODE_COUNT.sub(lambda found: re.sub(r"\d+", "<n>", found.group()), text)
        text = _CHOICES.sub(lambda found: f"{found[1]}[{' '.join(sorted(_WORDS.split(found[2])))}]", text)
        for pattern, word in _PLAIN:
            text = pattern.sub(word, text)
        head, *faults = text.split("\n* ")
        return "\n* ".join([head, *sorted(faults)]) if head.endswith(" is invalid: ") else text

    def value(self, value: Any, field: str = "") -> Any:
        """Any JSON value; `field` is the key it was found under."""
        if isinstance(value, dict):
            return {self.text(key): self.value(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, field) for item in value]
        if not isinstance(value, str):
            return value
        if field in _ADDRESSES and value != "None":
            return "<ip>"
        if field == "runningDuration":
            return "<duration>"
        if _TIME_FIELD.search(field) and re.match(_DAY, value):
            return "<time>"
        return self.text(value)


def _uids(seen: list[Seen]) -> dict[str, str]:
    words: dict[str, str] = {}
    for plural, _, obj in seen:
        if plural != "events":
            words.setdefault(obj["metadata"]["uid"], f"<uid:{KINDS[plural]}/{obj['metadata']['name']}>")
    for _, _, obj in seen:
        for owner in obj["metadata"].get("ownerReferences") or ():
            words.setdefault(owner["uid"], f"<uid:{owner['kind']}/{owner['name']}>")
    return words


def _random_names(seen: list[Seen]) -> dict[str, str]:
    words: dict[str, str] = {}
    jobs = {obj["metadata"]["name"] for plural, _, obj in seen if plural == "jobs"}
    generated = set()
    for plural, _, obj in seen:
        metadata = obj["metadata"]
        if plural == "commands" and metadata.get("generateName"):
            words[metadata["name"]] = metadata["generateName"] + "<random>"
        elif plural == "pods":
            words |= _volume_names(obj, jobs)
            if metadata.get("generateName"):
                generated.add(metadata["name"])
        elif plural == "jobs":
            for index, volume in enumerate(obj["spec"].get("volumes") or ()):
                match = re.search(r"-pvc-([0-9a-z]{12})$", volume.get("volumeClaimName") or "")
                if match:
                    words[match[1]] = f"<random:{index}>"
    return words | {name: f"{name[:-5]}<random:{index}>" for index, name in enumerate(sorted(generated))}


def _volume_names(pod: Obj, jobs: set[str]) -> dict[str, str]:
    words: dict[str, str] = {}
    volumes = pod["spec"].get("volumes") or []
    for index, volume in enumerate(one for one in volumes if "persistentVolumeClaim" in one):
        job, _, suffix = volume["name"].rpartition("-")
        if job in jobs and len(suffix) == 12:
            words[suffix] = f"<random:{index}>"
    for volume in volumes:
        if re.fullmatch(r"kube-api-access-[0-9a-z]{5}", volume["name"]):
            words[volume["name"]] = "kube-api-access-<random>"
    return words


def _replace(text: str, words: dict[str, str]) -> str:
    pattern = _alternatives(words)
    return pattern.sub(lambda found: words[found.group()], text) if pattern is not None else text


def _alternatives(words: dict[str, str]) -> re.Pattern[str] | None:
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if words else None
