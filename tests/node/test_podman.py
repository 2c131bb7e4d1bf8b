"""Pods whose images are podman's. They are made here: nothing is pulled from anywhere."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from hekla.errors import UsageError
from hekla.node.hooks.images import ImageError
from hekla.node.podman import Podman, find_podman
from tests.eventually import eventually
from tests.node.rig import ACCOUNTS, USER, Rig, as_account, environment, phase, rig, state
from tests.node.test_unpacking import small_root

IMAGE = "localhost/small:1"


def give_podman_a_home(node: Rig) -> None:
    """A store of its own, so that this machine's images stay as they are."""
    place = node.home / "containers"
    place.mkdir()
    conf = node.home / "storage.conf"
    conf.write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{place}/graph"\nrunroot = "{place}/run"\n')
    if os.geteuid() == 0 and node.account != "root":
        os.chown(place, USER, USER)
    node.variables = {"CONTAINERS_STORAGE_CONF": str(conf), "HOME": str(place), "XDG_RUNTIME_DIR": str(place)}


def podman(node: Rig, *words: str | Path) -> str:
    *dropping, _ = as_account(node.account)
    env = environment(node.home) | node.variables
    return subprocess.check_output([*dropping, "podman", *words], env=env, cwd="/", text=True)


def make_image(node: Rig, changes: Sequence[str]) -> None:
    root = small_root(node.home / "image")
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root:x:0:0::/home/boss:/bin/sh\napp:x:7:8::/home/app:/bin/sh\n")
    subprocess.run(["tar", "-C", root, "--owner=0", "--group=0", "-cf", node.home / "image.tar", "."], check=True)
    podman(node, "import", "--quiet", *(f"--change={each}" for each in changes), node.home / "image.tar", IMAGE)


@pytest.mark.root
@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_container_is_what_podmans_image_says_and_the_pod_overrides(account: str) -> None:
    async def main() -> None:
        async with rig(account) as node:
            give_podman_a_home(node)
            changes = ['ENTRYPOINT ["/bin/sh", "-c"]', 'CMD ["ls /; id -u; echo $COLOUR $HOME; touch /bin/new"]']
            make_image(node, [*changes, "ENV COLOUR=red", "WORKDIR /etc", *(["USER app"] if account == "root" else [])])
            await node.start_agent(runtime="podman")
            await _look(node)
            assert containers(node) == [], "nothing of podman's is left running"

    asyncio.run(main())


@pytest.mark.root
def test_of_an_unpacking_that_was_killed_or_hangs_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with rig("root") as node:
            hanging = podman_that_exports_with(node, "exec sleep 1000", monkeypatch)
            with pytest.raises(ImageError, match="export ended with -9"):
                Podman(str(hanging), node.data_dir, patience=0.1).find(IMAGE, "Never")
            assert containers(node) == []

            code = f"from pathlib import Path; from hekla.node.podman import Podman; Podman({str(hanging)!r}, "
            code += f"Path({str(node.data_dir)!r})).find({IMAGE!r}, 'Never')"
            killed = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
            eventually(lambda: len(containers(node)) == 1, what="podman has made a container")
            os.killpg(killed.pid, signal.SIGKILL)
            killed.wait()
            assert len(containers(node)) == 1
            Podman("podman", node.data_dir).find(IMAGE, "Never")
            assert containers(node) == []

    asyncio.run(main())


@pytest.mark.root
def test_what_cannot_be_unpacked_is_told_though_podman_goes_on_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with rig("root") as node:
            with tarfile.open(node.home / "astray.tar", "w") as archive:
                archive.addfile(tarfile.TarInfo("../outside"))
            lasting = podman_that_exports_with(node, f"cat {node.home}/astray.tar; exec sleep 1000", monkeypatch)
            with pytest.raises(OSError, match="leads through a link or outside"):
                Podman(str(lasting), node.data_dir).find(IMAGE, "Never")
            assert containers(node) == []

    asyncio.run(main())


