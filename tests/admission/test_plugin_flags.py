"""Admission asks plugins for their flags, and none of them can hold it up or bring it down."""

from __future__ import annotations

import asyncio
import fcntl
import random
from functools import partial
from pathlib import Path

import pytest

from hekla.admission.plugin_flags import PluginFlags
from hekla.admission.review import VolcanoAdmission
from hekla.api.job_plugins import Flag, UnloadablePlugin, registered
from hekla.api.kinds import JOB
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.local.bootstrap import install_crds
from hekla.local.offline import open_queue
from tests import make
from tests.controllers.job.plugins.test_example import register
from tests.eventually import soon

FLAGS = """
from hekla.api.job_plugins import Flag

class Odd:
    flags = (Flag("port", 7, "where"), Flag("loud", False), Flag("word", "x"))
"""


def install(folder: Path, patch: pytest.MonkeyPatch, source: str) -> None:
    (folder / "odd_plugin.py").write_text(source)
    register(folder, "odd", {"odd": "odd_plugin:Odd"})
    patch.syspath_prepend(folder)


async def flags_now(flags: PluginFlags) -> tuple[Flag, ...] | None:
    return (await flags.of(make.job(plugins={"odd": []})))["odd"]()


def test_flags_are_read_as_they_are_declared_whatever_is_printed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, f"import os\nprint('hello')\nos.system('echo hello')\n{FLAGS}")
    wanted = (Flag("port", 7, "where"), Flag("loud", False), Flag("word", "x"))
    assert asyncio.run(flags_now(PluginFlags(registered()))) == wanted


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import os\nos._exit(3)", "it ended the process that loaded it, with exit code 3"),
        ("import sys\nsys.exit('not here')", "SystemExit: not here"),
        ("class Other: pass", "AttributeError: module 'odd_plugin' has no attribute 'Odd'"),
        ("class Odd: flags = ['port']", "its flags are not of type Flag: 'port'"),
    ],
)
def test_what_cannot_be_loaded_says_why_and_may_be_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    install(tmp_path, monkeypatch, source)
    flags = PluginFlags(registered())
    with pytest.raises(UnloadablePlugin) as refusal:
        asyncio.run(flags_now(flags))
    assert str(refusal.value) == words
    (tmp_path / "odd_plugin.py").write_text("class Odd:\n    flags = None\n")
    assert asyncio.run(flags_now(flags)) is None


def test_one_that_hangs_is_ended_left_alone_for_a_while_and_said_to_be_unchecked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.touch()
    install(
        tmp_path,
        monkeypatch,
        f"import time\nwith open({str(log)!r}, 'a') as log:\n    log.write('x')\ntime.sleep(3600)",
    )
    flags, job = PluginFlags(registered(), seconds=1), make.job(plugins={"odd": [], "svc": []})

    async def story() -> None:
        for _ in range(3):
            assert await flags_now(flags) is None
        assert log.read_text() in ("x", "")  # a busy machine may not have come that far
        (doubt,) = flags.doubts_about(job)
        assert doubt.startswith("spec.plugins[odd]: took longer than 1 s to load: ")

    assert flags.doubts_about(job) == []
    asyncio.run(story())


@pytest.mark.parametrize(
    ("start", "then", "answered"),
    [
        ("subprocess.Popen(['sleep', '3600'], pass_fds=[held.fileno()])", "", True),
        ("if not os.fork(): signal.pause()", "", True),
        ("if not os.fork(): signal.pause()", "signal.pause()", False),
    ],
)
def test_what_a_plugin_starts_is_not_waited_for_and_ends_with_it(
    start: str, then: str, answered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lock := tmp_path / "lock").touch()
    hold = f"held = open({str(lock)!r}, 'w')\nfcntl.flock(held, fcntl.LOCK_EX)"
    source = f"import fcntl, os, signal, subprocess\n{hold}\n{start}\n{then}\n{FLAGS}"
    install(tmp_path, monkeypatch, source)

    async def story() -> None:
        flags = PluginFlags(registered(), seconds=60 if answered else 1)
        assert (await flags_now(flags) is not None) == answered
        await soon(partial(is_free, lock), what="nobody is left who holds it")

    asyncio.run(story())


def is_free(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_while_a_plugin_is_imported_the_server_takes_the_jobs_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go = tmp_path / "began", tmp_path / "go"
    hang = f"""
import pathlib, time
pathlib.Path({str(began)!r}).touch()
for _ in range(300):
    if pathlib.Path({str(go)!r}).exists():
        break
    time.sleep(0.01)
"""
    install(tmp_path, monkeypatch, hang + FLAGS)

    async def story() -> None:
        clock = SystemClock()
        app = build_app(MemoryStore(clock), clock=clock, rng=random.Random(1), admission=VolcanoAdmission)
        await app.start()
        async with Client(InProcessTransport(app)) as client, asyncio.TaskGroup() as tasks:
            await install_crds(client)
            await open_queue(client, "default")
            # Both ask at once, and it is loaded once.
            theirs = [
                tasks.create_task(client.create(JOB, make.new_job(name, plugins={"odd": ["--loud"]})))
                for name in ("a", "b")
            ]
            await soon(began.exists, what="it is being imported")
            await client.create(JOB, make.new_job("other", plugins={"svc": []}))
            assert not any(each.done() for each in theirs)
            go.touch()
            await asyncio.gather(*theirs)

    asyncio.run(story())


def test_those_who_ask_at_the_same_time_are_refused_after_one_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    install(tmp_path, monkeypatch, f"with open({str(log)!r}, 'a') as log:\n    log.write('x')\nraise OSError('no')")

    async def story() -> None:
        flags = PluginFlags(registered())
        job = make.job(plugins={"odd": []})
        for attempts in (1, 2):
            await asyncio.gather(*[flags.of(job) for _ in range(10)])
            assert log.read_text() == "x" * attempts

    asyncio.run(story())


def test_of_two_under_one_name_none_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, f"import pathlib\npathlib.Path({str(tmp_path / 'began')!r}).touch()")
    register(tmp_path, "mine", {"odd": "mine:Odd"})
    with pytest.raises(UnloadablePlugin, match="several are installed under this name"):
        asyncio.run(flags_now(PluginFlags(registered())))
    assert not (tmp_path / "began").exists()


def test_plugins_of_no_shape_are_told_as_other_fields_of_none_are() -> None:
    with pytest.raises(TypeError):
        asyncio.run(PluginFlags(registered()).of(make.job(plugins=3)))
