"""Claims for storage: each is given a directory of this machine, and none goes while a pod uses it.

Any claim, of whatever storage class, gets a volume of its own below one folder; the folder `<volume>` is made before
the claim counts as bound and goes with the claim (unless somebody has set the volume's reclaim policy to Retain). How
much fits into it is up to the disk. Claims that name no class are of the class `standard`, as on other small clusters.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from hekla.api.core import CLAIM_PROTECTION
from hekla.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS, Obj
from hekla.api.meta import Key, is_deleting, key_of, name_of, namespace_of, uid_of
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.errors import AlreadyExists, HeklaError, NotFound
from hekla.log import get_logger
from hekla.node.directory import remove_tree

log = get_logger("claims")

_CLASS = "standard"
_DIRECTORIES = "hekla.local/directory"
_IN_USE_SECONDS = 1.0
_PROVISIONER = {"pv.kubernetes.io/provisioned-by": _DIRECTORIES}
_BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}


class InUse(HeklaError):
    """A pod still has the volume mounted."""


class ClaimController:
    """Without a folder, claims are only protected; their volumes are up to others."""

    def __init__(self, client: Client, folder: Path | None, *, rng: random.Random) -> None:
        self._client = client
        self._folder = folder
        self._claims = Informer(client, PERSISTENT_VOLUME_CLAIM, rng=rng)
        self._volumes = Informer(client, PERSISTENT_VOLUME, rng=rng)
        self._queue: WorkQueue[Key] = WorkQueue()

    async def run(self) -> None:
        self._claims.subscribe(self._observe_claim)
        self._volumes.subscribe(self._observe_volume)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._claims.run())
                group.create_task(self._volumes.run())
                group.create_task(self._work())
        finally:
            self._queue.close()

    def _observe_claim(self, update: Update) -> None:
        self._queue.add(key_of(update.obj))

    def _observe_volume(self, update: Update) -> None:
        claim = (update.obj.get("spec") or {}).get("claimRef") or {}
        if claim.get("name"):
            self._queue.add(Key(claim.get("namespace", ""), claim["name"]))

    async def _work(self) -> None:
        await self._claims.synced()
        await self._volumes.synced()
        if self._folder is not None:
            await self._offer_class()
        while True:
            key = await self._queue.get()
            try:
                await self._reconcile(key)
                self._queue.forget(key)
            except InUse as error:
                self._queue.add_after(key, _IN_USE_SECONDS)
                log.debug("waits for pods", claim=key.name, error=error)
            except (HeklaError, OSError) as error:
                delay = self._queue.retry(key)
                log.debug("will look again", claim=key.name, seconds=delay, error=error)
            finally:
                self._queue.done(key)

    async def _offer_class(self) -> None:
        annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
        wanted = {
            "apiVersion": STORAGE_CLASS.api_version,
            "kind": STORAGE_CLASS.kind,
            "metadata": {"name": _CLASS, "annotations": annotations},
            "provisioner": _DIRECTORIES,
        }
        while True:
            try:
                if await self._client.find(STORAGE_CLASS, _CLASS) is None:
                    await self._client.create(STORAGE_CLASS, wanted)
                return
            except AlreadyExists:
                return
            except HeklaError as error:
                log.warning("class not offered yet", name=_CLASS, error=error)
                await asyncio.sleep(1.0)

    async def _reconcile(self, key: Key) -> None:
        claim = await self._client.find(PERSISTENT_VOLUME_CLAIM, key.name, key.namespace)
        if claim is not None and is_deleting(claim):
            await self._let_go(claim, key)
            return
        if self._folder is not None:
            await self._provide(claim, key, self._folder)

    async def _let_go(self, claim: Obj, key: Key) -> None:
        """A claim that is to go goes when no pod uses it any more."""
        finalizers = claim["metadata"].get("finalizers") or []
        if CLAIM_PROTECTION not in finalizers:
            return
        await self._check_unused(key)
        left = [one for one in finalizers if one != CLAIM_PROTECTION]
        identity = {"uid": uid_of(claim), "resourceVersion": claim["metadata"]["resourceVersion"]}
        patch = {"metadata": {**identity, "finalizers": left}}
        await self._client.patch(PERSISTENT_VOLUME_CLAIM, key.name, patch, key.namespace)

    async def _provide(self, claim: Obj | None, key: Key, folder: Path) -> None:
        for volume in self._volumes.all():
            owner = volume["spec"].get("claimRef") or {}
            if (owner.get("namespace"), owner.get("name")) == (key.namespace, key.name) and (
                claim is None or owner.get("uid") != uid_of(claim)
            ):
                await self._release(volume, key, folder)
        if claim is not None and (claim.get("status") or {}).get("phase") != "Bound" and not _is_taken(claim):
            await self._bind(claim, folder)

    async def _bind(self, claim: Obj, folder: Path) -> None:
        volume = volume_for(claim, folder)
        _make(folder / name_of(volume))
        try:
            await self._client.create(PERSISTENT_VOLUME, volume)
        except AlreadyExists:
            pass
        await self._client.patch(
            PERSISTENT_VOLUME, name_of(volume), {"status": {"phase": "Bound"}}, subresource="status"
        )
        where = (name_of(claim), namespace_of(claim))
        identity = {"uid": uid_of(claim)}
        patch = {"metadata": {**identity, "annotations": _BOUND}, "spec": {"volumeName": name_of(volume)}}
        await self._client.patch(PERSISTENT_VOLUME_CLAIM, where[0], patch, where[1])
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"]["accessModes"],
            "capacity": volume["spec"]["capacity"],
        }
        await self._client.patch(
            PERSISTENT_VOLUME_CLAIM, where[0], {"metadata": identity, "status": status}, where[1], subresource="status"
        )
        log.info("bound", claim=where[0], namespace=where[1], volume=name_of(volume))

    async def _check_unused(self, key: Key) -> None:
        pods = await self._client.find_all(POD, key.namespace)
        users = [name_of(pod) for pod in pods if uses_claim(pod, key.name)]
        if users:
            raise InUse(f"{key.name} is used by {', '.join(users)}")

    async def _release(self, volume: Obj, key: Key, folder: Path) -> None:
        """The claim is gone: what it held goes too, once nobody uses it."""
        if not (volume["metadata"].get("annotations") or {}).items() >= _PROVISIONER.items():
            return
        if volume["spec"].get("persistentVolumeReclaimPolicy") != "Delete":
            return
        await self._check_unused(key)
        await asyncio.to_thread(remove_tree, folder / name_of(volume))
        try:
            await self._client.delete(PERSISTENT_VOLUME, name_of(volume), uid=uid_of(volume))
        except NotFound:
            pass


def volume_for(claim: Obj, folder: Path) -> Obj:
    """The volume made for a claim; named after its uid, so that it is made once."""
    spec = claim["spec"]
    name = f"pvc-{uid_of(claim)}"
    made = {
        "capacity": (spec.get("resources") or {}).get("requests") or {"storage": "1Gi"},
        "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": spec.get("storageClassName") or "",
        "volumeMode": "Filesystem",
        "hostPath": {"path": str(folder / name), "type": "DirectoryOrCreate"},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace_of(claim),
            "name": name_of(claim),
            "uid": uid_of(claim),
        },
    }
    metadata = {"name": name, "annotations": _PROVISIONER}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": made}


def uses_claim(pod: Obj, name: str) -> bool:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    volumes = pod["spec"].get("volumes") or ()
    return any((each.get("persistentVolumeClaim") or {}).get("claimName") == name for each in volumes)


def _make(directory: Path) -> None:
    # Open to whatever user a pod runs as; the data dir around it is closed to others.
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    directory.chmod(0o777)


def _is_taken(claim: Obj) -> bool:
    """Whether it names a volume that somebody else provides."""
    wanted = claim["spec"].get("volumeName")
    return bool(wanted) and wanted != f"pvc-{uid_of(claim)}"
