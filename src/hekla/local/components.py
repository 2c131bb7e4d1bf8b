"""How each component of a local cluster is put together: its settings, its client, its log."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from hekla.api import quantity
from hekla.api.batch import SCHEDULER_NAME
from hekla.api.core import DEFAULT_SCHEDULER
from hekla.client.kubeconfig import Access, connect
from hekla.client.rest import Client
from hekla.client.tokens import FixedToken
from hekla.clock import SystemClock
from hekla.errors import Misuse, UsageError
from hekla.local.departed import is_departed, is_ours
from hekla.local.layout import Layout, default_images
from hekla.local.roles import ROLES, component_user
from hekla.local.supervisor import Component, Ready

if TYPE_CHECKING:
    from hekla.apiserver.access.user import User
    from hekla.apiserver.sockets import Sockets
    from hekla.local.credentials import Credentials

APISERVER = "apiserver"
CONTROLLERS = "controllers"
_LEAST_MEMORY = 1 << 20
_MOST_NODES = 500  # each is a process of its own, with a certificate
_HIGHEST_PORT = 65535
# There is no other scheduler here, so pods that name none are ours too.
_SCHEDULERS = (SCHEDULER_NAME, DEFAULT_SCHEDULER)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What `hekla up` and `hekla run` can be told."""

    data_dir: Path
    port: int = 0
    nodes: int = 1
    node_cpu: str = ""
    node_memory: str = ""
    node_gpus: int = 0
    node_gpu_memory: int = 0
    """Of each GPU, to be shared; 0: pods get whole ones."""
    simulated_nodes: int = 0
    scheduler_conf: Path | None = None
    queue_gates: bool = False
    """Pods that ask for it wait at the gate of their queue."""
    images: Path | None = None
    """The table of images; None: the person's own, as soon as there is one."""
    runtime: Literal["machine", "podman"] = "machine"
    """What images are that the table does not know: the machine's own files, or podman's."""
    allow_host_path: tuple[Path, ...] = ()
    outgoing: Literal["auto", "nat", "none"] = "auto"
    node_events: Literal["all", "warnings"] = "all"
    """Which Events nodes write."""
    log_level: str = "info"
    hidden: tuple[Path, ...] = ()
    """Files pods must not see, beside the data dir: copies of the kubeconfig."""
    temporary: bool = False
    """The data dir goes when the cluster does."""

    def validate(self) -> None:
        counts = (
            ("--nodes", self.nodes),
            ("--simulated-nodes", self.simulated_nodes),
            ("--port", self.port),
        )
        for flag, count in counts:
            if count < 0:
                raise Misuse(f"{flag} {count}: must not be negative")
        if self.port > _HIGHEST_PORT:
            raise Misuse(f"--port {self.port}: must not be above {_HIGHEST_PORT}")
        if self.nodes > _MOST_NODES:
            raise Misuse(
                f"--nodes {self.nodes}: at most {_MOST_NODES}, each a process; --simulated-nodes are no more work"
            )
        if self.nodes + self.simulated_nodes < 1:
            raise Misuse("a cluster needs a node: give --nodes or --simulated-nodes")
        validate_gpus(self.node_gpus, self.node_gpu_memory)
        for flag, value in (("--node-cpu", self.node_cpu), ("--node-memory", self.node_memory)):
            try:
                if value and quantity.parse(value) <= 0:
                    raise Misuse(f"{flag} {value}: must be more than 0")
            except quantity.InvalidQuantity:
                raise Misuse(f"{flag} {value!r} is not a quantity such as 4, 500m or 8Gi") from None
        if self.node_memory and quantity.parse(self.node_memory) < _LEAST_MEMORY:
            raise Misuse(f"--node-memory {self.node_memory}: a number of bytes that no pod fits in; write 512Mi or 8Gi")
        if self.outgoing == "nat" and os.geteuid() != 0:
            raise UsageError("--outgoing nat needs root: it changes the machine's network")
        if self.runtime == "podman":
            from hekla.node.podman import find_podman

            find_podman(self.data_dir)
        if self.image_table().exists():
            from hekla.node.hooks.images import Images

            Images(self.image_table())

    def image_table(self) -> Path:
        return self.images or default_images(os.environ)