def podman_that_exports_with(node: Rig, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """podman, with an image in a store of its own, in all but `export`."""
    give_podman_a_home(node)
    make_image(node, [])
    for name, value in node.variables.items():
        monkeypatch.setenv(name, value)
    node.data_dir.mkdir(exist_ok=True)
    program = node.home / "own-podman"
    program.write_text(f'#!/bin/sh\n[ "$1" = export ] || exec podman "$@"\n{script}\n')
    program.chmod(0o755)
    return program


def containers(node: Rig) -> list[object]:
    found: list[object] = json.loads(podman(node, "ps", "--all", "--format=json"))
    return found


async def _look(node: Rig) -> None:
    quiet = {"automountServiceAccountToken": False}
    # Root's image says who runs in it; an ordinary user has no other numbers to give.
    user, home = ("7", "/home/app") if node.account == "root" else ("0", "/home/boss")
    await node.create_pod("as-it-is", container={"image": IMAGE, "command": None}, **quiet)
    pod = await node.finished("as-it-is")
    names = ["bin", "dev", "etc", "lib", "lib64", "proc", "run", "sys", "tmp"]
    denied = ["touch: cannot touch '/bin/new': Permission denied"] if node.account == "root" else []
    assert sorted(node.log(pod).splitlines()) == sorted([*names, user, f"red {home}", *denied]), pod

    own = {"image": IMAGE, "command": ["sh", "-c", "cat passwd; id -u; ls /bin; exit 3"]}
    await node.create_pod("overridden", container={**own, "securityContext": {"runAsUser": 0}}, **quiet)
    pod = await node.finished("overridden")
    assert state(pod)["terminated"]["exitCode"] == 3
    passwd = ["root:x:0:0::/home/boss:/bin/sh", "app:x:7:8::/home/app:/bin/sh"]
    assert node.log(pod).splitlines() == [*passwd, "0", "cat", "id", "ls", "sh", "touch"]

    await node.create_pod("nowhere", "true", container={"image": "localhost/nowhere:1", "imagePullPolicy": "Never"})
    pod = await node.until("nowhere", lambda pod: bool(_waits_with(pod)))
    assert _waits_with(pod) == 'image "localhost/nowhere:1" is not among podman\'s and imagePullPolicy is Never'
    await node.create_pod("refused", "true", container={"image": "127.0.0.1:1/refused:1"})
    refused = await node.until("refused", lambda pod: bool(_waits_with(pod)))
    assert state(refused)["waiting"]["reason"] == "ErrImagePull"
    assert "connection refused" in _waits_with(refused)
    podman(node, "tag", IMAGE, "localhost/nowhere:1")
    assert phase(await node.finished("nowhere")) == "Succeeded"


def _waits_with(pod: dict[str, dict[str, list[dict[str, dict[str, dict[str, str]]]]]]) -> str:
    states = [each["state"] for each in (pod.get("status") or {}).get("containerStatuses") or ()]
    return str((states[0].get("waiting") or {}).get("message") or "") if states else ""


def test_without_podman_there_is_one_error_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="podman is not on this machine"):
        find_podman(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "--root=/tmp/x",
        "dir:/etc",
        "docker-archive:/tmp/x.tar",
        "docker-archive:x.tar",
        "oci:x",
        "containers-storage:x/y",
        "../x",
        "a b",
        "x:/y",
        "",
    ],
)
def test_flags_and_paths_are_no_names_of_images(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImageError, match="is not the name of an image"):
        Podman(str(tmp_path / "never-asked"), tmp_path).find(name, "IfNotPresent")


@pytest.mark.parametrize(
    "name",
    [
        "busybox",
        "busybox:1.36",
        "docker:27-dind",
        "dir",
        "localhost:5000/a/b_c:v1.2-3",
        "ghcr.io/x/y@sha256:" + "a" * 64,
        "x/y:1@sha256:" + "0" * 64,
    ],
)
def test_names_of_images_reach_podman(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="asked"):
        Podman(str(tmp_path / "asked"), tmp_path).find(name, "IfNotPresent")
