"""Live objects in the form of the recordings: without an API server's bookkeeping, and with placeholders."""

from __future__ import annotations

import base64
import re

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from hekla.api.kinds import Obj
from tests.parity.placeholders import KINDS, Placeholders, Seen

_BOOKKEEPING = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "selfLink", "uid")
_CLAIM_VOLUME = re.compile(r"-[0-9a-z]{12}$")
_UNSHOWN = ("events", "jobtemplates")


def normal_object(plural: str, obj: Obj, names: Placeholders) -> Obj:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _BOOKKEEPING}
    shown = {**{key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}, "metadata": metadata}
    status = shown.get("status") or {}
    if plural == "pods":
        shown = {"metadata": metadata, "spec": _pod_spec(obj), "status": _only(status, "phase", "reason")}
    elif plural == "secrets":
        shown["data"] = _secret_data(obj.get("data") or {})
    elif plural == "services":
        shown.pop("status", None)
    elif plural == "persistentvolumeclaims":
        shown.pop("status", None)
        shown["spec"] = {key: value for key, value in obj["spec"].items() if key != "volumeName"}
        own = {
            k: v for k, v in (metadata.pop("annotations", None) or {}).items() if not k.startswith(("volume.", "pv."))
        }
        metadata |= {"annotations": own} if own else {}
    elif plural == "jobs" and status.get("conditions"):
        shown["status"] = {**status, "conditions": [one["status"] for one in status["conditions"]]}
    elif plural == "podgroups" and status:
        conditions = [_only(one, "type", "status", "reason", "message") for one in status.get("conditions") or ()]
        shown["status"] = {**status, "conditions": conditions}
    return names.value(shown)  # type: ignore[no-any-return]


def history(seen: list[Seen], names: Placeholders) -> Obj:
    """Phases each object went through, names made more than once, what is gone, key pairs that changed."""
    lives: dict[str, dict[str, dict[str, list[str]]]] = {}
    last: dict[tuple[str, str], str] = {}
    keys: dict[str, list[str]] = {}
    for plural, change, obj in seen:
        metadata = obj["metadata"]
        if plural in _UNSHOWN or metadata["name"] == "kube-root-ca.crt":
            continue
        last[plural, metadata["name"]] = change
        life = lives.setdefault(plural, {}).setdefault(metadata["name"], {}).setdefault(metadata["uid"], [])
        phase = _phase(plural, obj)
        if phase and change != "DELETED" and life[-1:] != [phase]:
            life.append(phase)
        if change != "DELETED" and "id_rsa" in (obj.get("data") or {}):
            keys.setdefault(metadata["name"], []).append(obj["data"]["id_rsa"])
    shown: Obj = {
        plural: {names.text(name): [" > ".join(life) for life in one.values()] for name, one in sorted(found.items())}
        for plural, found in lives.items()
        if plural in _PHASES
    }
    shown["made anew"] = {
        f"{KINDS[plural]}/{names.text(name)}": len(one)
        for plural, found in lives.items()
        for name, one in found.items()
        if len(one) > 1
    }
    shown["deleted"] = sorted(
        f"{KINDS[plural]}/{names.text(name)}"
        for (plural, name), change in last.items()
        if change == "DELETED" and plural != "commands"
    )
    shown["key pairs"] = {name: len(set(pairs)) for name, pairs in keys.items() if len(set(pairs)) > 1}
    return {key: value for key, value in shown.items() if value}


def events(seen: list[Seen], names: Placeholders) -> dict[str, list[str]]:
    """Per object, in order of first appearance, without repetitions."""
    told: dict[str, list[str]] = {}
    for plural, change, obj in seen:
        about = obj.get("involvedObject") or {}
        if plural != "events" or change == "DELETED" or about.get("kind") not in _TALKED_ABOUT:
            continue
        text = f"{obj.get('type')} {obj.get('reason')}: {names.text(obj.get('message') or '')}"
        texts = told.setdefault(f"{about['kind']}/{names.text(about.get('name') or '')}", [])
        if text not in texts:
            texts.append(text)
    return dict(sorted(told.items()))