def validate_gpus(count: int, memory: int) -> None:
    for flag, amount in (("--node-gpus", count), ("--node-gpu-memory", memory)):
        if amount < 0:
            raise Misuse(f"{flag} {amount}: must not be negative")
    if memory and not count:
        raise Misuse("--node-gpu-memory: of how many GPUs? Give --node-gpus too")


def node_names(settings: ClusterSettings) -> list[str]:
    """Of those that run pods, then of those that pretend to."""
    real = ["local"] if settings.nodes == 1 else [f"local-{index}" for index in range(settings.nodes)]
    return [*real, *(f"simulated-{index}" for index in range(settings.simulated_nodes))]


def apiserver(
    layout: Layout, sockets: Sockets, *, nodes: Sequence[str] | None = None, queue_gates: bool = False
) -> Component:
    async def run(ready: Ready) -> None:
        from hekla.admission.review import VolcanoAdmission
        from hekla.apiserver import server
        from hekla.local.bootstrap import furnish
        from hekla.local.credentials import ensure_credentials

        # Whoever started us makes them while we load; only now are they needed.
        credentials = ensure_credentials(layout.pki, clock=SystemClock(), rng=random.SystemRandom())
        settings = server.ApiServerSettings(
            database=layout.database,
            sockets=sockets,
            tls_certificate=credentials.server.certificate,
            tls_key=credentials.server.key,
            holders=_holders(credentials),
            signing_key=credentials.signing_key,
            root_ca=credentials.ca,
            kubelet_ca=credentials.ca,
            kubelet_client_certificate=credentials.kubelet_client.certificate,
            kubelet_client_key=credentials.kubelet_client.key,
        )
        await server.run(
            settings,
            clock=SystemClock(),
            rng=random.SystemRandom(),
            admission=partial(VolcanoAdmission, queue_gates=queue_gates),
            furnish=partial(furnish, nodes=nodes, clock=SystemClock()),
            ready=lambda: ready(""),
        )

    return Component(APISERVER, run, layout.log_of(APISERVER), keeps=sockets.descriptors())


def controllers(layout: Layout, credentials: Credentials) -> Component:
    async def run(ready: Ready) -> None:
        from hekla.controllers import controllers as volcano
        from hekla.local import builtins

        clock, rng = SystemClock(), random.SystemRandom()
        async with (
            _client(layout, credentials, "builtins") as own,
            _client(layout, credentials, "controllers") as client,
            asyncio.TaskGroup() as group,
        ):
            root_ca = credentials.ca.read_text()
            group.create_task(builtins.run(own, clock=clock, rng=rng, volumes=layout.volumes, root_ca=root_ca))
            group.create_task(
                volcano.run(client, clock=clock, rng=rng, schedulers=_SCHEDULERS, ready=lambda: ready(""))
            )

    return Component(CONTROLLERS, run, layout.log_of(CONTROLLERS))


def scheduler(layout: Layout, credentials: Credentials, cluster: ClusterSettings) -> Component:
    async def run(ready: Ready) -> None:
        for key in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            # NumPy's BLAS would start threads at import; nothing here multiplies matrices.
            os.environ.setdefault(key, "1")
        from hekla.scheduler import scheduler as volcano

        settings = volcano.SchedulerSettings(
            scheduler_names=_SCHEDULERS, conf=cluster.scheduler_conf, queue_gates=cluster.queue_gates
        )
        async with _client(layout, credentials, "scheduler") as client:
            await volcano.run(
                client, clock=SystemClock(), rng=random.SystemRandom(), settings=settings, ready=lambda: ready("")
            )

    return Component("scheduler", run, layout.log_of("scheduler"))


