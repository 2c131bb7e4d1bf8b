"""The agent: one worker for every pod bound to this node, found by uid.

    async with a client:  await run(client, NodeSettings("node-1", data_dir), clock=..., rng=...)

Cancelling it stops the agent and nothing else: pods run on, and the next agent takes them back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

from hekla.api.kinds import NAMESPACE, NETWORK_POLICY, POD, SERVICE, Obj
from hekla.api.meta import name_of, namespace_of, uid_of
from hekla.client.informer import Informer, Update
from hekla.client.recorder import Recorder
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.log import get_logger
from hekla.moved_clock import watch_clock
from hekla.node.api_relay import ApiRelay
from hekla.node.cleanup import SweepReport, end_pod, sweep
from hekla.node.context import NodeContext
from hekla.node.departed_pods import DepartedPods
from hekla.node.directory import all_pods
from hekla.node.dns import DnsServer
from hekla.node.dns_forwarding import Forwarder
from hekla.node.exec import ProcessLauncher
from hekla.node.firewall import Firewall
from hekla.node.hooks.cgroups import find_cgroups
from hekla.node.hooks.images import Images
from hekla.node.hooks.mounts import hidden_paths
from hekla.node.hooks.processes import bound_processes, most_processes
from hekla.node.isolation import use_namespaces
from hekla.node.kubelet_server import KubeletServer
from hekla.node.living_sources import LivingSources
from hekla.node.log_keeper import LogKeeper
from hekla.node.notes import notes
from hekla.node.podman import find_podman
from hekla.node.registration import Registration, capacity
from hekla.node.room import Room, is_let_in
from hekla.node.settings import NodeSettings
from hekla.node.spawner import Spawner
from hekla.node.storage import StorageKeeper
from hekla.node.switch_client import SwitchClient
from hekla.node.user_ids import ALL_IDS
from hekla.node.worker import Worker

log = get_logger("node")

_FIRST_RETRY = 1.0
_LONGEST_RETRY = 30.0


async def run(
    client: Client,
    settings: NodeSettings,
    *,
    clock: Clock,
    rng: random.Random,
    ready: Callable[[], None] | None = None,
) -> None:
    """Be a node until cancelled. `ready` is called once the Node object is Ready and pods are being watched."""
    # 1. Find out what the machine allows, and have the network there.
    context = await _prepare(client, settings, clock, rng)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(context.recorder.run())
        # 2. Logs can be asked for before anybody is told where.
        server = KubeletServer(settings, context.spawner, context.switch, clock=clock)
        port = await server.start(tasks)
        # 3. Names for pods, answered at the bridge, and the rules of their network.
        if context.switch is not None:
            context = _start_network(context, context.switch, tasks)
        keeper = LogKeeper(client, settings.data_dir, settings.is_ours, rng)
        context = replace(context, living_sources=LivingSources(client, rng, tasks), log_keeper=keeper)
        # 4. Watch the pods of this node; everything that was here before is taken back or cleared away.
        agent = Agent(context, tasks)
        await agent.start()
        tasks.create_task(watch_clock(clock, agent.look_again))
        tasks.create_task(keeper.run())
        if settings.departed is not None:
            departed = DepartedPods(client, settings.data_dir, settings.departed, keeper.look, rng)
            tasks.create_task(departed.run())
        # 5. Join the cluster and stay in it.
        cannot = notes(context)
        for note in cannot:
            log.warning("not on this machine", note=note)
        registration = Registration(client, settings, clock=clock, port=port, notes=cannot)
        await registration.register()
        tasks.create_task(registration.run())
        log.info("node ready", node=settings.name, isolated=context.namespaces)
        if ready is not None:
            ready()


class Agent:
    def __init__(self, context: NodeContext, tasks: asyncio.TaskGroup) -> None:
        self._context = context
        self._tasks = tasks
        self._workers: dict[str, Worker] = {}
        self._pods = Informer(
            context.client, POD, field_selector=f"spec.nodeName={context.settings.name}", rng=context.rng
        )

    async def start(self) -> None:
        """Return when every pod bound to this node has a worker and nothing else of ours is left."""
        self._tasks.create_task(self._pods.run())
        await self._pods.synced()
        wanted = {uid_of(pod) for pod in self._pods.all()}
        for pod in self._pods.all():
            if is_let_in(pod):
                # Before anybody asks whether there is room beside it.
                self._context.room.hold(pod)
        await asyncio.to_thread(self._clear_orphans, wanted)
        self._pods.subscribe(self._hear)
        settings = self._context.settings
        keeper = StorageKeeper(settings.data_dir, self._workers.values, settings.storage_period)
        self._tasks.create_task(keeper.run())

    def look_again(self) -> None:
        for worker in self._workers.values():
            worker.look_again()

    def _hear(self, update: Update) -> None:
        uid = uid_of(update.obj)
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(update.new)
        elif update.new is not None:
            self._workers[uid] = Worker(update.new, self._context)
            self._tasks.create_task(self._drive(update.new))

    async def _drive(self, pod: Obj) -> None:
        """See one pod through. A worker that fails is replaced: the pod's processes run on meanwhile."""
        uid, delay = uid_of(pod), _FIRST_RETRY
        while not await self._work(self._workers[uid]):
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LONGEST_RETRY)
            newest = self._pods.get(name_of(pod), namespace_of(pod))
            gone = newest is None or uid_of(newest) != uid
            self._workers[uid] = Worker(pod if newest is None or gone else newest, self._context)
            if gone:
                self._workers[uid].update(None)
        del self._workers[uid]
        self._context.room.give_back(uid)

    async def _work(self, worker: Worker) -> bool:
        try:
            await worker.run()
        except Exception:
            log.exception("worker failed", uid=worker.uid)
            return False
        return True

    def _clear_orphans(self, wanted: set[str]) -> None:
        for directory in all_pods(self._context.settings.data_dir):
            try:
                owner = directory.owner().get("node", self._context.settings.name)
                if owner == self._context.settings.name and directory.uid not in wanted:
                    log.info("clearing away a pod that is gone", uid=directory.uid)
                    if self._context.switch is not None and directory.sandbox():
                        self._context.switch.remove(directory.uid)
                    end_pod(directory)
            except OSError as error:
                # The next start tries again; until then the others need a node.
                log.warning("folder not cleared away", uid=directory.uid, error=error)


