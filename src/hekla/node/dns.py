"""Names for pods: `<hostname>.<subdomain>.<namespace>.svc.cluster.local`, and Services.

Answered at the bridge address, on sockets the switch made inside its network; all agents of a machine share them, so
each question reaches one agent that is alive. Names outside the cluster's domain are the machine's resolvers' business
(`dns_forwarding.py`) where pods can reach other networks; elsewhere a quick "no" is better than a time-out.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import Any

from dnslib import QTYPE, RCODE, RR, A

from hekla.api.kinds import Obj
from hekla.api.meta import labels_of, name_of, namespace_of
from hekla.client.informer import Informer, Update
from hekla.log import get_logger
from hekla.node.dns_forwarding import Forwarder, is_foreign, parsed
from hekla.node.exec import Launcher
from hekla.node.hooks.hosts import CLUSTER_DOMAIN, pod_hostname
from hekla.node.ruleset import has_cluster_address
from hekla.node.switch_client import SwitchClient, SwitchError

log = get_logger("dns")

_TTL = 5
_LARGEST_UDP = 1232
_TCP_SECONDS = 10.0
_RETRY_SECONDS = 1.0


def service_addresses(service: Obj, pods: list[Obj]) -> dict[str, list[str]]:
    """Hostname to addresses for the pods behind a headless Service; under "" all of them, or the Service's own."""
    spec = service.get("spec") or {}
    selector = spec.get("selector") or {}
    if has_cluster_address(service):
        return {"": [spec["clusterIP"]]}
    if spec.get("clusterIP") != "None" or not selector:
        return {}
    found: dict[str, list[str]] = {"": []}
    for pod in pods:
        if selector.items() <= labels_of(pod).items() and _may_be_named(pod, spec):
            address = pod["status"]["podIP"]
            found[""].append(address)
            if pod["spec"].get("subdomain") == name_of(service) and pod["spec"].get("hostname"):
                found.setdefault(pod_hostname(pod).lower(), []).append(address)
    return found


def _may_be_named(pod: Obj, service_spec: Obj) -> bool:
    status = pod.get("status") or {}
    if not status.get("podIP") or status.get("phase") in ("Succeeded", "Failed"):
        return False
    if service_spec.get("publishNotReadyAddresses"):
        return True
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or ())


@dataclass
class Zone:
    """All names of the cluster. Recomputed per namespace when something in it changed, when next asked."""

    pods: Informer
    services: Informer

    def __post_init__(self) -> None:
        self._names: dict[str, dict[str, list[str]]] = {}
        for informer in (self.pods, self.services):
            informer.subscribe(self._forget)

    def lookup(self, name: str) -> list[str] | None:
        """Addresses of a fully qualified name; None where there is no such name."""
        labels = name.lower().rstrip(".").split(".")
        suffix = ["svc", *CLUSTER_DOMAIN.split(".")]
        if labels[-len(suffix) :] != suffix or len(labels) < len(suffix) + 2:
            return None
        namespace = labels[-len(suffix) - 1]
        return self._namespace(namespace).get(".".join(labels[: -len(suffix) - 1]))

    def _forget(self, update: Update) -> None:
        self._names.pop(namespace_of(update.obj), None)

    def _namespace(self, namespace: str) -> dict[str, list[str]]:
        if namespace not in self._names:
            names: dict[str, list[str]] = {}
            pods = [pod for pod in self.pods.all() if namespace_of(pod) == namespace]
            for service in self.services.all():
                if namespace_of(service) == namespace:
                    for host, addresses in service_addresses(service, pods).items():
                        names[f"{host}.{name_of(service)}".lstrip(".").lower()] = addresses
            self._names[namespace] = names
        return self._names[namespace]


