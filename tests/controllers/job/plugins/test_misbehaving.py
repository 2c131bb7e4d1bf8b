"""Anybody's plugin may break in any way: its Job says how, the others go on, and nothing is left of it."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from hekla.api.job_plugins import UnloadablePlugin, load_flags, registered
from hekla.api.kinds import CONFIG_MAP, EVENT, JOB
from hekla.api.meta import name_of
from tests import make
from tests.controllers.bench import Bench, on_bench
from tests.controllers.job.plugins.test_example import register

SOURCE = """
import asyncio
import sys
import time

from hekla.api.kinds import CONFIG_MAP
from hekla.controllers.job.plugin import Wanted, owned
from hekla.errors import Conflict


class Odd:
    flags = None

    def __init__(self, arguments):
        {init}

    def shape_pod(self, pod, job):
        {shape_pod}

    def objects(self, job):
        {objects}


def stray(job, **content):
    return Wanted(CONFIG_MAP, {{**owned(job, CONFIG_MAP, "odd", **content)}})


def breaking():
    raise ValueError("no key today")


def some_and_no_more(job):
    yield stray(job)
    raise ValueError("no more")
"""

ADDED = "Execute plugin when job add failed, err: "
NOT_ITS_OWN = ADDED + "plugin odd: ConfigMap odd is not the job's own"


def install(folder: Path, patch: pytest.MonkeyPatch, **hooks: str) -> None:
    given = {"init": "pass", "shape_pod": "pass", "objects": "return []", **hooks}
    (folder / "odd_plugin.py").write_text(SOURCE.format(**given))
    register(folder, "odd", {"odd": "odd_plugin:Odd"})
    patch.syspath_prepend(folder)
    patch.delitem(sys.modules, "odd_plugin", raising=False)


@pytest.mark.parametrize(
    ("hook", "source", "words"),
    [
        ("init", "sys.exit(3)", ADDED + "plugin odd broke: SystemExit: 3"),
        ("init", "raise Conflict('who?')", ADDED + "plugin odd broke: Conflict: who?"),
        ("objects", "sys.exit(3)", ADDED + "plugin odd broke: SystemExit: 3"),
        ("objects", "raise asyncio.CancelledError", ADDED + "plugin odd broke: CancelledError"),
        ("objects", "raise Conflict('who?')", ADDED + "plugin odd broke: Conflict: who?"),
        ("objects", "return None", ADDED + "plugin odd broke: TypeError: 'NoneType' object is not iterable"),
        ("objects", "return some_and_no_more(job)", ADDED + "plugin odd broke: ValueError: no more"),
        ("objects", "return [{'kind': 'ConfigMap'}]", ADDED + "plugin odd: objects() gives dict, not Wanted"),
        ("objects", "return [Wanted(CONFIG_MAP, {'metadata': {'name': 'odd'}})]", NOT_ITS_OWN),
        ("objects", "w = stray(job); w.obj['metadata']['namespace'] = 'kube-system'; return [w]", NOT_ITS_OWN),
        ("objects", "w = stray(job); w.obj['metadata']['ownerReferences'] = []; return [w]", NOT_ITS_OWN),
        ("objects", "w = stray(job); del w.obj['metadata']['name']; return [w]", ADDED + "plugin odd broke: KeyError"),
        ("objects", "return [stray(job, data=object())]", ADDED + "plugin odd broke: TypeError: "),
        (
            "objects",
            "return [Wanted(CONFIG_MAP, stray(job).obj, ('data',))]",
            ADDED + "plugin odd: ConfigMap odd has no data to follow",
        ),
        (
            "objects",
            "return [Wanted(CONFIG_MAP, stray(job).obj, once=breaking)]",
            ADDED + "configmap \"odd\" could not be made: ValueError: no key today",
        ),
        (
            "objects",
            "return [Wanted(CONFIG_MAP, stray(job).obj, once=list)]",
            ADDED + "configmap \"odd\" could not be made: AttributeError: ",
        ),
        ("shape_pod", "sys.exit(3)", "plugin odd broke: SystemExit: 3"),
        ("shape_pod", "raise asyncio.CancelledError", "plugin odd broke: CancelledError"),
        ("shape_pod", "raise Conflict('who?')", "plugin odd broke: Conflict: who?"),
        ("shape_pod", "pod.clear()", "plugin odd broke: KeyError: 'metadata'"),
        ("shape_pod", "pod['spec']['containers'][0]['env'] = object()", "plugin odd broke: TypeError: "),
        *[
            ("shape_pod", f"pod['metadata'].update({field}={value})", f"plugin odd: the {field} of pod demo-worker-0 ")
            for field, value in [
                ("name", "'another'"),
                ("namespace", "'kube-system'"),
                ("labels", "{}"),
                ("annotations", "{'volcano.sh/job-name': 'demo'}"),
                ("ownerReferences", "[]"),
            ]
        ],
    ],
)  # fmt: skip
def test_b34_a_job_says_how_its_plugin_misbehaves_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str, source: str, words: str
) -> None:
    install(tmp_path, monkeypatch, **{hook: source})

    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", plugins={"odd": []}))
        await bench.settle()
        told = [event["message"] for event in await bench.client.find_all(EVENT, "default")]
        assert any(message.startswith(words) for message in told), told
        assert bench.job("demo")["status"]["state"]["phase"] == "Pending"
        assert "odd" not in [name_of(each) for each in await bench.client.find_all(CONFIG_MAP)], "in any namespace"
        await bench.create(make.new_job("other"))
        await bench.settle()
        assert bench.job("other")["status"]["state"]["phase"] == "Running"
        assert [name_of(pod) for pod in bench.pods()] == ["other-worker-0"]

    on_bench(script)


@pytest.mark.parametrize("hook", ["init", "shape_pod", "objects"])
def test_b34_a_job_that_a_plugin_cannot_bear_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str
) -> None:
    install(tmp_path, monkeypatch, **{hook: "sys.exit(3)"})

    async def script(bench: Bench) -> None:
        job = await bench.create(make.new_job("demo", plugins={"odd": [], "svc": []}))
        await bench.settle()
        await bench.command("TerminateJob", job)
        await bench.until_phase("Terminated")
        await bench.settle()
        assert await bench.client.find(CONFIG_MAP, "demo-svc", "default") is None

    on_bench(script)


@pytest.mark.parametrize("hook", ["init", "shape_pod", "objects"])
def test_b34_a_plugin_that_hangs_holds_up_nobody_but_its_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str
) -> None:
    install(tmp_path, monkeypatch, **{hook: "time.sleep(3600)"})

    async def script(bench: Bench) -> None:
        for name in ("demo", "second", "third"):
            await bench.create(make.new_job(name, plugins={"odd": []}))
        await bench.create(make.new_job("other"))
        await asyncio.sleep(20)
        words = "plugin odd took longer than 2 s and is left alone for 60 s"
        events = await bench.client.find_all(EVENT, "default")
        told = {event["involvedObject"]["name"] for event in events if event["message"].endswith(words)}
        assert told == {"demo", "second", "third"}
        assert [name_of(pod) for pod in bench.pods()] == ["other-worker-0"]

    before = time.monotonic()
    on_bench(script)
    assert time.monotonic() - before < 5


def test_b34_what_a_plugin_changes_in_the_job_it_is_shown_changes_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = "job.obj['spec']['tasks'][0]['template']['spec']['containers'].clear(); job.obj['spec']['queue'] = 'none'"
    install(tmp_path, monkeypatch, shape_pod=change, objects=f"{change}; return []")

    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", plugins={"odd": []}))
        (pod,) = await bench.until_running(1)
        assert pod["spec"]["containers"]
        assert pod["metadata"]["labels"]["volcano.sh/queue-name"] == "default"
        assert (await bench.client.get(JOB, "demo", "default"))["spec"]["queue"] == "default"

    on_bench(script)


def test_b34_of_two_plugins_of_one_name_neither_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    (tmp_path / "mine.py").write_text("class Odd:\n    pass\n")
    register(tmp_path, "mine", {"odd": "mine:Odd", "env": "hekla.controllers.job.plugins.env:Env"})
    with pytest.raises(UnloadablePlugin) as refusal:
        load_flags(registered()["odd"])
    packages = "mine:Odd by package mine 1.0 and odd_plugin:Odd by package odd 1.0"
    assert str(refusal.value) == f"several are installed under this name, {packages}: uninstall all but one"
    # The same thing under the same name is one plugin.
    assert load_flags(registered()["env"]) is None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import sys; sys.exit('not here')", "SystemExit: not here"),
        ("class Odd:\n    flags = ['port']", "its flags are not of type Flag: 'port'"),
        ("class Odd:\n    flags = 7", "TypeError: 'int' object is not iterable"),
    ],
)
def test_b34_what_is_no_plugin_is_said_to_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    install(tmp_path, monkeypatch)
    (tmp_path / "odd_plugin.py").write_text(source + "\n")
    with pytest.raises(UnloadablePlugin) as refusal:
        load_flags(registered()["odd"])
    assert str(refusal.value) == words
