"""Resource limits: one control group per container attempt, where the machine lets us have one.

Both kinds of hierarchy occur: v2 (one tree) and v1 (a tree per controller). We go below the control group the agent
itself is in, or an ancestor of it, as far as we may; an ordinary user often may not at all, and then limits are not
enforced and the pod is told so. What was found is on record, so that a sweep can clear up without an agent.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from hekla.api.kinds import Obj
from hekla.api.quantity import milli, whole
from hekla.node import records

RECORD = "cgroups.json"
_MOUNTS = Path("/sys/fs/cgroup")
_CONTROLLERS = ("memory", "cpu", "pids")
_HANDED_DOWN = "cgroup.subtree_control"
_SHIMS = "shims"  # in v2 only the leaves of the tree may have processes
_LEAVE_SECONDS = 2.0
_PERIOD = 100_000
_LEAST_QUOTA = 1_000


@dataclass(frozen=True)
class Cgroups:
    """`roots`: our own folder in each hierarchy, by controller; in v2 one folder stands for all."""

    roots: dict[str, str]
    unified: bool

    def create(self, name: str, container: Obj) -> list[str]:
        """Make a container's groups with its limits in force; the folders a process must join. Raises OSError."""
        folders: dict[Path, None] = {}
        for controller, root in self.roots.items():
            files = limit_files(container, controller, unified=self.unified)
            if files:
                self._ensure(Path(root))
                folders[Path(root, name)] = None
                Path(root, name).mkdir(exist_ok=True)
            for file, value in files:
                (Path(root, name) / file).write_text(value)
        return [str(folder) for folder in folders]

    def _ensure(self, root: Path) -> None:
        """Whoever runs the machine may take empty groups for forgotten ones, and ours is empty until a pod comes."""
        if not root.is_dir():
            root.mkdir(exist_ok=True)
            if self.unified:
                _hand_down(root.parent)
                _hand_down(root)

    def bound_processes(self, process: int, most: int) -> bool:
        """Let this process, and all it will fork, be no more than so many. False where there is no group for that."""
        root = Path(self.roots.get("pids", "/nowhere"))
        if not (root / "pids.max").exists():
            return False
        (root / "pids.max").write_text(str(most))
        group = root / _SHIMS if self.unified else root
        group.mkdir(exist_ok=True)
        (group / "cgroup.procs").write_text(str(process))
        return True

    def remove(self, prefix: str = "") -> None:
        """Remove the groups whose names begin so, or all. Whatever ran in them has been told to end."""
        for root in dict.fromkeys(self.roots.values()):
            if not Path(root).is_dir():
                continue
            for folder in Path(root).iterdir():
                if folder.is_dir() and folder.name.startswith(prefix):
                    _remove(folder)
            if not prefix:
                _remove_when_empty(Path(root))


