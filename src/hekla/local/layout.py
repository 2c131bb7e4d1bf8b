"""Where a local cluster keeps its things.

<data-dir>/            0700
  kubeconfig           for people and kubectl (https, token)        0600
  component.kubeconfig for our own components (unix socket)          0600
  state.db             the store
  pki/                 the local certificate authority and keys
  logs/                one file a component
  nodes/<name>/        a node's pods
  volumes/<volume>/    what claims hold
  run/                 lock, supervisor's status
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hekla.errors import UsageError

# The kernel's limit for a unix socket's path is 108 bytes, the closing zero included.
_SOCKET_PATH_BYTES = 107


@dataclass(frozen=True, slots=True)
class Layout:
    root: Path

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def component_kubeconfig(self) -> Path:
        return self.root / "component.kubeconfig"

    @property
    def database(self) -> Path:
        return self.root / "state.db"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def nodes(self) -> Path:
        return self.root / "nodes"

    @property
    def volumes(self) -> Path:
        return self.root / "volumes"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def lock(self) -> Path:
        return self.run / "lock"

    @property
    def clearing(self) -> Path:
        """Held by who clears up after a cluster that was killed."""
        return self.run / "clearing"

    @property
    def scheduler_conf(self) -> Path:
        """Says where the scheduler's configuration is, when it has one of its own."""
        return self.run / "scheduler-conf"

    @property
    def card_sharing_conf(self) -> Path:
        return self.run / "card-sharing.conf"

    @property
    def status(self) -> Path:
        return self.run / "status.json"

    @property
    def socket(self) -> Path:
        """The API server's unix socket; in a private folder under /tmp where the data dir's path is too long."""
        inside = self.run / "api.sock"
        if len(os.fsencode(inside)) <= _SOCKET_PATH_BYTES:
            return inside
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]
        return Path(f"/tmp/hekla-{os.getuid()}") / f"{digest}.sock"  # noqa: S108 - made private by `prepare`

    def log_of(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def prepare(self) -> None:
        """Make the folders, for this user alone; refuse one that holds other things or belongs to somebody else."""
        _refuse_foreign(self.root)
        for directory in (self.root, self.pki, self.logs, self.nodes, self.run, self.socket.parent):
            _make_private(directory)


def default_data_dir(environment: Mapping[str, str]) -> Path:
    state = environment.get("XDG_STATE_HOME")
    base = Path(state) if state else Path(environment.get("HOME", "~")).expanduser() / ".local" / "state"
    return base / "hekla"


def data_dir_flag(root: Path, environment: Mapping[str, str]) -> str:
    """What to add to a suggested command so that it means this data dir."""
    return "" if root == default_data_dir(environment) else f" --data-dir {shlex.quote(str(root))}"


def default_images(environment: Mapping[str, str]) -> Path:
    """The person's own table of images; it need not be there."""
    config = environment.get("XDG_CONFIG_HOME")
    base = Path(config) if config else Path(environment.get("HOME", "~")).expanduser() / ".config"
    return base / "hekla" / "images.yaml"


def _refuse_foreign(root: Path) -> None:
    """A folder with other things in it is not ours to close to others and to fill."""
    try:
        inside = {entry.name for entry in root.iterdir()}
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{root}: {error.strerror}; choose another folder with --data-dir") from error
    if inside and "run" not in inside:
        raise UsageError(f"{root} holds other things already; name a new folder with --data-dir")


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.lstat()
    except OSError as error:
        raise UsageError(f"{directory}: {error.strerror}; choose another folder with --data-dir") from error
    if not stat.S_ISDIR(found.st_mode):
        raise UsageError(f"{directory} is not a folder; choose another with --data-dir")
    if found.st_uid != os.getuid():
        raise UsageError(f"{directory} belongs to another user; choose another folder with --data-dir")
    if stat.S_IMODE(found.st_mode) & 0o077:
        directory.chmod(0o700)
