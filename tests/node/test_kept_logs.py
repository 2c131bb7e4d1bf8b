"""What pods of a Job said stays while the Job is there: bounded, on disk, and never in the way of a pod's end."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.api.kinds import JOB, POD, Obj
from hekla.api.meta import name_of, owner_reference, uid_of
from hekla.local.bootstrap import install_crds
from hekla.node.cleanup import end_pod
from hekla.node.directory import PodDirectory
from hekla.node.kept_logs import BYTES_KEPT, PODS_KEPT, bound_all, earlier_pod, jobs_with_logs, tail_of
from tests import make
from tests.eventually import soon
from tests.node.rig import ACCOUNTS, NODE_NAME, Rig, rig
from tests.node.test_full_disk import fill, small_disk

NOTE = b"[of this log the first %d bytes were not kept]"


async def _create_job(node: Rig, name: str = "j") -> Obj:
    job = make.job(name, make.task("t"))
    return await node.client.create(JOB, {**job, "metadata": {"name": name, "namespace": "default"}, "status": {}})


async def _say(node: Rig, job: Obj | None, word: str) -> None:
    """The pod `j-t-0`, begun, ended and deleted."""
    owners = [owner_reference(job, JOB)] if job is not None else []
    await node.create_pod("j-t-0", f"echo {word}; exit 1", owners=owners)
    await node.finished("j-t-0")
    await node.client.delete(POD, "j-t-0", "default")
    await node.until_gone("j-t-0")


def _heard(node: Rig, job: Obj) -> str:
    return _text(earlier_pod(node.data_dir, uid_of(job), "default", "j-t-0", "main"))


def _text(found: PodDirectory | None) -> str:
    if found is None:
        return ""
    return found.log("main", found.attempt_numbers("main")[-1]).read_text().split(" F ", 1)[1]


def _is_put_away(node: Rig, job: Obj) -> bool:
    return uid_of(job) in jobs_with_logs(node.data_dir) and not list((node.data_dir / "pods").iterdir())


@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_log_outlives_its_pod_and_the_agent_but_not_its_job(account: str) -> None:
    async def main() -> None:
        async with rig(account) as node:
            await install_crds(node.client)
            await node.start_agent()
            first = await _create_job(node)
            await _say(node, first, "first")
            await soon(lambda: _is_put_away(node, first))
            await node.kill_agent()
            await node.start_agent()
            assert _heard(node, first) == "first\n"
            # Another Job of the name has nothing to do with it.
            await node.client.delete(JOB, "j", "default")
            second = await _create_job(node)
            assert _heard(node, second) == ""
            await soon(lambda: not jobs_with_logs(node.data_dir))
            await _say(node, second, "second")
            await soon(lambda: _is_put_away(node, second))
            assert _heard(node, second) == "second\n"

    asyncio.run(main())


@pytest.mark.parametrize("account", ACCOUNTS)
def test_what_happened_while_no_agent_was_there_is_made_up_for(account: str) -> None:
    async def main() -> None:
        async with rig(account) as node:
            await install_crds(node.client)
            await node.start_agent()
            stays, goes = await _create_job(node, "stays"), await _create_job(node, "goes")
            for job in (stays, goes):
                await node.create_pod(name_of(job), "echo said", owners=[owner_reference(job, JOB)])
                await node.finished(name_of(job))
            await node.kill_agent()
            for job in (stays, goes):
                await node.client.delete(POD, name_of(job), "default", grace_seconds=0)
            await node.client.delete(JOB, "goes", "default")
            await node.start_agent()
            await soon(lambda: jobs_with_logs(node.data_dir) == [uid_of(stays)])
            assert _text(earlier_pod(node.data_dir, uid_of(stays), "default", "stays", "main")) == "said\n"

    asyncio.run(main())


def test_of_a_pod_that_is_no_jobs_nothing_is_left() -> None:
    async def main() -> None:
        async with rig(ACCOUNTS[-1]) as node:
            await node.start_agent()
            await _say(node, None, "gone")
            await soon(lambda: not list((node.data_dir / "pods").iterdir()))
            assert not (node.data_dir / "kept").exists()

    asyncio.run(main())


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk of its own")
@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_full_disk_keeps_no_log_and_no_pod(account: str, capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with rig(account) as node:
            await install_crds(node.client)
            with small_disk(node) as filling:
                await node.start_agent(storage_period=3600)
                job = await _create_job(node)
                await node.create_pod("j-t-0", "echo said", owners=[owner_reference(job, JOB)])
                await node.finished("j-t-0")
                fill(filling)
                await node.client.delete(POD, "j-t-0", "default")
                await node.until_gone("j-t-0")
                await soon(lambda: not list((node.data_dir / "pods").iterdir()))
                assert not jobs_with_logs(node.data_dir)
                filling.unlink()
                await node.kill_agent()
                await asyncio.to_thread(node.sweep)

    asyncio.run(main())
    assert "log not kept" in capfd.readouterr().err


def _pod(uid: str, owner: dict[str, str]) -> Obj:
    owners = [{"apiVersion": JOB.api_version, "kind": "Job", "name": "j", "uid": "job", "controller": True, **owner}]
    return {"metadata": {"name": "p", "namespace": "default", "uid": uid, "ownerReferences": owners}}


def ended_pod(
    folder: Path,
    uid: str,
    text: bytes = b"",
    *,
    attempts: int = 1,
    owner: dict[str, str] | None = None,
    node: str = NODE_NAME,
) -> PodDirectory:
    """The place of a pod that has come to its end."""
    directory = PodDirectory(folder, uid)
    directory.claim(_pod(uid, owner or {}), node)
    for number in range(attempts):
        directory.write_exit("main", number, {"code": 1})
        directory.log("main", number).write_bytes(text or b"2030-01-01T00:00:00Z stdout F %b\n" % uid.encode())
    return directory


@contextmanager
def in_the_way(path: Path) -> Iterator[None]:
    """A folder where a record belongs cannot be read as one, whoever we are."""
    aside = path.with_suffix(".aside")
    if path.exists():
        path.rename(aside)
    path.mkdir()
    yield
    path.rmdir()
    if aside.exists():
        aside.rename(path)


def test_the_last_pods_of_a_name_are_kept_each_with_its_last_attempt(tmp_path: Path) -> None:
    uids = [f"u-{number}" for number in range(PODS_KEPT + 2)]
    for uid in uids:
        end_pod(ended_pod(tmp_path, uid, attempts=3))
    kept = tmp_path / "kept" / "job" / "pods"
    assert sorted(place.name for place in kept.iterdir()) == uids[2:]
    assert {place.name for place in kept.glob("*/containers/main/*")} == {"2"}
    assert _text(earlier_pod(tmp_path, "job", "default", "p", "main")) == f"{uids[-1]}\n"
    assert _text(earlier_pod(tmp_path, "job", "default", "p", "main", uid=uids[-1])) == f"{uids[-2]}\n"
    for asked in [("job", "other", "p", "main"), ("job", "default", "q", "main"), ("job", "default", "p", "side")]:
        assert earlier_pod(tmp_path, *asked) is None


def test_a_pod_on_its_way_out_is_an_earlier_one_too(tmp_path: Path) -> None:
    end_pod(ended_pod(tmp_path, "u-0"))
    ended_pod(tmp_path, "u-1")
    ended_pod(tmp_path, "u-2")
    assert _text(earlier_pod(tmp_path, "job", "default", "p", "main", uid="u-2")) == "u-1\n"


@pytest.mark.parametrize(
    "owner", [{"uid": "../../elsewhere"}, {"uid": ""}, {"kind": "CronJob"}, {"apiVersion": "batch/v1"}]
)
def test_whose_owner_is_no_volcano_job_leaves_nothing(tmp_path: Path, owner: dict[str, str]) -> None:
    end_pod(ended_pod(tmp_path, "u-0", owner=owner))
    assert [place.name for place in tmp_path.iterdir()] == ["pods"]
    assert not list((tmp_path / "pods").iterdir())


def test_of_a_long_log_the_end_is_kept_and_the_rest_told_of(tmp_path: Path) -> None:
    line = b"2030-01-01T00:00:00Z stdout F " + b"x" * 69 + b"\n"
    directory = ended_pod(tmp_path, "u-0", line * 6000)
    directory.log("main", 0).with_name("log.1").write_bytes(line * 6000)
    end_pod(directory)
    (log,) = (tmp_path / "kept").glob("job/pods/u-0/containers/main/0/log*")
    data = log.read_bytes()
    assert log.stat().st_mode & 0o777 == 0o600
    assert BYTES_KEPT - 400 < len(data) <= BYTES_KEPT
    first, _, rest = data.partition(b"\n")
    assert rest == line * (len(rest) // len(line))
    assert first.endswith(NOTE % (12000 * len(line) - len(rest)))
    # As found by a node that was killed before it had cut it.
    log.with_name("log.1").write_bytes(line * 6000)
    bound_all(tmp_path)
    assert not log.with_name("log.1").exists()


@given(st.lists(st.binary(max_size=40), max_size=40), st.integers(1, 5), st.integers(300, 900))
def test_a_tail_is_never_too_long_and_always_whole_lines_of_the_end(texts: list[bytes], files: int, limit: int) -> None:
    lines = [b"2030-01-01T00:00:00Z stdout F %b\n" % text.replace(b"\n", b"") for text in texts]
    folder = Path(tempfile.mkdtemp())
    try:
        share = -(-len(lines) // files) or 1
        parts = [lines[begin : begin + share] for begin in range(0, len(lines), share)]
        paths = [folder / str(number) for number in range(len(parts))]
        for path, part in zip(paths, parts):
            path.write_bytes(b"".join(part))
        tail = tail_of(paths[::-1], limit)
    finally:
        shutil.rmtree(folder)
    whole = b"".join(lines)
    if tail is None:
        assert len(whole) <= limit
        return
    note, _, rest = tail.partition(b"\n")
    assert len(tail) <= limit
    assert whole.endswith(rest)
    assert rest == b"".join(lines[len(lines) - rest.count(b"\n") :])
    assert note.endswith(NOTE % (len(whole) - len(rest)))