async def _prepare(client: Client, settings: NodeSettings, clock: Clock, rng: random.Random) -> NodeContext:
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    (settings.data_dir / "pods").mkdir(exist_ok=True, mode=0o700)
    # The trials fork, so they come before anything here makes a thread.
    isolated = use_namespaces(settings.isolation)
    cgroups = find_cgroups(settings.data_dir)
    # It makes itself ready while the rest goes on.
    most = settings.processes or most_processes()
    spawner = Spawner(settings.data_dir, lambda process: bound_processes(cgroups, process, most))
    spawner.start()
    switch: SwitchClient | None = None
    facts: dict[str, object] = {}
    if isolated:
        switch = SwitchClient(settings.data_dir, settings.outgoing)
        facts = await asyncio.to_thread(switch.describe)
    return NodeContext(
        client=client,
        recorder=Recorder(
            client, "kubelet", clock=clock, rng=rng, host=settings.name, only_warnings=settings.events == "warnings"
        ),
        settings=settings,
        clock=clock,
        rng=rng,
        spawner=spawner,
        launcher=ProcessLauncher(spawner),
        switch=switch,
        images=Images(settings.images),
        podman=find_podman(settings.data_dir) if settings.runtime == "podman" else None,
        user_namespace=bool(facts.get("user_namespace")),
        ids=int(str(facts.get("ids") or ALL_IDS)),
        enforces_rules=bool(facts.get("nft")),
        way_out=bool(facts.get("outgoing")),
        nameserver=str(facts.get("gateway", "")),
        cgroups=cgroups,
        hidden=tuple(hidden_paths(settings.data_dir, settings.hidden_paths)),
        allocatable=capacity(settings),
        room=Room(capacity(settings)),
    )


def _start_network(context: NodeContext, switch: SwitchClient, tasks: asyncio.TaskGroup) -> NodeContext:
    kinds = (POD, SERVICE, NETWORK_POLICY, NAMESPACE)
    pods, services, policies, namespaces = (Informer(context.client, kind, rng=context.rng) for kind in kinds)
    for informer in (pods, services, policies, namespaces):
        tasks.create_task(informer.run())
    forward = Forwarder() if context.way_out else None
    tasks.create_task(DnsServer(pods, services, switch, context.launcher, forward).run())
    firewall = Firewall(pods, services, policies, namespaces, switch, context.recorder, able=context.enforces_rules)
    tasks.create_task(firewall.run())
    relay: ApiRelay | None = None
    if context.settings.api_server is not None:
        relay = ApiRelay(services, switch, context.launcher, context.settings.api_server)
        tasks.create_task(relay.run())
    return replace(context, firewall=firewall, api_relay=relay, services=services)


__all__ = ["NodeSettings", "SweepReport", "run", "sweep"]
