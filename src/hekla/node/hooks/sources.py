"""ConfigMaps and Secrets a pod refers to: which ones, and reading keys out of those that were fetched.

The worker fetches what `references` names; `env` and `volumes` then decide from a `Sources` without any I/O.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from hekla.api.kinds import Obj

SourceKind = Literal["configmap", "secret"]
_LABELS: dict[SourceKind, str] = {"configmap": "ConfigMap", "secret": "Secret"}


class MissingSource(Exception):
    """Something a container needs is not there (yet). The text names it, in the kubelet's words."""


@dataclass(frozen=True)
class Place:
    """A path of the machine: `below` is in `root`, and opened so that it never leads out, whoever changes it."""

    root: str
    below: str = ""


@dataclass(frozen=True)
class Sources:
    """What was found, by kind and name; tokens by (audience, seconds); paths by volume."""

    namespace: str
    found: dict[tuple[SourceKind, str], Obj] = field(default_factory=dict)
    tokens: dict[tuple[str, int], str] = field(default_factory=dict)
    paths: dict[str, Place] = field(default_factory=dict)  # of volumes that are directories of the machine
    services: dict[str, str] = field(default_factory=dict)  # variables that say where Services are

    def data(self, kind: SourceKind, name: str, *, optional: bool = False) -> dict[str, bytes]:
        """All keys. An optional object that is not there has none."""
        obj = self.found.get((kind, name))
        if obj is None:
            if optional:
                return {}
            raise MissingSource(f'{kind} "{name}" not found')
        return _decoded(kind, obj)

    def key(self, kind: SourceKind, name: str, key: str, *, optional: bool = False) -> bytes | None:
        data = self.data(kind, name, optional=optional)
        if key not in data and not optional:
            raise MissingSource(f"couldn't find key {key} in {_LABELS[kind]} {self.namespace}/{name}")
        return data.get(key)


def references(pod: Obj) -> list[tuple[SourceKind, str]]:
    """Every ConfigMap and Secret the pod mentions, each once, in the order of mention."""
    return list(dict.fromkeys(_mentions(pod["spec"])))


def mounted(pod: Obj) -> list[tuple[SourceKind, str]]:
    """Those that volumes show, and so may change while the pod runs."""
    return list(dict.fromkeys(_shown(pod["spec"])))


def token_requests(pod: Obj) -> list[tuple[str, int]]:
    """Audience and lifetime of every service account token the pod's volumes ask for."""
    return list(
        dict.fromkeys(
            (str(token.get("audience") or ""), int(token.get("expirationSeconds") or 3600))
            for volume in pod["spec"].get("volumes") or ()
            for source in (volume.get("projected") or {}).get("sources") or ()
            if (token := source.get("serviceAccountToken"))
        )
    )


def _mentions(spec: Obj) -> Iterator[tuple[SourceKind, str]]:
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        for entry in container.get("envFrom") or ():
            yield from _named(entry.get("configMapRef"), entry.get("secretRef"))
        for entry in container.get("env") or ():
            source = entry.get("valueFrom") or {}
            yield from _named(source.get("configMapKeyRef"), source.get("secretKeyRef"))
    yield from _shown(spec)


def _shown(spec: Obj) -> Iterator[tuple[SourceKind, str]]:
    for volume in spec.get("volumes") or ():
        yield from _volume_mentions(volume)
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from _named(source.get("configMap"), source.get("secret"))


def _volume_mentions(volume: Obj) -> Iterator[tuple[SourceKind, str]]:
    if "configMap" in volume:
        yield "configmap", volume["configMap"]["name"]
    if "secret" in volume:
        yield "secret", volume["secret"]["secretName"]


def _named(config_map: Obj | None, secret: Obj | None) -> Iterator[tuple[SourceKind, str]]:
    if config_map and config_map.get("name"):
        yield "configmap", config_map["name"]
    if secret and secret.get("name"):
        yield "secret", secret["name"]


def _decoded(kind: SourceKind, obj: Obj) -> dict[str, bytes]:
    if kind == "secret":
        return {key: base64.b64decode(value or "") for key, value in (obj.get("data") or {}).items()}
    data = {key: str(value).encode() for key, value in (obj.get("data") or {}).items()}
    data.update({key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()})
    return data
