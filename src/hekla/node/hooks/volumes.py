"""Volumes: which files they hold (decided here, from what was fetched) and putting those on disk.

Every volume is a directory of the node, bound into containers at its real path. ConfigMaps and the like are swapped
whole through a `..data` link, so a reader sees the old files or the new ones, never a mixture. What may be secret is
kept in memory (`secret_root`), not on disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hekla.api.kinds import Obj
from hekla.node.hooks.fields import field_value, resource_value
from hekla.node.hooks.sources import MissingSource, Place, SourceKind, Sources

_DEFAULT_MODE = 0o644
_FILES = ("configMap", "secret", "downwardAPI", "projected")
_SUPPORTED = (*_FILES, "emptyDir", "persistentVolumeClaim", "hostPath")


@dataclass(frozen=True)
class File:
    data: bytes
    mode: int


Files = dict[str, File]


def unsupported_volumes(pod: Obj) -> list[str]:
    """What this node cannot give, as `name (kind)`; an empty list is good news."""
    found = []
    for volume in pod["spec"].get("volumes") or ():
        kinds = [key for key in volume if key != "name"]
        if kinds and kinds[0] not in _SUPPORTED:
            found.append(f"{volume['name']} ({kinds[0]})")
    return found


def claimed(volume: Obj) -> str:
    """The claim behind a volume; empty where there is none."""
    return str((volume.get("persistentVolumeClaim") or {}).get("claimName") or "")


def directory_behind(claim: Obj | None, persistent: Obj | None, name: str, allowed: Sequence[Path]) -> Place:
    """The directory of a bound claim. Raises MissingSource while there is none, or when it is out of bounds."""
    if claim is None:
        raise MissingSource(f'persistentvolumeclaim "{name}" not found')
    if (claim.get("status") or {}).get("phase") != "Bound" or persistent is None:
        raise MissingSource(f'persistentvolumeclaim "{name}" is not bound yet')
    spec = persistent["spec"]
    path = (spec.get("hostPath") or spec.get("local") or {}).get("path")
    place = place_within(Path(path), allowed) if path else None
    if place is None:
        raise MissingSource(f'the volume of persistentvolumeclaim "{name}" is not a directory this node may mount')
    return place


def is_within(path: Path, allowed: Sequence[Path]) -> bool:
    """Whether a path is, links resolved, one of the allowed ones or below one."""
    return place_within(path, allowed) is not None


def place_within(path: Path, allowed: Sequence[Path]) -> Place | None:
    """Where a path is, links resolved, in one of the allowed ones; None where it is in none."""
    found = path.resolve()
    for each in allowed:
        # What lies in another allowed one may have been replaced by a pod: the outer one is what can be relied on.
        if any(each != other and each.is_relative_to(other) for other in allowed):
            continue
        root = each.resolve()
        if found.is_relative_to(root):
            below = str(found.relative_to(root))
            return Place(str(root), "" if below == "." else below)
    return None


def holds_files(volume: Obj) -> bool:
    return any(key in volume for key in _FILES)


def is_fixed(volume: Obj) -> bool:
    """Whether containers may only read it."""
    return holds_files(volume) or bool((volume.get("persistentVolumeClaim") or {}).get("readOnly"))


def is_in_memory(volume: Obj) -> bool:
    """Secrets, anything that may carry one, and emptyDirs that ask for it."""
    if (volume.get("emptyDir") or {}).get("medium") == "Memory":
        return True
    return "secret" in volume or "projected" in volume


def volume_files(
    volume: Obj, pod: Obj, sources: Sources, *, node: str, address: str, allocatable: dict[str, str]
) -> Files:
    """The files of a configMap, secret, downwardAPI or projected volume. Raises MissingSource."""
    if "configMap" in volume:
        return _keyed("configmap", volume["configMap"], volume["configMap"]["name"], sources)
    if "secret" in volume:
        return _keyed("secret", volume["secret"], volume["secret"]["secretName"], sources)
    if "downwardAPI" in volume:
        return _downward(volume["downwardAPI"], pod, node, address, allocatable, _mode(volume["downwardAPI"]))
    files: Files = {}
    projected = volume.get("projected") or {}
    default = _mode(projected)
    for source in projected.get("sources") or ():
        if "configMap" in source:
            files.update(_keyed("configmap", source["configMap"], source["configMap"]["name"], sources, default))
        elif "secret" in source:
            files.update(_keyed("secret", source["secret"], source["secret"]["name"], sources, default))
        elif "downwardAPI" in source:
            files.update(_downward(source["downwardAPI"], pod, node, address, allocatable, default))
        elif "serviceAccountToken" in source:
            files.update(_token(source["serviceAccountToken"], sources, default))
        else:
            raise MissingSource(f"projected source {', '.join(source)} is not supported yet")
    return files


def token_files(volume: Obj) -> list[tuple[str, int]]:
    """Where a volume holds service account tokens, and how many seconds they are good for."""
    tokens = [each.get("serviceAccountToken") for each in (volume.get("projected") or {}).get("sources") or ()]
    return [(str(each["path"]), int(each.get("expirationSeconds") or 3600)) for each in tokens if each]


def mounted_in_part(pod: Obj) -> set[str]:
    """The volumes of which some container mounts a part only (`subPath`, `subPathExpr`)."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    mounts = [mount for container in containers for mount in container.get("volumeMounts") or ()]
    return {mount["name"] for mount in mounts if mount.get("subPath") or mount.get("subPathExpr")}


