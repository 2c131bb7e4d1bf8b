"""An ordinary user with a range of ids: pods have users of their own, sshd among them, and nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import shutil
from base64 import b64encode
from pathlib import Path

import pytest

from hekla.node.user_ids import ALL_IDS, Range, missing_for_ids, range_in, share
from tests.node.rig import USER, Rig, phase, rig, state, sweep_as


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ann:100000:65536\n", Range(100000, 65536)),
        ("bob:1:65536\n1000:200000:65536", Range(200000, 65536)),
        ("ann:1:10\nann:300000:65536", Range(300000, 65536)),
        ("ann:1:10\nbob:300000:65536", None),
        ("ann\nann:x:65536\nann:::\n", None),
        ("", None),
    ],
)
def test_the_first_range_that_is_large_enough_counts(tmp_path: Path, text: str, expected: Range | None) -> None:
    (tmp_path / "subuid").write_text(text)
    assert range_in(tmp_path / "subuid", "ann", 1000) == expected
    assert range_in(tmp_path / "nowhere", "ann", 1000) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to any group")
def test_a_volume_is_shared_and_nothing_that_links_in_it_lead_to(tmp_path: Path) -> None:
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    for folder in (volume / "a", outside):
        folder.mkdir(parents=True)
        (folder / "file").touch(mode=0o600)
    os.mkfifo(volume / "pipe", 0o600)
    (volume / "folder").symlink_to(outside)
    (volume / "a/link").symlink_to(outside / "file")
    before = [path.stat() for path in (outside, outside / "file")]
    share(str(tmp_path), "volume", 99, ALL_IDS)
    shown = {path: (found.st_gid, oct(found.st_mode & 0o7777)) for path in ("a", "a/file", "pipe")
             if (found := (volume / path).stat())}  # fmt: skip
    assert shown == {"a": (99, "0o2775"), "a/file": (99, "0o660"), "pipe": (99, "0o660")}
    assert [path.stat() for path in (outside, outside / "file")] == before
    with pytest.raises(OSError, match="leads outside"):
        share(str(volume), "folder", 99, ALL_IDS)


with_ids = pytest.mark.skipif(os.geteuid() != 0 and bool(missing_for_ids()), reason=f"needs {missing_for_ids()}")
ACCOUNTS = ["root", "user with ids"] if os.geteuid() == 0 else ["user"]
IMAGES = Path.home() / ".cache/hekla/images"


def on_a_node(account: str, story: object, **settings: object) -> None:
    async def main() -> None:
        async with rig(account) as node:
            await node.start_agent(**settings)
            await story(node)

    asyncio.run(main())


@with_ids
@pytest.mark.root
@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_pod_has_users_of_its_own_and_leaves_nothing(account: str) -> None:
    on_a_node(account, _users)


async def _users(node: Rig) -> None:
    everybody = {"emptyDir": {}, "name": "shared"}
    container = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    script = """
        mkdir -p /shared/closed/inner /root/deep; chown -R 1234:99 /shared/closed /root/deep; chmod 700 /shared/closed
        stat -c '%u %g' /shared/closed / /usr /root/deep
        setpriv --reuid=1234 --clear-groups sh -c 'id -u; touch /shared/closed/mine'
    """
    await node.create_pod("owner", script, container=container, volumes=[everybody])
    pod = await node.finished("owner")
    assert node.log(pod).split("\n") == ["1234 99", "0 0", "0 0", "1234 99", "1234", ""]
    await node.create_pod("someone", "id -u; id -g; id -G; exit 3", securityContext={"runAsUser": 7, "runAsGroup": 8})
    assert node.log(await node.finished("someone")) == "7\n8\n8\n"
    await node.create("Secret", "closed", data={"word": b64encode(b"open sesame").decode()})
    volumes = [everybody, {"name": "closed", "secret": {"secretName": "closed", "defaultMode": 0o400}}]
    container["volumeMounts"].append({"name": "closed", "mountPath": "/closed"})
    script = "id -G; cat /closed/word; mkdir /shared/new; stat -c ' %g' /shared/new"
    who = {"runAsUser": 7, "runAsGroup": 8, "fsGroup": 99, "supplementalGroups": [5]}
    await node.create_pod("member", script, container=container, volumes=volumes, securityContext=who)
    assert node.log(await node.finished("member")) == "8 5 99\nopen sesame 99\n"
    # A program that is closed to who is to run it: which folder is in the way.
    owner = {
        "name": "first",
        "image": "any",
        "command": ["sh", "-c", "mkdir -m 700 /shared/mine; cp /bin/true /shared/mine"],
    }
    owner |= {"volumeMounts": container["volumeMounts"][:1], "securityContext": {"runAsUser": 0}}
    own = {**container, "command": ["/shared/mine/true"], "securityContext": {"runAsUser": 7}}
    await node.create_pod("closed", initContainers=[owner], container=own, volumes=volumes)
    ended = state(await node.finished("closed"))["terminated"]
    assert ended["message"] == 'exec: "/shared/mine/true": permission denied (/shared/mine is closed to user 7)'
    # More than there are: the user's own id is shown under that number.
    await node.create_pod("beyond", "id -u", securityContext={"runAsUser": 2_000_000_000})
    assert node.log(await node.finished("beyond")) == "2000000000\n"
    await node.create_pod("stays", "chown 5:5 /usr/bin; trap : TERM; sleep 600", securityContext={"runAsUser": 0})
    await node.running("stays")
    assert node.agent is not None
    await node.kill_agent()
    sweep_as(node.account, node.data_dir)
    left = [each for each in node.data_dir.rglob("*") if each.is_dir() and each.name in ("scratch", "volumes")]
    assert left == []


@with_ids
@pytest.mark.root
@pytest.mark.parametrize("account", ACCOUNTS)
def test_sshd_lets_its_own_key_in(account: str) -> None:
    async def main() -> None:
        async with rig(account) as node:
            layer = node.home / "mpi"
            shutil.copytree(IMAGES / "mpi", layer, symlinks=True)
            if os.geteuid() == 0 and account != "root":
                for each in [layer, *layer.rglob("*")]:
                    os.chown(each, USER, USER, follow_symlinks=False)
            (node.home / "images.yaml").write_text(f"ssh: {{layers: ['{layer}']}}")
            key = Path(node.home, "key")
            made = await asyncio.create_subprocess_exec(layer / "usr/bin/ssh-keygen", "-q", "-N", "", "-f", key)
            assert await made.wait() == 0
            await node.start_agent(images=node.home / "images.yaml")
            await _log_in(node, key)

    asyncio.run(main())


async def _log_in(node: Rig, key: Path) -> None:
    public = key.with_suffix(".pub").read_text()
    data = {"id_rsa": key.read_text(), "authorized_keys": public, "config": "StrictHostKeyChecking no\n"}
    await node.create("Secret", "keys", data={name: b64encode(text.encode()).decode() for name, text in data.items()})
    # sshd goes into the background before it listens.
    log_in = "ssh -o ConnectionAttempts=60 localhost 'id -u; hostname'"
    script = f"mkdir -p /run/sshd; /usr/sbin/sshd -E /tmp/log; {log_in} || cat /tmp/log"
    await node.create_pod(
        "server",
        script,
        container={"image": "ssh", "volumeMounts": [{"name": "keys", "mountPath": "/root/.ssh"}]},
        volumes=[{"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o600}}],
    )
    pod = await node.finished("server")
    assert phase(pod) == "Succeeded"
    assert "0\nserver\n" in node.log(pod)
