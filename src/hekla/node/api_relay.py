"""The API server as pods reach it: at the cluster address of the Service `kubernetes`, and through nobody's eyes.

The switch listens at that address inside its network; an agent passes the bytes on to where the server really is. What
passes is TLS between the pod and the server: a pod is let in by its own token, or not at all. Needs no nft.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass, field

from hekla.client.informer import Informer
from hekla.log import get_logger
from hekla.node.exec import Launcher
from hekla.node.ruleset import has_cluster_address
from hekla.node.switch_client import SwitchClient, SwitchError
from hekla.tunnel import tunnel

log = get_logger("node")

_RETRY_SECONDS = 1.0
_CONNECT_SECONDS = 10.0
# Of all pods on this node together: what hangs must not use up the agent.
_MOST_CONNECTIONS = 512

Address = tuple[str, int]


@dataclass
class ApiRelay:
    services: Informer
    switch: SwitchClient
    launcher: Launcher
    server: Address  # where the API server really is
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MOST_CONNECTIONS))

    async def run(self) -> None:
        """Until cancelled. A new switch has a new network: then on a new socket."""
        while True:
            try:
                await self._serve_one_switch()
            except* (SwitchError, OSError) as failures:
                log.warning("pods cannot reach the API server", error=failures.exceptions[0])
                await asyncio.sleep(_RETRY_SECONDS)

    async def environment(self) -> dict[str, str]:
        """What containers are told of it; nothing where the cluster has no such Service."""
        address = await self._address()
        if address is None:
            return {}
        host, port = address
        link = {"": f"tcp://{host}:{port}", "_PROTO": "tcp", "_PORT": str(port), "_ADDR": host}
        return {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": str(port),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(port),
            "KUBERNETES_PORT": f"tcp://{host}:{port}",
            **{f"KUBERNETES_PORT_{port}_TCP{name}": value for name, value in link.items()},
        }

    async def _address(self) -> Address | None:
        await self.services.synced()
        service = self.services.get("kubernetes", "default")
        if service is None or not has_cluster_address(service):
            return None
        return str(service["spec"]["clusterIP"]), int(service["spec"]["ports"][0]["port"])

    async def _serve_one_switch(self) -> None:
        address = await self._address()
        if address is None:
            log.info("the cluster has no Service kubernetes: pods cannot reach the API server")
            await asyncio.Event().wait()
        assert address is not None
        facts = await asyncio.to_thread(self.switch.describe)
        listening = await asyncio.to_thread(self.switch.service_socket, *address)
        try:
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(self._serve(listening))
                await self.launcher.wait_for_end(facts["process"])
                serving.cancel()
        finally:
            listening.close()

    async def _serve(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._slots.acquire()
                try:
                    connection, _ = await loop.sock_accept(listening)
                except BaseException:
                    self._slots.release()
                    raise
                tasks.create_task(self._relay(connection))

    async def _relay(self, connection: socket.socket) -> None:
        try:
            # Whoever is gone without a word is noticed some day, and the slot is free again.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            pod = await asyncio.open_connection(sock=connection)
            with contextlib.closing(pod[1]):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    server = await asyncio.open_connection(*self.server)
                with contextlib.closing(server[1]):
                    server[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    await tunnel(pod, server)
        except (OSError, TimeoutError) as error:
            log.debug("a pod's connection to the API server broke off", error=error)
        finally:
            self._slots.release()
