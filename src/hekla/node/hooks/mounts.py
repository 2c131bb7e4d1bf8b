"""What a container sees where: the plan that `rootfs` carries out inside the container's mount namespace."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from hekla.api.kinds import Obj
from hekla.node.hooks.env import expand, unknown_in
from hekla.node.hooks.sources import Place
from hekla.node.rootfs import Bind

# Where people keep what would let a pod act as them elsewhere.
_CREDENTIALS = (".ssh", ".kube", ".aws", ".azure", ".config/gcloud", ".docker", ".gnupg", ".netrc", ".git-credentials",
                ".pypirc", ".npmrc", ".password-store", ".local/state/hekla")  # fmt: skip

# Where every container is given its service account's token.
API_ACCESS = "/var/run/secrets/kubernetes.io/serviceaccount"


class MountError(Exception):
    """A volumeMount that cannot be carried out; the text says which and why."""


def hidden_paths(data_dir: Path, extra: Iterable[Path]) -> list[str]:
    """What must look empty in every pod: our own state, people's credentials, and what the settings add."""
    homes = [Path.home()] if os.getuid() else [Path(entry.pw_dir) for entry in pwd.getpwall() if entry.pw_dir != "/"]
    # Not only those that are there now: a key made tomorrow is to be hidden from tomorrow's pods.
    credentials = [home / name for home in homes if home.is_dir() for name in _CREDENTIALS]
    return sorted({os.path.realpath(path) for path in [data_dir, *extra, *credentials]})


def volume_binds(
    container: Obj, volumes: Mapping[str, Place], read_only: frozenset[str], env: Mapping[str, str]
) -> list[Bind]:
    """One bind per volumeMount, outer ones first. `read_only` names volumes nobody may write to.

    `env` are the container's variables, which may stand in what part of a volume is meant.
    """
    binds = []
    for mount in container.get("volumeMounts") or ():
        name = mount["name"]
        if name not in volumes:
            raise MountError(f'volumeMount "{name}" names no volume of the pod')
        forbidden = bool(mount.get("readOnly")) or name in read_only
        binds.append(
            Bind(
                source=volumes[name].root,
                below=volumes[name].below,
                within=_subpath(_part(mount, env)),
                create=name not in read_only,
                target=_target(mount["mountPath"]),
                read_only=forbidden,
            )
        )
    return sorted(binds, key=lambda bind: len(PurePosixPath(bind["target"]).parts))


def file_binds(directory: Path, container: Obj) -> list[Bind]:
    """The pod's own /etc files, unless the container mounts something there itself."""
    taken = {_target(mount["mountPath"]) for mount in container.get("volumeMounts") or ()}
    names = ("hosts", "hostname", "resolv.conf")
    return [_file(directory / name, f"/etc/{name}") for name in names if f"/etc/{name}" not in taken]


def gpu_binds(devices: Path) -> list[Bind]:
    """The files through which NVIDIA's driver is spoken to. All of them: with a card's missing, CUDA would count the
    others anew, and the numbers in its variable be those of other cards."""
    files = sorted(path for path in devices.glob("nvidia*") if not path.is_dir())
    return [_file(path, f"/dev/{path.name}") for path in files]


def message_bind(file: Path, where: str) -> Bind:
    """Where the container may leave its last words."""
    return _file(file, _target(where))


def _file(source: Path, target: str) -> Bind:
    return Bind(source=os.path.realpath(source), below="", within="", create=False, target=target, read_only=False)


def _target(path: str) -> str:
    parts = PurePosixPath("/", path).parts
    if ".." in parts or len(parts) < 2:
        raise MountError(f"mountPath {path!r} is not allowed")
    return "/" + "/".join(parts[1:])


def _part(mount: Obj, env: Mapping[str, str]) -> str:
    pattern = str(mount.get("subPathExpr") or "")
    for name in unknown_in(pattern, env):
        # As written it would be one folder for all pods, which are meant to have one each.
        raise MountError(f'subPathExpr {pattern!r}: missing value for "{name}"')
    return expand(pattern, env) or str(mount.get("subPath") or "")


def _subpath(written: str) -> str:
    """Checked again by the kernel when it is opened: what is in a volume may change until then."""
    if written.startswith("/") or ".." in PurePosixPath(written).parts:
        raise MountError(f"subPath {written!r} must be relative and must not contain '..'")
    return "" if written in ("", ".") else str(PurePosixPath(written))
