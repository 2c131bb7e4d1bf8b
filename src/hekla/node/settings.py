"""What a node is told when it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hekla.node.uplink import Outgoing

Runtime = Literal["machine", "podman"]
Isolation = Literal["auto", "namespaces", "process"]
Events = Literal["all", "warnings"]


@dataclass(frozen=True)
class NodeSettings:
    """`data_dir` is shared by all nodes of one local cluster on this machine: they share its switch."""

    name: str
    data_dir: Path
    cpu: str | None = None  # None: all the machine has
    memory: str | None = None
    gpus: int = 0
    gpu_memory: int = 0  # of each, to be shared by pods (`hooks/gpus.py`); 0: they are given away as a whole
    first_gpu: int = 0  # their numbers begin here: nodes of one machine share its devices
    pods: int = 110
    processes: int | None = None  # of all pods together; None: half of what the machine allows
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    hidden_paths: tuple[Path, ...] = ()
    volume_paths: tuple[Path, ...] = ()  # where persistent volumes may be
    host_paths: tuple[Path, ...] = ()  # what pods may mount of the machine; nothing unless somebody says so
    device_files: Path = Path("/dev")
    images: Path | None = None  # the table of images (`hooks/images.py`)
    runtime: Runtime = "machine"  # what other images are: the machine's own files, or podman's
    api_server: tuple[str, int] | None = None  # host and port that pods may reach it at; None: they may not
    outgoing: Outgoing = "none"  # whether pods reach what the machine reaches (`uplink.py`)
    isolation: Isolation = "auto"
    events: Events = "all"  # which of them are written
    storage_period: float = 2.0  # seconds between two looks at what pods have written
    siblings: Callable[[str], bool] | None = None  # whether a node of that name is, or was, of this cluster
    departed: Callable[[str], bool] | None = None  # those of them to clear up after; None: others do that
    labels: dict[str, str] = field(default_factory=dict)

    def is_ours(self, node: str) -> bool:
        """Whether what a node of that name left in `data_dir` is this cluster's. A folder may have served several."""
        return node == self.name or (self.siblings is not None and self.siblings(node))
