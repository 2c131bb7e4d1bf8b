"""A container's view of the file system, built inside its own mount namespace.

The machine's root is the image, unless the plan names another, and layers may lie over it. Each top-level directory
gets an overlay, so a pod may write anywhere and what is below never changes; one overlay over `/` would be simpler, but
the kernel refuses it to an ordinary user because of the mounts below. For the same reason a directory with mounts that
the user may not take apart is shown entry by entry; what no overlay can cover is shown read-only. /proc, /sys and /dev
are the container's own, and so are /run and /tmp but for what an image has there. Nothing here is undone: the kernel
drops all with the namespace.

Runs in the shim, between fork and exec: os and `syscalls` only, which is why paths are plain strings.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TypedDict

from hekla.node import syscalls as sys_

_OWN = frozenset({"proc", "sys", "dev", "lost+found"})
_FRESH = ("run", "tmp")  # begin empty, whatever the machine has there
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
                 "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"}  # fmt: skip
_DEVICE_FILE_SYSTEMS = (
    ("pts", "devpts", "newinstance,ptmxmode=0666,mode=0620"),
    ("shm", "tmpfs", "mode=1777"),
    ("mqueue", "mqueue", ""),
)
# What a process with uid 0 could use against the host, or learn from it, even without capabilities.
_READ_ONLY = tuple(f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "asound"))
_MASKED = (
    *(f"/proc/{name}" for name in ("kcore", "keys", "key-users", "timer_list", "sched_debug", "scsi", "acpi",
                                   "latency_stats", "interrupts")),
    *(f"/sys/{name}" for name in ("firmware", "devices/virtual/powercap", "kernel/debug", "kernel/security",
                                  "kernel/tracing")),
)  # fmt: skip
_OLD = "/.hekla-host"
_NOBODY = 65534
_SAFE = sys_.MS_NOSUID | sys_.MS_NODEV


class Bind(TypedDict):
    """The volume is at `below` in `source`, what is shown of it at `within`. Others may be changing either path: the
    one never leads out of `source`, the other never out of the volume."""

    source: str
    below: str
    within: str
    create: bool  # make `within` where it is missing
    target: str
    read_only: bool


class RootPlan(TypedDict):
    scratch: str  # a directory of the host for what the container writes
    user_namespace: bool
    base: str  # the folder that is the image's root; "/" is the machine's own
    above: list[str]  # folders laid over it, the top one first
    hidden: list[str]  # resolved host paths that must look empty
    binds: list[Bind]  # resolved host paths, in mount order
    read_only: bool  # all but the binds and the container's own file systems


def enter(plan: RootPlan) -> None:
    """Become the owner of a root as planned. The caller has a fresh mount namespace and is pid 1 of its own."""
    # 1. Nothing done here travels back to the host.
    sys_.mount(None, "/", None, sys_.MS_REC | sys_.MS_PRIVATE)
    # 2. An empty root, with every top-level entry of the image in it.
    root = os.path.join(plan["scratch"], "root")
    os.makedirs(root, exist_ok=True)
    try:
        _empty_root(root, plan)
        inner = _Showing(root, plan, strict=True).show()
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # The scratch directory's file system cannot hold an upper layer (it is an overlay itself): use memory.
        sys_.mount("hekla", plan["scratch"], "tmpfs", _SAFE, "mode=700")
        os.makedirs(root)
        sys_.mount("hekla", root, "tmpfs", _SAFE, "mode=755")
        inner = _Showing(root, plan, strict=False).show()
    # 3. The file systems that are the container's own.
    _own_file_systems(root, plan["scratch"])
    # 4. Move in, with the volumes in hand, and close the door: where they go, nothing leads back to the host.
    mounts = [_pick_up(bind) for bind in plan["binds"]]
    os.mkdir(root + _OLD, 0o700)
    sys_.pivot_root(root, root + _OLD)
    os.chdir("/")
    sys_.unmount(_OLD)
    os.rmdir(_OLD)
    # 5. Put everything in its place.
    _hide([_seen_from(plan["base"], path) for path in plan["hidden"]])
    for bind, mount in zip(plan["binds"], mounts, strict=True):
        _put_down(bind, mount)
    _guard_kernel()
    if plan["read_only"]:
        _seal(inner, frozenset(bind["target"] for bind in plan["binds"]))


def _empty_root(root: str, plan: RootPlan) -> None:
    """On disk like all the rest: people make folders of their own at the top, for data and checkpoints of any size."""
    os.chdir(plan["scratch"])  # for relative paths, as below
    for folder in ("lower-root", "upper-root", "work-root"):
        os.makedirs(folder, exist_ok=True)
    os.chmod("upper-root", 0o755)
    _mount_overlay(root, "lower-root", "upper-root", "work-root", plan)


def _mount_overlay(target: str, lower: str, upper: str, work: str, plan: RootPlan) -> None:
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    if plan["user_namespace"]:
        options += ",userxattr"
    sys_.mount("hekla", target, "overlay", _SAFE, options)


class _Showing:
    """Lays an image out in a root. `strict`: what cannot be overlaid is an error, even where it may be read-only."""

    def __init__(self, root: str, plan: RootPlan, *, strict: bool) -> None:
        self._root = root
        self._plan = plan
        self._strict = strict
        self._machines = f"lower-{len(plan['above'])}"
        self._mounts = _mount_points(plan["scratch"]) if plan["base"] == "/" else []
        self._inner: list[str] = []  # directories mounted inside of top-level ones

    def show(self) -> list[str]:
        """Every top-level entry of the image; gives the directories below them that had to be mounted one by one."""
        # Relative paths through links: folders may contain the commas and colons that are separators in mount options.
        os.chdir(self._plan["scratch"])
        folders = [*self._plan["above"], self._plan["base"]]
        links = [f"lower-{index}" for index in range(len(folders))]
        for link, folder in zip(links, folders, strict=True):
            if not os.path.islink(link):
                os.symlink(folder, link)
        for name in sorted({name for folder in folders for name in os.listdir(folder)} - _OWN):
            found = [f"{link}/{name}" for link in links if os.path.lexists(f"{link}/{name}")]
            if name in _FRESH and self._plan["base"] == "/":
                found = [each for each in found if not each.startswith(f"{self._machines}/")]
            self._show_entry(found, name)
        return self._inner

    def _show_entry(self, found: list[str], name: str) -> None:
        """One entry, from the folders that have it, the top one first."""
        target = f"{self._root}/{name}"
        kinds = [stat.S_IFMT(os.lstat(each).st_mode) for each in found]
        folders = kinds.count(stat.S_IFDIR)
        if 0 < folders < len(kinds):
            raise OSError(0, f"/{name} is a folder in one layer of the image and a link or file in another")
        if folders:
            os.makedirs(target, 0o755, exist_ok=True)
            self._overlay(found, name)
        elif kinds and kinds[0] == stat.S_IFLNK:
            if not os.path.islink(target):
                os.symlink(os.readlink(found[0]), target)
        elif kinds and kinds[0] == stat.S_IFREG and ("/" in name or found[0] != f"{self._machines}/{name}"):
            _touch(target)
            sys_.bind(found[0], target, read_only=True)

    def _overlay(self, found: list[str], name: str) -> None:
        target, upper, work = f"{self._root}/{name}", f"upper/{name}", f"work/{name}"
        os.makedirs(upper, exist_ok=True)
        os.makedirs(work, exist_ok=True)
        machines = f"/{name}" if self._plan["base"] == "/" and found[-1] == f"{self._machines}/{name}" else ""
        if machines and not os.access(machines, os.R_OK | os.X_OK):
            # Closed to the user (root's home): an overlay of it would be closed as well. The pod gets an empty one.
            found, machines = found[:-1], ""
            if not found:
                sys_.bind(upper, target)
                return
        _same_owner(found[0], upper)
        below_it = _outermost_below(machines, self._mounts) if machines else []
        try:
            _mount_overlay(target, ":".join(found), upper, work, self._plan)
        except OSError:
            if below_it:
                self._show_entries(found, name)
                return
            if len(found) > 1 or not machines or (self._strict and not os.path.ismount(machines)):
                raise
            sys_.bind(machines, target, read_only=True)
            return
        for below in below_it:
            if os.path.isdir(target + below[len(machines) :]):
                sys_.bind(below, target + below[len(machines) :], read_only=True)

    def _show_entries(self, found: list[str], name: str) -> None:
        """What the mounts below it keep from being overlaid: a directory of the pod's own, with each entry in it."""
        sys_.bind(f"upper/{name}", f"{self._root}/{name}")
        for entry in sorted({entry for folder in found for entry in os.listdir(folder)}):
            inner = f"{name}/{entry}"
            parts = [f"{each}/{entry}" for each in found if os.path.lexists(f"{each}/{entry}")]
            self._show_entry(parts, inner)
            if stat.S_ISDIR(os.lstat(parts[0]).st_mode):
                self._inner.append(f"/{inner}")


