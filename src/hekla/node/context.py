"""What all workers of a node share: settings, seams and facts found out at the start."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hekla.client.informer import Informer
from hekla.client.recorder import Recorder
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.node.api_relay import ApiRelay
from hekla.node.exec import Launcher
from hekla.node.firewall import Firewall
from hekla.node.hooks.cgroups import Cgroups
from hekla.node.hooks.images import Images
from hekla.node.living_sources import LivingSources
from hekla.node.log_keeper import LogKeeper
from hekla.node.podman import Podman
from hekla.node.room import Room
from hekla.node.settings import NodeSettings
from hekla.node.spawner import Spawner
from hekla.node.switch_client import SwitchClient
from hekla.node.user_ids import ALL_IDS


@dataclass(frozen=True)
class NodeContext:
    client: Client
    recorder: Recorder
    settings: NodeSettings
    clock: Clock
    rng: random.Random
    spawner: Spawner
    launcher: Launcher
    switch: SwitchClient | None  # None: plain processes, no isolation
    images: Images
    podman: Podman | None = None  # None: what the table does not know is the machine's own
    firewall: Firewall | None = None
    api_relay: ApiRelay | None = None  # None: pods cannot reach the API server
    services: Informer | None = None
    living_sources: LivingSources | None = None
    log_keeper: LogKeeper | None = None
    user_namespace: bool = False
    ids: int = ALL_IDS  # how many user ids pods may have
    enforces_rules: bool = False
    way_out: bool = False  # whether pods reach other networks
    nameserver: str = ""
    cgroups: Cgroups | None = None  # None: limits are not enforced
    hidden: tuple[str, ...] = ()
    allocatable: dict[str, str] = field(default_factory=dict)
    room: Room = field(default_factory=lambda: Room({}))

    @property
    def namespaces(self) -> bool:
        return self.switch is not None
