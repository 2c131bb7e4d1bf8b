"""Every namespace has its account and its certificate, whatever is done to them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

from hekla.api.kinds import CONFIG_MAP, NAMESPACE, POD, SERVICE_ACCOUNT
from hekla.clock import Clock
from hekla.local import builtins
from tests.apiserver.rig import Rig, pod, with_server

QUIET = 30.0


def with_builtins(script: Callable[[Rig], Awaitable[None]], root_ca: str = "CA", clock: Clock | None = None) -> None:
    async def main(rig: Rig) -> None:
        work = builtins.run(rig.client, clock=clock or rig.clock, rng=random.Random(2), root_ca=root_ca)
        running = asyncio.create_task(work)
        try:
            await script(rig)
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    with_server(main)


async def furnished(rig: Rig, namespace: str) -> tuple[bool, str]:
    account = await rig.client.find(SERVICE_ACCOUNT, "default", namespace)
    certificate = await rig.client.find(CONFIG_MAP, "kube-root-ca.crt", namespace) or {}
    return account is not None, (certificate.get("data") or {}).get("ca.crt", "")


def test_old_and_new_namespaces_are_furnished() -> None:
    async def script(rig: Rig) -> None:
        await asyncio.sleep(QUIET)
        await rig.client.create(NAMESPACE, {"metadata": {"name": "new"}})
        await asyncio.sleep(QUIET)
        for namespace in ("default", "kube-system", "new"):
            assert await furnished(rig, namespace) == (True, "CA")

    with_builtins(script)


def test_a_pod_can_be_made_right_after_its_namespace() -> None:
    async def script(rig: Rig) -> None:
        for number in range(20):
            name = f"n{number}"
            await rig.client.create(NAMESPACE, {"metadata": {"name": name}})
            await rig.client.create(POD, {**pod(), "metadata": {"name": "p", "namespace": name}})

    with_builtins(script)


def test_what_is_deleted_or_changed_comes_back() -> None:
    async def script(rig: Rig) -> None:
        await asyncio.sleep(QUIET)
        await rig.client.delete(SERVICE_ACCOUNT, "default", "default")
        await rig.client.patch(CONFIG_MAP, "kube-root-ca.crt", {"data": {"ca.crt": "another"}}, "default")
        await rig.client.delete(CONFIG_MAP, "kube-root-ca.crt", "kube-system")
        await asyncio.sleep(QUIET)
        assert await furnished(rig, "default") == (True, "CA")
        assert await furnished(rig, "kube-system") == (True, "CA")

    with_builtins(script)


def test_a_namespace_that_goes_is_left_alone() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(NAMESPACE, {"metadata": {"name": "brief"}})
        await asyncio.sleep(QUIET)
        await rig.client.delete(NAMESPACE, "brief")
        await asyncio.sleep(QUIET)
        assert await rig.client.find(NAMESPACE, "brief") is None
        assert await furnished(rig, "brief") == (False, "")

    with_builtins(script)
