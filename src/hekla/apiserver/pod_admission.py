"""What the real server's own admission does to every new pod: its service account and its priority."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any

from hekla.api.kinds import PRIORITY_CLASS, Obj
from hekla.api.meta import name_of, namespace_of, parse_timestamp
from hekla.apiserver.identity import random_suffix
from hekla.apiserver.store.store import Entry, Key, Store
from hekla.clock import Clock
from hekla.errors import Forbidden

DEFAULT_ACCOUNT = "default"
ROOT_CA_CONFIG_MAP = "kube-root-ca.crt"
_API_ACCESS = "kube-api-access-"
_API_ACCESS_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
# A little over an hour: nodes that see exactly this number know that nobody chose it.
_TOKEN_SECONDS = 3607
_MIRROR = "kubernetes.io/config.mirror"
# A new namespace is given its account by a controller: so long after its creation, pods wait for that.
_ACCOUNT_PATIENCE = timedelta(seconds=10)
_ACCOUNTS = "/serviceaccounts"
_PREEMPTS = "PreemptLowerPriority"
_CLASSES = f"{PRIORITY_CLASS.group}/{PRIORITY_CLASS.plural}"


class PodAdmission:
    def __init__(self, store: Store, *, clock: Clock, rng: random.Random) -> None:
        self._store = store
        self._clock = clock
        # Its name tells nothing and is only seen inside the pod: pods made alike stay alike.
        self._token_volume = _API_ACCESS + random_suffix(rng)

    async def admit(self, pod: Obj) -> None:
        """Change the pod as admission would. Raises Forbidden when its account or its class does not exist."""
        await self._give_account(pod)
        self._give_priority(pod)

    async def _give_account(self, pod: Obj) -> None:
        spec = pod["spec"]
        if _MIRROR in (pod["metadata"].get("annotations") or {}):
            if spec.get("serviceAccountName"):
                raise _forbidden(pod, "a mirror pod may not reference service accounts")
            return
        wanted = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
        spec["serviceAccountName"] = spec["serviceAccount"] = wanted
        entry = await self._account(namespace_of(pod), wanted)
        if entry is None:
            place = f"{namespace_of(pod)}/{wanted}"
            raise _forbidden(pod, f'error looking up service account {place}: serviceaccount "{wanted}" not found')
        account = entry.peek()
        if _wants_token(spec, account):
            mount_token(spec, self._token_volume)
        secrets = account.get("imagePullSecrets")
        if secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": each.get("name", "")} for each in secrets]

    async def _account(self, namespace: str, name: str) -> Entry | None:
        key = Key(_ACCOUNTS, namespace, name)
        entry = self._store.newest(key)
        if entry is not None or name != DEFAULT_ACCOUNT:
            return entry
        try:
            async with asyncio.timeout(self._patience(namespace)):
                while entry is None:
                    await self._store.changed(_ACCOUNTS, self._store.revision)
                    entry = self._store.newest(key)
        except TimeoutError:
            return None
        return entry

    def _patience(self, namespace: str) -> float:
        entry = self._store.newest(Key("/namespaces", "", namespace))
        if entry is None:
            return 0.0
        born = parse_timestamp(entry.decode()["metadata"]["creationTimestamp"])
        return (born + _ACCOUNT_PATIENCE - self._clock.now()).total_seconds()

    def _give_priority(self, pod: Obj) -> None:
        spec = pod["spec"]
        wanted = spec.get("priorityClassName")
        if wanted:
            entry = self._store.newest(Key(_CLASSES, "", wanted))
            if entry is None:
                raise _forbidden(pod, f"no PriorityClass with name {wanted} was found")
            found = entry.decode()
        else:
            found = self._default_class() or {}
            if found:
                spec["priorityClassName"] = name_of(found)
        for field, shown, value in (
            ("priority", "integer value of priority", found.get("value", 0)),
            ("preemptionPolicy", "string value of PreemptionPolicy", found.get("preemptionPolicy", _PREEMPTS)),
        ):
            given = spec.get(field)
            if given is not None and given != value:
                why = f"the {shown} ({given}) must not be provided in pod spec; priority admission controller computed"
                raise _forbidden(pod, f"{why} {value} from the given PriorityClass name")
            spec[field] = value

    def _default_class(self) -> Obj | None:
        for entry in self._store.entries(_CLASSES):
            if b'"globalDefault":true' in entry.value:
                return entry.decode()
        return None


def carry_priority(new: Obj, old: Obj) -> None:
    """What admission gave a pod stays where an update leaves it unsaid."""
    for field in ("priority", "preemptionPolicy"):
        if field in old["spec"]:
            new.setdefault("spec", {}).setdefault(field, old["spec"][field])


def mount_token(spec: Obj, new_name: str) -> None:
    """Have every container see a token of the pod's account, unless it has something else in that place."""
    volumes = spec.get("volumes") or []
    present = next((name for each in volumes if (name := str(each.get("name", ""))).startswith(_API_ACCESS)), None)
    name = present or new_name
    mounted = False
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        mounts = container.setdefault("volumeMounts", [])
        if all(each.get("mountPath") != _API_ACCESS_PATH for each in mounts):
            mounts.append({"name": name, "readOnly": True, "mountPath": _API_ACCESS_PATH})
            mounted = True
    if mounted and present is None:
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_source()}]


def _token_source() -> dict[str, Any]:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": ROOT_CA_CONFIG_MAP, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }


def _wants_token(spec: Obj, account: Obj) -> bool:
    for said in (spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken")):
        if said is not None:
            return bool(said)
    return True


def _forbidden(pod: Obj, why: str) -> Forbidden:
    name = str(pod["metadata"].get("name", ""))
    return Forbidden(f'pods "{name}" is forbidden: {why}', details={"name": name, "kind": "pods"})