def node(
    layout: Layout, credentials: Credentials, settings: ClusterSettings, port: int, index: int, cpu: str, memory: str
) -> Component:
    name = node_names(settings)[index]

    async def run(ready: Ready) -> None:
        from hekla.node import agent

        own = agent.NodeSettings(
            name=name,
            data_dir=layout.nodes,
            cpu=cpu or None,
            memory=memory or None,
            gpus=settings.node_gpus,
            gpu_memory=settings.node_gpu_memory,
            first_gpu=index * settings.node_gpus,
            tls_certificate=credentials.node.certificate,
            tls_key=credentials.node.key,
            client_ca=credentials.ca,
            hidden_paths=(layout.root, *settings.hidden),
            volume_paths=(layout.volumes,),
            host_paths=settings.allow_host_path,
            outgoing=settings.outgoing,
            images=settings.image_table(),
            runtime=settings.runtime,
            events=settings.node_events,
            api_server=("127.0.0.1", port),
            siblings=is_ours,
            departed=partial(is_departed, present=node_names(settings)) if index == 0 else None,
        )
        async with _client(layout, credentials, "node", f"/{name}") as client:
            await agent.run(client, own, clock=SystemClock(), rng=random.SystemRandom(), ready=lambda: ready(""))

    # There may be several of them: what they need is loaded once.
    return Component(f"node-{name}", run, layout.log_of(f"node-{name}"), loads=("uvloop", "hekla.node.agent"))


def simulated_nodes(layout: Layout, credentials: Credentials, settings: ClusterSettings) -> Component:
    async def run(ready: Ready) -> None:
        from hekla.node.simulated import SimulatedNode, run_simulated

        nodes = [
            SimulatedNode(
                name=name,
                cpu=settings.node_cpu or "32",
                memory=settings.node_memory or "128Gi",
                gpus=settings.node_gpus,
                gpu_memory=settings.node_gpu_memory,
            )
            for name in node_names(settings)[settings.nodes :]
        ]
        async with _client(layout, credentials, "node", "/simulated") as client:
            await run_simulated(client, nodes, clock=SystemClock(), rng=random.SystemRandom(), ready=lambda: ready(""))

    return Component("simulated-nodes", run, layout.log_of("simulated-nodes"))


def workers(layout: Layout, credentials: Credentials, settings: ClusterSettings, port: int) -> list[Component]:
    """Everything that runs on top of the API server, which listens on `port`; what takes longest to start first."""
    found: list[Component] = []
    cpu = settings.node_cpu or _share_of_cpus(settings.nodes)
    memory = settings.node_memory or _share_of_memory(settings.nodes)
    for index in range(settings.nodes):
        found.append(node(layout, credentials, settings, port, index, cpu, memory))
    if settings.simulated_nodes:
        found.append(simulated_nodes(layout, credentials, settings))
    found.append(controllers(layout, credentials))
    found.append(scheduler(layout, credentials, settings))
    return found


def _client(layout: Layout, credentials: Credentials, component: str, detail: str = "") -> Client:
    """As the component itself, with its rights and no others."""
    tokens = FixedToken(credentials.component_token(component))
    access = Access(server=f"unix://{quote(str(layout.socket))}", tokens=tokens)
    return connect(access, user_agent=f"hekla-{component}{detail}")


def _holders(credentials: Credentials) -> dict[str, User]:
    """Whose token is whose, by its hash: the person's, and each component's."""
    from hekla.apiserver.access.authentication import hash_token
    from hekla.apiserver.access.user import ADMIN, User

    components = {hash_token(credentials.component_token(name)): User(component_user(name)) for name in ROLES}
    return {hash_token(credentials.token.read_text().strip()): ADMIN, **components}


def _share_of_cpus(nodes: int) -> str:
    return f"{len(os.sched_getaffinity(0)) * 1000 // nodes}m" if nodes > 1 else ""


def _share_of_memory(nodes: int) -> str:
    if nodes <= 1:
        return ""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{total // nodes // 1024}Ki"
