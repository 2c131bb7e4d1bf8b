from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from hekla.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS, Obj
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.clock import LoopClock
from hekla.local.builtins.claims import ClaimController
from tests import make
from tests.integration.virtual_loop import run_virtually


def on_server(script: Callable[[Client], Awaitable[None]], folder: Path | None) -> None:
    async def main() -> None:
        clock, rng = LoopClock(), random.Random(0)
        app = build_app(MemoryStore(clock), clock=clock, rng=rng)
        await app.start()
        client = Client(InProcessTransport(app))
        running = asyncio.create_task(ClaimController(client, folder, rng=rng).run())
        try:
            await asyncio.sleep(1)
            await script(client)
        finally:
            running.cancel()
            await asyncio.wait([running])

    run_virtually(main())


def claim(name: str, **spec: object) -> Obj:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": asked}


def test_a_claim_that_names_no_class_is_of_the_default_one_and_gets_a_directory(tmp_path: Path) -> None:
    async def script(client: Client) -> None:
        made = await client.create(PERSISTENT_VOLUME_CLAIM, claim("plain"))
        assert made["spec"]["storageClassName"] == "standard"
        named = await client.create(PERSISTENT_VOLUME_CLAIM, claim("named", storageClassName="fast"))
        assert named["spec"]["storageClassName"] == "fast"
        none = await client.create(PERSISTENT_VOLUME_CLAIM, claim("none", storageClassName=""))
        assert none["spec"]["storageClassName"] == ""
        await asyncio.sleep(5)
        bound = await client.get(PERSISTENT_VOLUME_CLAIM, "plain", "default")
        assert bound["status"]["phase"] == "Bound"
        assert (tmp_path / bound["spec"]["volumeName"]).is_dir()
        assert [one["metadata"]["name"] for one in await client.find_all(STORAGE_CLASS)] == ["standard"]

    on_server(script, tmp_path)


def test_a_claim_goes_only_when_no_pod_uses_it(tmp_path: Path) -> None:
    async def script(client: Client) -> None:
        await client.create(PERSISTENT_VOLUME_CLAIM, claim("shelf"))
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "shelf"}}
        spec = {"containers": [make.container()], "volumes": [volume], "automountServiceAccountToken": False}
        meta = {"name": "user", "namespace": "default"}
        await client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        await asyncio.sleep(5)
        await client.delete(PERSISTENT_VOLUME_CLAIM, "shelf", "default")
        await asyncio.sleep(60)
        kept = await client.get(PERSISTENT_VOLUME_CLAIM, "shelf", "default")
        assert kept["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        await client.delete(POD, "user", "default", grace_seconds=0)
        await asyncio.sleep(5)
        assert await client.find(PERSISTENT_VOLUME_CLAIM, "shelf", "default") is None
        assert await client.find_all(PERSISTENT_VOLUME) == []
        assert list(tmp_path.iterdir()) == []

    on_server(script, tmp_path)


def test_without_a_folder_claims_are_only_protected() -> None:
    async def script(client: Client) -> None:
        made = await client.create(PERSISTENT_VOLUME_CLAIM, claim("shelf"))
        assert "storageClassName" not in made["spec"]
        await asyncio.sleep(5)
        found = await client.get(PERSISTENT_VOLUME_CLAIM, "shelf", "default")
        assert (found["status"]["phase"], found["metadata"]["finalizers"]) == (
            "Pending",
            ["kubernetes.io/pvc-protection"],
        )
        await client.delete(PERSISTENT_VOLUME_CLAIM, "shelf", "default")
        await asyncio.sleep(5)
        assert await client.find(PERSISTENT_VOLUME_CLAIM, "shelf", "default") is None

    on_server(script, None)
