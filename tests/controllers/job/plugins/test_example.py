"""Anyone's plugin file works like ours: the example, found through its entry point as if it had been installed."""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from hekla.api.job_plugins import registered
from hekla.api.kinds import CONFIG_MAP, EVENT, JOB, POD, SERVICE
from hekla.api.meta import name_of
from hekla.cli.manifest import read_manifest
from tests import make
from tests.controllers.bench import Bench, on_bench

EXAMPLE = Path(__file__).parents[4] / "examples" / "plugins"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip would leave behind: the module and its metadata."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copy(EXAMPLE / "rendezvous.py", tmp_path)
    register(tmp_path, project["name"], project["entry-points"]["hekla.job_plugins"])
    monkeypatch.syspath_prepend(tmp_path)


def register(folder: Path, name: str, points: dict[str, str]) -> None:
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    lines = [f"{point} = {where}" for point, where in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[hekla.job_plugins]", *lines, ""]))


@pytest.mark.usefixtures("installed")
def test_b34_a_plugin_of_ones_own_works_like_ours_the_example_shapes_pods_and_keeps_its_object() -> None:
    assert {"rendezvous", "svc"} <= set(registered())
    (document,) = read_manifest(str(EXAMPLE / "job.yaml"))

    async def script(bench: Bench) -> None:
        await bench.create({**document.obj, "metadata": {"name": "demo", "namespace": "default"}})
        for pod in await bench.until_running(2):
            env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
            assert env["RENDEZVOUS"] == "demo-member-0.demo:29500"
        kept = await bench.client.get(CONFIG_MAP, "demo-rendezvous", "default")
        assert kept["data"] == {"endpoint": "demo-member-0.demo:29500"}
        job = await bench.client.get(JOB, "demo", "default")
        assert job["status"]["controlledResources"]["plugin-rendezvous"] == "rendezvous"
        await bench.end("demo-member-0")
        await bench.end("demo-member-1")
        await bench.until_phase("Completed")
        await bench.settle()
        assert await bench.client.find(CONFIG_MAP, "demo-rendezvous", "default") is None

    on_bench(script)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("end", ["Completed", "Terminated"])
def test_b34_a_job_whose_plugin_was_uninstalled_meanwhile_ends_and_leaves_nothing(tmp_path: Path, end: str) -> None:
    (document,) = read_manifest(str(EXAMPLE / "job.yaml"))

    async def script(bench: Bench) -> None:
        job = await bench.create({**document.obj, "metadata": {"name": "demo", "namespace": "default"}})
        await bench.until_running(2)
        await bench.stop_controllers()
        shutil.rmtree(next(tmp_path.glob("*.dist-info")))
        bench.start_controllers()
        if end == "Completed":
            await bench.end("demo-member-0")
            await bench.end("demo-member-1")
        else:
            await bench.command("TerminateJob", job)
        await bench.until_phase(end)
        await bench.settle()
        assert "controlledResources" not in bench.job("demo")["status"]
        # Those that are at hand have cleared what is theirs.
        assert await bench.client.find(SERVICE, "demo", "default") is None
        words = "failed to get plugin rendezvous: what it made for this job stays until the job is deleted"
        told = [event for event in await bench.client.find_all(EVENT, "default") if event["message"] == words]
        assert [(event["type"], event["reason"], event["count"]) for event in told] == [("Warning", "PluginError", 1)]
        await bench.client.delete(JOB, "demo", "default")
        await bench.settle()
        assert await bench.client.find(CONFIG_MAP, "demo-rendezvous", "default") is None

    on_bench(script)


@pytest.mark.usefixtures("installed")
def test_b34_pods_are_not_made_without_a_plugin_that_was_uninstalled(tmp_path: Path) -> None:
    (document,) = read_manifest(str(EXAMPLE / "job.yaml"))

    async def script(bench: Bench) -> None:
        await bench.create({**document.obj, "metadata": {"name": "demo", "namespace": "default"}})
        await bench.until_running(2)
        await bench.stop_controllers()
        shutil.rmtree(next(tmp_path.glob("*.dist-info")))
        bench.start_controllers()
        await bench.client.delete(POD, "demo-member-0", "default")
        await bench.settle()
        assert [name_of(pod) for pod in bench.pods()] == ["demo-member-1"]
        assert len(await _told(bench, NOT_INSTALLED)) == 1
        # Events expire. Whoever asks later why the pod is missing must still find the reason.
        for event in await bench.client.find_all(EVENT, "default"):
            await bench.client.delete(EVENT, name_of(event), "default")
        await bench.client.patch(JOB, "demo", {"metadata": {"annotations": {"look": "again"}}}, "default")
        await bench.settle()
        assert len(await _told(bench, NOT_INSTALLED)) == 1

    on_bench(script)


@pytest.mark.usefixtures("installed")
def test_b34_a_plugin_that_was_uninstalled_is_told_of_once_and_not_at_every_look(tmp_path: Path) -> None:
    (document,) = read_manifest(str(EXAMPLE / "job.yaml"))

    async def script(bench: Bench) -> None:
        await bench.create({**document.obj, "metadata": {"name": "demo", "namespace": "default"}})
        await bench.until_running(2)
        await bench.stop_controllers()
        shutil.rmtree(next(tmp_path.glob("*.dist-info")))
        bench.start_controllers()
        for number in range(3):
            note = {"metadata": {"annotations": {"look": str(number)}}}
            await bench.client.patch(JOB, "demo", note, "default")
            await bench.settle()
        assert await _told(bench, NOT_INSTALLED) == [1]

    on_bench(script)


NOT_INSTALLED = "Execute plugin when job add failed, err: failed to get plugin rendezvous"


async def _told(bench: Bench, message: str) -> list[int]:
    """The counts of the Events that say this."""
    return [event["count"] for event in await bench.client.find_all(EVENT, "default") if event["message"] == message]


BROKEN = """
class Broken:
    flags = None

    def __init__(self, arguments):
        pass

    def shape_pod(self, pod, job):
        {shape_pod}

    def objects(self, job):
        {objects}
"""


@pytest.mark.parametrize(
    ("shape_pod", "objects", "words"),
    [
        ("pod['missing']", "return []", "plugin broken broke: KeyError: 'missing'"),
        ("pass", "1 / 0", "Execute plugin when job add failed, err: plugin broken broke: ZeroDivisionError: "),
    ],
)
def test_b34_a_job_hears_that_a_plugin_broke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape_pod: str, objects: str, words: str
) -> None:
    (tmp_path / "broken_plugin.py").write_text(BROKEN.format(shape_pod=shape_pod, objects=objects))
    register(tmp_path, "broken", {"broken": "broken_plugin:Broken"})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_plugin", raising=False)

    async def script(bench: Bench) -> None:
        await bench.create(make.new_job("demo", plugins={"broken": []}))
        await bench.settle()
        events = await bench.client.find_all(EVENT, "default")
        assert any(event["reason"] == "PluginError" and event["message"].startswith(words) for event in events)
        assert bench.job("demo")["status"]["state"]["phase"] == "Pending"

    on_bench(script)
