"""A container's output on its way into the log."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from pathlib import Path

import pytest

from hekla.node.directory import PodDirectory
from hekla.node.shim_streams import STDERR, STDOUT, ContainerStreams
from tests.eventually import eventually
from tests.node.rig import ACCOUNTS, rig

_BAR = "echo begun >&2; while [ -e $0 ]; do printf '10%%\\r' >&2; sleep 0.02; done; echo done >&2"


def test_an_unfinished_line_is_told_though_more_of_it_keeps_coming(tmp_path: Path) -> None:
    goes_on = tmp_path / "goes-on"
    goes_on.touch()
    outputs = {STDOUT: os.pipe(), STDERR: os.pipe()}
    program = subprocess.Popen(["sh", "-c", _BAR, goes_on], stdout=outputs[STDOUT][1], stderr=outputs[STDERR][1])
    sources = {stream: reading for stream, (reading, _) in outputs.items()}
    streams = ContainerStreams(str(tmp_path), sources, None, once=False, tty=False)
    for _, writing in outputs.values():
        os.close(writing)
    pumping = threading.Thread(target=streams.pump, args=[program.pid])
    pumping.start()
    try:
        eventually(lambda: len(_texts(tmp_path, "P")) > 1)
        assert _texts(tmp_path, "F") == ["begun"]
    finally:
        goes_on.unlink()
        pumping.join()
        program.wait()
        for reading in sources.values():
            os.close(reading)
    bar = "".join(_texts(tmp_path, "P")) + _texts(tmp_path, "F")[-1]
    assert bar == "10%\r" * bar.count("\r") + "done"


def _texts(folder: Path, tag: str) -> list[str]:
    records = (folder / "log").read_bytes().decode().removesuffix("\n").split("\n")
    return [record.split(" ", 3)[3] for record in records if record and record.split(" ", 3)[2] == tag]


@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_question_is_kept_before_its_answer_comes_and_goes_on_under_the_next_agent(account: str) -> None:
    async def main() -> None:
        async with rig(account) as here:
            await here.start_agent()
            await here.create_pod("asks", "printf 'name? '; sleep 2; printf me; sleep 2; echo; printf end")
            await here.running("asks")
            await here.kill_agent()
            await here.start_agent()
            pod = await here.finished("asks")
            folder = PodDirectory(here.data_dir, pod["metadata"]["uid"]).attempt("main", 0)
            assert _texts(folder, "P") == ["name? ", "me", "end"]
            assert _texts(folder, "F") == [""]

    asyncio.run(main())