def _seen_from(base: str, path: str) -> str:
    """Where a path of the machine is in a root that is the folder `base`; empty where it is not."""
    if base == "/":
        return path
    return path[len(base) :] if path.startswith(base + "/") else ""


def _same_owner(source: str, upper: str) -> None:
    found = os.stat(source)
    os.chmod(upper, stat.S_IMODE(found.st_mode))
    # An owner who is not mapped into the user's namespace looks like "nobody"; here the pod's root stands for it.
    owner = [each if each != _NOBODY else 0 for each in (found.st_uid, found.st_gid)]
    try:
        os.chown(upper, *owner)
    except OSError:
        pass  # the user has one id only


def _own_file_systems(root: str, scratch: str) -> None:
    for name in ("proc", "sys", "dev"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    sys_.mount("proc", f"{root}/proc", "proc", _SAFE | sys_.MS_NOEXEC)
    try:
        sys_.mount("sysfs", f"{root}/sys", "sysfs", _SAFE | sys_.MS_NOEXEC | sys_.MS_RDONLY)
    except PermissionError:
        sys_.bind("/sys", f"{root}/sys", read_only=True)
    if not os.path.lexists(f"{root}/run"):
        os.mkdir(f"{root}/run")
        sys_.mount("hekla", f"{root}/run", "tmpfs", _SAFE, "mode=755")
        os.mkdir(f"{root}/run/lock")
        os.chmod(f"{root}/run/lock", 0o1777)
    if not os.path.lexists(f"{root}/tmp"):
        os.mkdir(f"{root}/tmp")
        os.makedirs(f"{scratch}/tmp", exist_ok=True)
        sys_.mount(f"{scratch}/tmp", f"{root}/tmp", None, sys_.MS_BIND)
    if not os.path.islink(f"{root}/tmp"):  # a link would lead to the machine's
        os.chmod(f"{root}/tmp", 0o1777)
    _own_devices(f"{root}/dev")


def _own_devices(dev: str) -> None:
    sys_.mount("hekla", dev, "tmpfs", sys_.MS_NOSUID, "mode=755,size=1m")
    for name in _DEVICES:
        _touch(f"{dev}/{name}")
        sys_.mount(f"/dev/{name}", f"{dev}/{name}", None, sys_.MS_BIND)
    for name, where in _DEVICE_LINKS.items():
        os.symlink(where, f"{dev}/{name}")
    for name, fstype, options in _DEVICE_FILE_SYSTEMS:
        os.mkdir(f"{dev}/{name}")
        sys_.mount(fstype, f"{dev}/{name}", fstype, sys_.MS_NOSUID | sys_.MS_NOEXEC, options)


def _hide(paths: list[str]) -> None:
    for path in filter(None, paths):
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            sys_.mount("hekla", path, "tmpfs", _SAFE, "mode=700,size=1m")
        elif stat.S_ISREG(mode):
            sys_.mount("/dev/null", path, None, sys_.MS_BIND)


def _pick_up(bind: Bind) -> int:
    volume = open_within(bind["source"], bind["below"], create=False)
    try:
        descriptor = _open_in(volume, bind["within"], create=bind["create"])
    finally:
        os.close(volume)
    try:
        return sys_.pick_up(descriptor)
    finally:
        os.close(descriptor)


def open_within(source: str, within: str, *, create: bool) -> int:
    """Missing folders are made one by one, each in the one before: never by a path that somebody may be changing."""
    volume = os.open(source, os.O_PATH | os.O_CLOEXEC)
    try:
        return _open_in(volume, within, create=create)
    finally:
        os.close(volume)


def _open_in(volume: int, within: str, *, create: bool) -> int:
    if not within:
        return os.dup(volume)
    try:
        try:
            return sys_.open_beneath(volume, within)
        except FileNotFoundError:
            if not create:
                raise OSError(0, f"subPath {within!r} does not exist in the volume") from None
            parent, _, name = within.rpartition("/")
            folder = _open_in(volume, parent, create=True)
            try:
                os.mkdir(name, 0o755, dir_fd=folder)
            except FileExistsError:
                pass  # somebody else was faster, or a link that leads nowhere: the next look tells
            finally:
                os.close(folder)
            return sys_.open_beneath(volume, within)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise OSError(0, f"subPath {within!r} leads outside the volume") from error
        raise


def _put_down(bind: Bind, mount: int) -> None:
    target = bind["target"]
    if stat.S_ISDIR(os.fstat(mount).st_mode):
        os.makedirs(target, exist_ok=True)
    else:
        # A link (to a resolver's file in /run, say) would carry the mount somewhere else.
        if os.path.islink(target):
            os.unlink(target)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(target):
            _touch(target)
    sys_.put_down(mount, target)
    os.close(mount)
    if bind["read_only"]:
        sys_.make_read_only(target)


def _guard_kernel() -> None:
    for path in _READ_ONLY:
        if os.path.exists(path):
            sys_.bind(path, path, read_only=True)
    for path in _MASKED:
        if os.path.isdir(path):
            sys_.mount("hekla", path, "tmpfs", _SAFE | sys_.MS_RDONLY, "size=4k")
        elif os.path.exists(path):
            sys_.mount("/dev/null", path, None, sys_.MS_BIND)


def _seal(inner: list[str], volumes: frozenset[str]) -> None:
    """Make all of the image read-only; volumes, /dev, /run and the like stay as they are."""
    for path in ("/", *(f"/{name}" for name in os.listdir("/"))):
        own = path[1:] in _OWN - {"tmp"} or path in volumes
        if os.path.ismount(path) and not own:
            sys_.make_read_only(path, below=False)
    for path in inner:
        # Known to be mounts: within one file system they do not look like it.
        if path not in volumes:
            sys_.make_read_only(path, below=False)


def _mount_points(ours: str) -> list[str]:
    """The host's, in order; `ours` is where we have mounted things. To read them takes long where there are many."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        points = [line.split(" ", 5)[4] for line in table]
    plain = (point.encode().decode("unicode_escape") if "\\" in point else point for point in points)
    return sorted(point for point in plain if not point.startswith(ours + "/"))


def _outermost_below(path: str, mounts: list[str]) -> list[str]:
    """The mount points strictly below `path` that are below no other of them."""
    found: list[str] = []
    for point in mounts:
        if point.startswith(path + "/") and not any(point.startswith(outer + "/") for outer in found):
            found.append(point)
    return found


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