def command_output(text: str) -> str:
    """What a command printed, without ages, dates and versions."""
    text = re.sub(r"\d{4}-\d\d-\d\d(?!T)", "<date>----", text)
    text = re.sub(r"(?i)((?:resource ?version|generation):\s+)\S+", r"\1<n>", text)
    lines = [line.rstrip() for line in text.splitlines()]
    for index, line in enumerate(lines):
        if not re.match(r"(?i)\s*(cpu|memory)\b", line):
            aged = re.sub(r"(?<![\w.-])(?:\d+[smhd]){1,3}(?!\w)( *)", lambda found: "<age>" + found[1][:1], line)
            lines[index] = aged.rstrip()
    controlled = [index for index, line in enumerate(lines) if re.match(r"\s+(plugin|volume)-\S+:", line)]
    for index, line in zip(controlled, sorted(lines[index] for index in controlled), strict=True):
        lines[index] = line
    return "\n".join(lines)


_TALKED_ABOUT = ("Job", "CronJob", "Command", "PodGroup", "Queue", "JobFlow", "JobTemplate", "Pod", "ConfigMap")
_PHASES = ("jobs", "podgroups", "pods", "queues", "jobflows")


def _phase(plural: str, obj: Obj) -> str:
    if plural not in _PHASES:
        return ""
    status = obj.get("status") or {}
    state = status.get("state")
    phase = status.get("phase") if plural in ("podgroups", "pods") else state
    return str((phase.get("phase") if isinstance(phase, dict) else phase) or "(none)")


def _only(obj: Obj, *keys: str) -> Obj:
    return {key: obj[key] for key in keys if obj.get(key)}


def _pod_spec(pod: Obj) -> Obj:
    spec = dict(pod["spec"])
    job = (pod["metadata"].get("annotations") or {}).get("volcano.sh/job-name")
    if spec.get("nodeName"):
        spec["nodeName"] = "<node>"
    if not job:
        return spec
    for part in ("containers", "initContainers"):
        if spec.get(part):
            spec[part] = [_container(one, job) for one in spec[part]]
    if spec.get("volumes"):
        spec["volumes"] = sorted(spec["volumes"], key=lambda one: _place(one, job))
    return spec


def _container(container: Obj, job: str) -> Obj:
    shown = dict(container)
    if shown["name"] == "wait-for-master":
        shown = {key: value for key, value in shown.items() if key not in ("env", "volumeMounts", "ports")}
        shown["command"] = [*shown["command"][:2], *map(_script, shown["command"][2:])]
    if shown.get("volumeMounts"):
        shown["volumeMounts"] = sorted(shown["volumeMounts"], key=lambda one: _place(one, job))
    return shown


def _place(volume: Obj, job: str) -> tuple[int, str]:
    """The user's in their order, then what plugins add by name (upstream's order is random), then the token."""
    if volume["name"].startswith("kube-api-access-"):
        return 2, ""
    return (1, volume["name"]) if volume["name"] in (f"{job}-svc", f"{job}-ssh") else (0, "")


def _script(text: str) -> str:
    """A script, told by the host and port it names and the other numbers in it."""
    where = re.search(r"([a-z][\w-]*\.[\w.-]+)[: /](\d+)", text)
    host, port = (where[1], where[2]) if where else ("?", "?")
    found = {int(number) for number in re.findall(r"(?<![\w.-])\d+(?![\w.-])", text)}
    numbers = sorted(found - {0, 1, 2, int(port) if port.isdigit() else 0})
    return f"<script: waits for {host}:{port}; numbers {numbers}>"


def _secret_data(data: dict[str, str]) -> Obj:
    """Decoded; a generated key pair is described instead of shown."""
    texts = {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}
    private, public = texts.get("id_rsa", ""), texts.get("id_rsa.pub", "")
    try:
        key = serialization.load_pem_private_key(private.encode(), None)
    except ValueError:
        return texts
    if not isinstance(key, RSAPrivateKey):
        return texts
    lines = private.splitlines()
    shown: Obj = dict(texts)
    shown["id_rsa"] = {
        "pem": lines[0].strip("-"),
        "bits": key.key_size,
        "exponent": key.public_key().public_numbers().e,
        "columns": max(map(len, lines[1:-1])),
        "final newline": private.endswith("\n"),
    }
    if public.startswith("ssh-"):
        kind, blob, *comment = public.split()
        encoding, form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        shown["id_rsa.pub"] = {
            "type": kind,
            "comment": " ".join(comment),
            "belongs to id_rsa": key.public_key().public_bytes(encoding, form).split()[1].decode() == blob,
            "final newline": public.endswith("\n"),
        }
    if texts.get("authorized_keys") == public:
        shown["authorized_keys"] = "<same as id_rsa.pub>"
    return shown
