"""Images as folders and tarballs, and what containers see of them."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from hekla.api.kinds import Obj
from hekla.node.hooks.images import ImageError, Images
from hekla.node.unpacking import ReadyImage, ready_image
from tests.node.rig import ACCOUNTS, Rig, phase, rig, state


def table(folder: Path, text: str) -> Path:
    path = folder / "images.yaml"
    path.write_text(text)
    return path


def container(image: str) -> Obj:
    return {"name": "main", "image": image, "command": ["x"]}


def tarball(path: Path, **files: str) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size, member.mode = len(text), 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def test_a_tarball_is_unpacked_once_and_again_when_it_changes(tmp_path: Path) -> None:
    source = tarball(tmp_path / "app.tgz", etc__name="first")
    images = Images(table(tmp_path, "app: {root: app.tgz, layers: [app.tgz]}"))
    first = ready_image(container("app"), images, tmp_path / "node")
    assert Path(first.base, "etc/name").read_text() == "first"
    assert first.above == (first.base,)
    Path(first.base, "etc/name").write_text("kept")
    assert Path(ready_image(container("app"), images, tmp_path / "node").base, "etc/name").read_text() == "kept"
    tarball(source, etc__name="the second")
    assert Path(ready_image(container("app"), images, tmp_path / "node").base, "etc/name").read_text() == "the second"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"..__outside": "x"}, "outside"),
        ({"manifest.json": "[]", "layer.tar": ""}, "docker export"),
    ],
)
def test_a_tarball_that_is_no_file_system_is_refused_whole(tmp_path: Path, files: dict[str, str], said: str) -> None:
    tarball(tmp_path / "app.tgz", **files)
    with pytest.raises(ImageError, match=said):
        ready_image(container("app"), Images(table(tmp_path, "app: {root: app.tgz}")), tmp_path / "node")
    assert not (tmp_path / "node" / "outside").exists()
    assert [each.name for each in (tmp_path / "node" / "images").iterdir() if each.suffix != ".part"] == [".lock"]


def test_modes_and_owners_are_the_tarballs_and_names_of_users_mean_nothing(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "app.tar", "w") as archive:
        for name, kind, mode in (("tmp", tarfile.DIRTYPE, 0o1777), ("su", tarfile.REGTYPE, 0o4755)):
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.uid, member.gid = kind, mode, os.getuid(), os.getgid()
            member.uname = member.gname = "daemon"
            archive.addfile(member)
    image = ready_image(container("app"), Images(table(tmp_path, "app: {root: app.tar}")), tmp_path / "node")
    found = {each.name: each.stat() for each in Path(image.base).iterdir()}
    assert {name: oct(each.st_mode & 0o7777) for name, each in found.items()} == {"tmp": "0o1777", "su": "0o4755"}
    assert {(each.st_uid, each.st_gid) for each in found.values()} == {(os.getuid(), os.getgid())}


def links(path: Path, *members: tuple[str, bytes, str]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, kind, leads_to in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, leads_to, 0o777
            archive.addfile(member)


@pytest.mark.parametrize(
    "members",
    [
        [("second", tarfile.LNKTYPE, "{outside}")],
        [("second", tarfile.LNKTYPE, "../../../secret")],
        [("way", tarfile.SYMTYPE, ".."), ("second", tarfile.LNKTYPE, "way/../../secret")],
        [("way", tarfile.SYMTYPE, "{folder}"), ("second", tarfile.LNKTYPE, "way/secret")],
        [("way", tarfile.SYMTYPE, "{outside}"), ("way", tarfile.REGTYPE, "")],
        [("here", tarfile.DIRTYPE, ""), ("way", tarfile.SYMTYPE, "here"), ("way/file", tarfile.REGTYPE, "")],
    ],
)
def test_a_tarballs_links_are_not_followed_on_this_machine(
    tmp_path: Path, members: list[tuple[str, bytes, str]]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    secret.chmod(0o600)
    places = {"outside": str(secret), "folder": str(tmp_path)}
    links(tmp_path / "app.tar", *((name, kind, leads_to.format(**places)) for name, kind, leads_to in members))
    with pytest.raises(ImageError):
        ready_image(container("app"), Images(table(tmp_path, "app: {root: app.tar}")), tmp_path / "node")
    found = secret.stat()
    assert (secret.read_text(), oct(found.st_mode & 0o777), found.st_nlink) == ("mine", "0o600", 1)


def test_a_second_name_of_a_file_is_the_file_and_of_a_link_is_a_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    links(
        tmp_path / "app.tar",
        ("./file", tarfile.REGTYPE, ""),
        ("second", tarfile.LNKTYPE, "/file"),
        ("link", tarfile.SYMTYPE, str(secret)),
        ("second-link", tarfile.LNKTYPE, "link"),
    )
    image = ready_image(container("app"), Images(table(tmp_path, "app: {root: app.tar}")), tmp_path / "node")
    root = Path(image.base)
    assert (root / "second").samefile(root / "file")
    assert (root / "second-link").readlink() == secret
    assert oct(secret.stat().st_mode & 0o777) == "0o600"


@pytest.mark.parametrize("leads_to", ["{outside}", "/dev/zero"])
def test_an_images_list_of_users_is_the_images_own(tmp_path: Path, leads_to: str) -> None:
    (tmp_path / "passwd").write_text("app:x:7:8::/home/app:/bin/sh\n")
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/passwd").symlink_to(leads_to.format(outside=tmp_path / "passwd"))
    with pytest.raises(ImageError, match="not in its /etc/passwd"):
        ReadyImage(["x"], base=str(tmp_path / "root"), user="app").identity()


def test_an_images_links_lead_from_the_images_root(tmp_path: Path) -> None:
    for folder in ("etc", "store"):
        (tmp_path / folder).mkdir()
    (tmp_path / "store/users").write_text("app:x:7:8::/home/app:/bin/sh\n")
    (tmp_path / "etc/passwd").symlink_to("/store/users")
    image = ReadyImage(["x"], base=str(tmp_path), user="app")
    assert (image.identity(), image.home_of(7)) == ((7, 8), "/home/app")


@pytest.mark.parametrize("user", ["app", "7:app", "4294967295", "7:" + 5000 * "9"])
def test_a_user_without_a_number_is_refused(tmp_path: Path, user: str) -> None:
    (tmp_path / "etc").mkdir()
    for name in ("passwd", "group"):
        (tmp_path / "etc" / name).write_text("app:x:seven:8::/:/bin/sh\n")
    with pytest.raises(ImageError, match="which is none"):
        ReadyImage(["x"], base=str(tmp_path), user=user).identity()


def test_what_is_missing_is_named_with_the_hint(tmp_path: Path) -> None:
    images = Images(table(tmp_path, "app: {layers: [nowhere], hint: run make app}"))
    with pytest.raises(ImageError, match=r'image "app" needs .*/nowhere, which is not there: run make app'):
        ready_image(container("app"), images, tmp_path)


def test_a_broken_archive_says_which(tmp_path: Path) -> None:
    (tmp_path / "app.tar").write_text("not a tarball")
    with pytest.raises(ImageError, match='image "app"'):
        ready_image(container("app"), Images(table(tmp_path, "app: {root: app.tar}")), tmp_path / "node")


def small_root(folder: Path) -> Path:
    """A file system with a shell in it and little else."""
    for program in ("sh", "cat", "ls", "id", "touch"):
        found = Path(shutil.which(program) or "").resolve()
        linked = subprocess.run(["ldd", found], capture_output=True, text=True, check=True).stdout
        libraries = [Path(word) for word in linked.split() if word.startswith("/")]
        for source, target in [(found, f"bin/{program}"), *((each, str(each)[1:]) for each in libraries)]:
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / target)
    return folder


@pytest.mark.root
@pytest.mark.parametrize("account", ACCOUNTS)
def test_containers_see_their_image_and_nothing_of_it_changes(account: str) -> None:
    async def main() -> None:
        async with rig(account) as node:
            root, layer = small_root(node.home / "root"), node.home / "a, b: c"
            (root / "etc").mkdir()
            (root / "etc/passwd").write_text("root:x:0:0::/home/boss:/bin/sh\n")
            for name, text in {"opt/tool": "echo tool", "tmp/left": "", "note": "hello", "usr/share/x": "y"}.items():
                (layer / name).parent.mkdir(parents=True, exist_ok=True)
                (layer / name).write_text(text)
            path = table(
                node.home,
                f"""
                small: {{root: {root}, layers: ["{layer}"], workingDir: /opt, environment: {{COLOUR: red}},
                         entrypoint: [/bin/sh, -c]}}
                over: {{layers: ["{layer}"]}}
                broken: {{layers: [nowhere], hint: make it}}
                """,
            )
            await node.start_agent(images=path)
            await _look(node)
            assert sorted(each.name for each in root.iterdir()) == ["bin", "etc", "lib", "lib64"]
            assert sorted(each.name for each in layer.iterdir()) == ["note", "opt", "tmp", "usr"]
            assert not (layer / "opt/new").exists()

    asyncio.run(main())


# What other programs (podman, docker) leave on a machine: mounts that an ordinary user may not take apart.
WITH_MOUNTS_IN_VAR = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /var/tmp && exec "$@"', "sh")


@pytest.mark.root
@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_layer_lies_over_a_directory_of_the_machine_with_mounts_in_it(account: str) -> None:
    async def main() -> None:
        async with rig(account) as node:
            node.inside = WITH_MOUNTS_IN_VAR
            layer = node.home / "layer"
            (layer / "var/lib").mkdir(parents=True)
            (layer / "var/lib/word").write_text("from the layer\n")
            await node.start_agent(images=table(node.home, f"over: {{layers: [{layer}]}}"))
            script = "cat /var/lib/word; ls -d /var/lib/dpkg; touch /var/new /var/lib/new && ls /var/new /var/lib/new"
            await node.create_pod("open", script, container={"image": "over"})
            pod = await node.finished("open")
            assert node.log(pod) == "from the layer\n/var/lib/dpkg\n/var/lib/new\n/var/new\n", pod
            assert not Path("/var/new").exists()
            assert not (layer / "var/lib/new").exists()

            await node.create_pod("bare", "touch /var/new /var/lib/new && ls /var/new /var/lib/new")
            assert node.log(await node.finished("bare")) == "/var/lib/new\n/var/new\n"

            sealed = {"image": "over", "securityContext": {"readOnlyRootFilesystem": True}}
            places = "/var /var/lib /var/lib/dpkg /var/cache"
            script = f"for each in {places}; do touch $each/new 2> /dev/null && echo $each; done; cat /var/lib/word"
            await node.create_pod("sealed", script, container=sealed)
            assert node.log(await node.finished("sealed")) == "from the layer\n"

    asyncio.run(main())


def state_of(pod: Obj) -> Obj:
    return state(pod) if (pod.get("status") or {}).get("containerStatuses") else {}


async def _look(node: Rig) -> None:
    script = "ls /; cat /note; sh ./tool; ls /tmp; touch ./new /new; echo $COLOUR $HOME"
    only_args = {"image": "small", "command": None, "args": [script]}
    await node.create_pod("small", container=only_args, automountServiceAccountToken=False)
    pod = await node.finished("small")
    assert phase(pod) == "Succeeded", pod
    names = ["bin", "dev", "etc", "lib", "lib64", "note", "opt", "proc", "run", "sys", "tmp", "usr"]
    assert node.log(pod) == "\n".join([*names, "hellotool", "left", "red /home/boss"]) + "\n"

    script = "sh /opt/tool; cat /usr/share/x; ls /usr/bin/env /tmp; touch /opt/new"
    await node.create_pod("over", script, container={"image": "over:any"})
    pod = await node.finished("over")
    assert node.log(pod) == "tool\ny/usr/bin/env\n\n/tmp:\nleft\n", pod

    await node.create_pod("broken", "true", container={"image": "broken"})
    pod = await node.until("broken", lambda pod: bool(state_of(pod).get("waiting", {}).get("message")))
    assert state(pod)["waiting"]["reason"] == "ErrImageNeverPull"
    assert state(pod)["waiting"]["message"].endswith("which is not there: make it")
    # What was missing may come.
    (node.home / "nowhere").mkdir()
    assert phase(await node.finished("broken")) == "Succeeded"

    await node.create_pod("unmapped", container={"image": "unmapped", "command": None})
    ended = state(await node.finished("unmapped"))["terminated"]
    assert ended["reason"] == "ErrImageNeverPull"
