"""Real images, where podman is installed: it fetches and unpacks them; pods run as all pods do here.

An image is named by its id once podman has it. Its file system is exported once, below the node's data directory,
beside the tarballs of `unpacking.py`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hekla.errors import UsageError
from hekla.log import get_logger
from hekla.node.hooks.images import Image, ImageError, ImageMissing, PullFailed
from hekla.node.image_store import extract, once

log = get_logger("node")

# [registry[:port]/]path[:tag][@digest]. Podman also takes flags and files of this machine for a name; pods may not.
_FILES = "dir|oci|oci-archive|docker-archive|docker-daemon|containers-storage|tarball|sif|ostree"
_REFERENCE = re.compile(
    rf"(?!({_FILES}):)\w[\w.-]*(:\d+)?(/\w[\w.-]*)*(:\w[\w.-]{{0,127}})?(@\w+:[0-9a-f]{{32,}})?", re.ASCII
)

_AT_ONCE = 16
_PULL_SECONDS = 3600.0
_ASK_SECONDS = 60.0


@dataclass(frozen=True)
class Podman:
    """Blocking: call in its own `threads`."""

    program: str
    data_dir: Path
    patience: float = _PULL_SECONDS  # with one image, pulled or unpacked
    threads: Executor = field(default_factory=lambda: ThreadPoolExecutor(_AT_ONCE, "podman"), compare=False)

    def find(self, name: str, policy: str) -> Image:
        """The image by that name, pulled as the policy says, its files in place. Raises ImageError."""
        if _REFERENCE.fullmatch(name) is None:
            raise ImageError(f'"{name}" is not the name of an image')
        if policy == "Always" or self._ask("image", "exists", name).returncode:
            self._pull(name, policy)
        found = self._inspect(name)
        config = found.get("Config") or {}
        root = once(self.data_dir, str(found["Id"]), lambda target: self._export(str(found["Id"]), target))
        return Image(
            root=root,
            entrypoint=tuple(config.get("Entrypoint") or ()),
            command=tuple(config.get("Cmd") or ()),
            environment=dict(each.partition("=")[::2] for each in config.get("Env") or ()),
            working_dir=str(config.get("WorkingDir") or "/"),
            user=str(config.get("User") or ""),
        )

    def _pull(self, name: str, policy: str) -> None:
        if policy == "Never":
            raise ImageMissing(f'image "{name}" is not among podman\'s and imagePullPolicy is Never')
        log.info("pulling", image=name)
        done = self._ask("pull", "--quiet", name, seconds=self.patience)
        if done.returncode:
            raise PullFailed(f'image "{name}" could not be pulled: {_last_words(done)}')

    def _inspect(self, name: str) -> dict[str, Any]:
        done = self._ask("image", "inspect", name)
        if done.returncode:
            raise ImageMissing(f'image "{name}": {_last_words(done)}')
        found: dict[str, Any] = msgspec.json.decode(done.stdout)[0]
        return found

    def _export(self, image: str, target: Path) -> None:
        # Always of the same name: what a killed node has left behind is replaced.
        name = "hekla-" + hashlib.sha256(os.fsencode(self.data_dir) + image.encode()).hexdigest()[:24]
        made = self._ask("create", "--pull=never", "--replace", f"--name={name}", image, "hekla-takes-its-files")
        if made.returncode:
            raise ImageError(f"podman cannot unpack image {image[:12]}: {_last_words(made)}")
        try:
            self._extract(name, image, target)
        finally:
            self._ask("rm", "--force", name)

    def _extract(self, container: str, image: str, target: Path) -> None:
        broken: object = None
        with subprocess.Popen([self.program, "export", container], stdout=subprocess.PIPE, cwd="/") as exporting:
            deadline = threading.Timer(self.patience, exporting.kill)
            deadline.start()
            try:
                with tarfile.open(fileobj=exporting.stdout, mode="r|") as archive:
                    extract(archive, target)
            except BaseException as error:
                # podman does not end by itself when nobody reads what it has left to write.
                exporting.kill()
                if not isinstance(error, tarfile.ReadError):
                    raise
                broken = error
            finally:
                deadline.cancel()
        if exporting.returncode:
            broken = f"export ended with {exporting.returncode}"
        if broken:
            raise ImageError(f"podman cannot unpack image {image[:12]}: {broken}")

    def _ask(self, *words: str, seconds: float = _ASK_SECONDS) -> subprocess.CompletedProcess[bytes]:
        command = [self.program, *words]
        try:
            return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, cwd="/")
        except subprocess.TimeoutExpired:
            raise ImageMissing(f"podman {words[0]} gave no answer in {seconds:.0f} s") from None


def find_podman(data_dir: Path) -> Podman:
    """Raises UsageError with the remedy where there is none."""
    program = shutil.which("podman", path=os.environ.get("PATH", os.defpath))
    if program is None:
        raise UsageError("--runtime podman: the program podman is not on this machine (Debian's package of that name)")
    return Podman(program, data_dir)


def _last_words(done: subprocess.CompletedProcess[bytes]) -> str:
    """Its error, without the warnings around it."""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    errors = [line for line in lines if line.startswith("Error:")] or lines
    return errors[-1].removeprefix("Error: ") if errors else f"podman ended with {done.returncode}"