def limit_files(container: Obj, controller: str, *, unified: bool) -> list[tuple[str, str]]:
    """What to write where, for one controller. Pure.

    Nothing for a container without limits: entering a group costs tens of milliseconds, and pods are started often.
    """
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if controller == "memory" and limits.get("memory"):
        size = str(whole(limits["memory"]))
        # In v2 the whole container goes when it has too much, as a kubelet has it; v1 knows victims only.
        return [("memory.max", size), ("memory.oom.group", "1")] if unified else [("memory.limit_in_bytes", size)]
    if controller != "cpu" or not limits.get("cpu"):
        return []
    asked = milli(requests.get("cpu") or limits.get("cpu") or 0)
    shares = max(2, asked * 1024 // 1000)
    quota = max(_LEAST_QUOTA, milli(limits["cpu"]) * _PERIOD // 1000)
    if unified:
        return [("cpu.weight", str(_weight(shares))), ("cpu.max", f"{quota} {_PERIOD}")]
    return [("cpu.shares", str(shares)), ("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", str(quota))]


def find_cgroups(data_dir: Path) -> Cgroups | None:
    """Our folders in the hierarchies, made if need be and put on record; None where we may not have any."""
    known = recorded_cgroups(data_dir)
    if known is not None and all(Path(root).is_dir() for root in known.roots.values()):
        return known  # pods of an earlier agent are in there; ours may be in another group of the machine by now
    found = data_dir.stat()
    name = f"hekla-{found.st_dev:x}-{found.st_ino:x}"
    cgroups = _unified(name) or _separate(name)
    if cgroups is not None:
        records.write(str(data_dir / RECORD), asdict(cgroups), durable=False)
    return cgroups


def missing_for_cgroups() -> str:
    """What keeps us from having groups, where `find_cgroups` finds none."""
    if (_MOUNTS / "cgroup.controllers").exists() and Path(f"/run/user/{os.getuid()}/systemd").is_dir():
        # A login's own group is systemd's; what starts below the user's manager may have groups.
        return "a control group of this user's: put `systemd-run --user --scope` before the command that starts Hekla"
    return "control groups that this machine's user may have"


def recorded_cgroups(data_dir: Path) -> Cgroups | None:
    """What an earlier agent found."""
    known = records.read(str(data_dir / RECORD))
    return Cgroups(known["roots"], known["unified"]) if known else None


def _unified(name: str) -> Cgroups | None:
    if not (_MOUNTS / "cgroup.controllers").exists():
        return None
    own = _own_paths().get("", "/").lstrip("/")
    # From the top down: the higher the group, the more of the machine its children may be given.
    for parent in reversed([_MOUNTS / own, *(_MOUNTS / own).parents]):
        if not parent.is_relative_to(_MOUNTS):
            continue
        root = parent / name
        try:
            _hand_down(parent)
            usable = _handed_down(parent)
            if "memory" not in usable:
                continue
            root.mkdir(exist_ok=True)
            _hand_down(root)
            if _can_enter(root):
                return Cgroups(dict.fromkeys(usable, str(root)), unified=True)
        except OSError:
            pass
        _remove(root)
    return None


def _hand_down(group: Path) -> None:
    """Ask a group to give its children all our controllers. It stays so: others may come to rely on it."""
    for each in _CONTROLLERS:
        with contextlib.suppress(OSError):  # it is not ours to ask, does not have that one, or has processes of its own
            (group / _HANDED_DOWN).write_text(f"+{each}")


def _handed_down(group: Path) -> list[str]:
    given = (group / _HANDED_DOWN).read_text().split()
    return [each for each in _CONTROLLERS if each in given]


def _separate(name: str) -> Cgroups | None:
    roots: dict[str, str] = {}
    own = _own_paths()
    for controller in _CONTROLLERS:
        root = _MOUNTS / controller / own.get(controller, "/").lstrip("/") / name
        try:
            root.mkdir(exist_ok=True)
        except OSError:
            continue
        roots[controller] = str(root)
    return Cgroups(roots, unified=False) if "memory" in roots else None


def _own_paths() -> dict[str, str]:
    """Controller to the path of the group we are in; v2's under the empty name."""
    found: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _can_enter(root: Path) -> bool:
    """Whether a process of ours may be moved there: being allowed to make the folder does not mean that."""
    trial = root / "trial"
    trial.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        try:
            (trial / "cgroup.procs").write_text("0")
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    _remove(trial)
    return status == 0


def _weight(shares: int) -> int:
    """cgroup v2's 1..10000 for v1's 2..262144, by the formula container engines share."""
    return 1 + ((min(shares, 262_144) - 2) * 9999) // 262_142


def _remove_when_empty(folder: Path) -> None:
    """Processes that have been killed need a moment to be gone, and v1 tells nobody when they are."""
    deadline = time.monotonic() + _LEAVE_SECONDS
    while folder.is_dir() and time.monotonic() < deadline:
        _remove(folder / _SHIMS)
        _remove(folder)
        if folder.is_dir():
            time.sleep(0.01)


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