def answer(zone: Zone, question: bytes, *, limit: int | None = None) -> bytes | None:
    """The reply to a DNS message; None for what is not a question. `limit`: longer replies are cut and marked so."""
    asked = parsed(question)
    if asked is None or asked.header.qr or not asked.questions:
        return None
    reply = asked.reply(ra=1, aa=1)
    name, kind = str(asked.q.qname), asked.q.qtype
    addresses = zone.lookup(name)
    if addresses is None:
        reply.header.rcode = RCODE.NXDOMAIN
    elif kind in (QTYPE.A, QTYPE.ANY):
        for address in addresses:
            reply.add_answer(RR(asked.q.qname, QTYPE.A, rdata=A(address), ttl=_TTL))
    packed: bytes = reply.pack()
    if limit is not None and len(packed) > limit:
        cut = asked.reply(ra=1, aa=1)
        cut.header.tc = 1
        packed = cut.pack()
    return packed


class DnsServer:
    def __init__(
        self,
        pods: Informer,
        services: Informer,
        switch: SwitchClient,
        launcher: Launcher,
        forwarder: Forwarder | None = None,
    ) -> None:
        self._pods = pods
        self._services = services
        self._switch = switch
        self._launcher = launcher
        self._forwarder = forwarder

    async def run(self) -> None:
        """Answer until cancelled. A new switch may have a new network: then on new sockets."""
        await self._pods.synced()
        await self._services.synced()
        zone = Zone(self._pods, self._services)
        while True:
            try:
                await self._serve_one_switch(zone)
                log.info("the switch has gone, asking the next one")
            except* (SwitchError, OSError) as failures:
                log.warning("names are not answered", error=failures.exceptions[0])
                await asyncio.sleep(_RETRY_SECONDS)

    async def _serve_one_switch(self, zone: Zone) -> None:
        facts = await asyncio.to_thread(self._switch.describe)
        _, udp, tcp = await asyncio.to_thread(self._switch.dns_sockets)
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(_serve(_Answers(zone, self._forwarder), udp, tcp))
            await self._launcher.wait_for_end(facts["process"])
            serving.cancel()


@dataclass(frozen=True)
class _Answers:
    zone: Zone
    forwarder: Forwarder | None

    async def to(self, question: bytes, *, limit: int | None = None) -> bytes | None:
        """Never fails: whatever a pod may send, the others' questions are still answered."""
        try:
            if self.forwarder is not None and is_foreign(question):
                return await self.forwarder.ask(question, stream=limit is None)
            return answer(self.zone, question, limit=limit)
        except Exception as error:
            log.warning("a question could not be answered", error=repr(error))
            return None


async def _serve(answers: _Answers, udp: socket.socket, tcp: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(answers, tasks), sock=udp)
        try:
            while True:
                connection, _ = await loop.sock_accept(tcp)
                tasks.create_task(_serve_stream(answers, connection))
        finally:
            transport.close()
            tcp.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, answers: _Answers, tasks: asyncio.TaskGroup) -> None:
        self._answers = answers
        self._tasks = tasks
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        if self._answers.forwarder is None:
            self._reply(answer(self._answers.zone, data, limit=_LARGEST_UDP), address)
        else:
            self._tasks.create_task(self._answer(data, address))

    async def _answer(self, data: bytes, address: Any) -> None:
        self._reply(await self._answers.to(data, limit=_LARGEST_UDP), address)

    def _reply(self, reply: bytes | None, address: Any) -> None:
        if reply is not None:
            self._transport.sendto(reply, address)

    def error_received(self, error: Exception) -> None:
        log.debug("datagram error", error=error)


async def _serve_stream(answers: _Answers, connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        async with asyncio.timeout(_TCP_SECONDS):
            while True:
                (length,) = struct.unpack("!H", await reader.readexactly(2))
                reply = await answers.to(await reader.readexactly(length))
                if reply is None:
                    return
                writer.write(struct.pack("!H", len(reply)) + reply)
                await writer.drain()
    except (asyncio.IncompleteReadError, TimeoutError, OSError):
        pass
    finally:
        writer.close()