def write_files(directory: Path, files: Files, *, keep: bool = False) -> None:
    """Make `directory` hold exactly `files`, at once for every reader.

    `keep` leaves the old files where they are, for those who have mounted a part of them: to these it stays as it was,
    where it would be gone. For the same reason what has not changed is not written again.
    """
    directory.mkdir(parents=True, exist_ok=True)
    names = {PurePosixPath(name).parts[0] for name in files}
    current = (directory / "..data").readlink().name if (directory / "..data").is_symlink() else ""
    if current and _holds(directory / current, files):
        # Whoever wrote them may have been stopped before they were to be seen.
        _link_names(directory, names)
        return
    version = f"..{int(current[2:] or 0) + 1}" if current else "..1"
    shutil.rmtree(directory / version, ignore_errors=True)
    for name, file in files.items():
        path = directory / version / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(file.mode)
    (directory / version).mkdir(exist_ok=True)
    swap = directory / "..data_tmp"
    swap.unlink(missing_ok=True)
    swap.symlink_to(version)
    swap.replace(directory / "..data")
    _link_names(directory, names)
    if current and not keep:
        shutil.rmtree(directory / current, ignore_errors=True)


def secret_root(data_dir: Path) -> Path:
    """A directory in memory that belongs to this data directory; on disk only where the machine has no /dev/shm."""
    shared = Path("/dev/shm")  # noqa: S108
    if not os.access(shared, os.W_OK) or not shared.is_mount():
        return data_dir / "memory"
    # The inode names the data directory without telling its path.
    found = data_dir.stat()
    return shared / f"hekla-{found.st_uid}-{found.st_dev:x}-{found.st_ino:x}"


def _keyed(kind: SourceKind, source: Obj, name: str, sources: Sources, default: int | None = None) -> Files:
    optional = bool(source.get("optional"))
    data = sources.data(kind, name, optional=optional)
    mode = _mode(source) if default is None else default
    if not source.get("items"):
        return {key: File(value, mode) for key, value in data.items()}
    files: Files = {}
    for item in source["items"]:
        value = sources.key(kind, name, item["key"], optional=optional)
        if value is not None:
            files[_safe(item["path"])] = File(value, _mode(item, "mode", mode))
    return files


def _downward(source: Obj, pod: Obj, node: str, address: str, allocatable: dict[str, str], default: int) -> Files:
    files: Files = {}
    for item in source.get("items") or ():
        if item.get("fieldRef"):
            text = field_value(pod, item["fieldRef"]["fieldPath"], node=node, address=address)
        else:
            text = resource_value(_named_container(pod, item), item["resourceFieldRef"], allocatable)
        files[_safe(item["path"])] = File(text.encode(), _mode(item, "mode", default))
    return files


def _named_container(pod: Obj, item: Obj) -> Obj:
    name = item["resourceFieldRef"].get("containerName")
    for container in [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]:
        if container["name"] == name:
            found: Obj = container
            return found
    raise MissingSource(f"resourceFieldRef names no container of the pod: {name}")


def _token(source: Obj, sources: Sources, default: int) -> Files:
    key = (str(source.get("audience") or ""), int(source.get("expirationSeconds") or 3600))
    if key not in sources.tokens:
        raise MissingSource("no service account token could be had")
    # As kubelets do: whatever user the containers run as must be able to read it; nobody else sees this volume.
    return {_safe(source["path"]): File(sources.tokens[key].encode(), default)}


def _mode(source: Obj, key: str = "defaultMode", default: int = _DEFAULT_MODE) -> int:
    value = source.get(key)
    return default if value is None else int(value)


def _safe(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
        raise MissingSource(f"volume path {path!r} must be relative and must not contain '..'")
    return path


def _holds(version: Path, files: Files) -> bool:
    """Modes are the pod's own and never change."""
    wanted = {PurePosixPath(name): file.data for name, file in files.items()}
    try:
        there = {path.relative_to(version): path.read_bytes() for path in version.rglob("*") if path.is_file()}
    except OSError:
        # What was given away, or is for nobody to read, is written again.
        return False
    return {PurePosixPath(name): data for name, data in there.items()} == wanted


def _link_names(directory: Path, names: set[str]) -> None:
    for name in sorted(names):
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(f"..data/{name}")
    for entry in directory.iterdir():
        if not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()
