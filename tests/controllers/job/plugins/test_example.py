"""Anyone's plugin file works like ours: the example, found through its entry point as if it had been installed."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from hekla.api.job_plugins import registered
from hekla.api.kinds import CONFIG_MAP, JOB
from hekla.cli.manifest import read_manifest
from tests.controllers.bench import Bench, on_bench

EXAMPLE = Path(__file__).parents[4] / "examples" / "plugins"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip would leave behind: the module and its metadata."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copy(EXAMPLE / "rendezvous.py", tmp_path)
    metadata = tmp_path / "hekla_rendezvous-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["hekla.job_plugins"]
    lines = [f"{name} = {where}" for name, where in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[hekla.job_plugins]", *lines, ""]))
    monkeypatch.syspath_prepend(tmp_path)


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
