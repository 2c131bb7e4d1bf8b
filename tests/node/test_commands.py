"""One more command in a container that is there: as root and as an ordinary user."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

import pytest

from tests.node.rig import ACCOUNTS, Rig, as_account, environment, rig

_RUN = """
import asyncio, json, sys
from pathlib import Path
from hekla.node.commands import CommandError, run_command
from hekla.node.directory import PodDirectory
from hekla.node.spawner import Spawner

data_dir, uid, seconds, *argv = sys.argv[1:]
try:
    directory, spawner = PodDirectory(Path(data_dir), uid), Spawner(Path(data_dir))
    print(json.dumps(asyncio.run(run_command(spawner, directory, "main", argv, float(seconds)))))
except (CommandError, TimeoutError) as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


_UNTIL_MADE = "until [ -s /tmp/own ]; do :; done"
_UNTIL_ONE_SLEEPS = 'until [ "$(pgrep -c -x sleep)" = 1 ]; do :; done'


def run(node: Rig, pod: dict[str, Any], *argv: str, seconds: float = 60) -> list[Any]:
    """As the agent would: with its account's rights, from outside."""
    command = [*as_account(node.account), "-c", _RUN, str(node.data_dir), pod["metadata"]["uid"], str(seconds), *argv]
    done = subprocess.run(command, env=environment(node.home), check=True, capture_output=True, cwd="/", text=True)
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_command_is_in_the_container_with_its_identity_and_nothing_more(account: str) -> None:
    async def main() -> None:
        async with rig(account) as node:
            await node.start_agent()
            await node.create_pod("plain", "echo mine > /tmp/own; sleep 600")
            who = {"runAsUser": 1234, "runAsGroup": 1234}
            await node.create_pod("other", "sleep 600", container={"securityContext": who})
            plain, other = await node.running("plain"), await node.running("other")
            assert run(node, plain, "sh", "-c", f"{_UNTIL_MADE}; cat /tmp/own; hostname") == [0, "mine\nplain\n"]
            assert run(node, other, "id", "-u") == [0, "1234\n"]
            code, text = run(node, plain, "grep", "-E", "CapEff|NoNewPrivs", "/proc/self/status")
            assert code == 0
            assert "NoNewPrivs:\t1" in text
            assert "000001ffffffffff" not in text
            assert run(node, plain, "sh", "-c", "env | grep HEKLA_CANARY") == [1, ""]
            assert run(node, plain, "false") == [1, ""]
            assert run(node, plain, "sh", "-c", "kill -9 $$") == [137, ""]
            assert run(node, plain, "nonsense")[0] == "CommandError"
            assert run(node, plain, "sleep", "60", seconds=1)[0] == "TimeoutError"
            # Nothing of a command that took too long is left, once it has been ended.
            assert run(node, plain, "sh", "-c", _UNTIL_ONE_SLEEPS) == [0, ""]

    asyncio.run(main())


def test_what_runs_a_command_cannot_be_looked_into_from_the_container() -> None:
    """/proc/<pid>/exe of a program that enters would be a way to the host's own files."""
    look = "for each in /proc/[0-9]*/exe; do readlink $each; done"
    spy = f"while :; do {look}; done 2>/dev/null | grep --line-buffered -E 'python|memfd'"

    async def main() -> None:
        async with rig(ACCOUNTS[0]) as node:
            await node.start_agent()
            await node.create_pod("spy", spy)
            pod = await node.running("spy")
            for _ in range(10):
                assert run(node, pod, "true") == [0, ""]
            assert node.log(pod) == ""

    asyncio.run(main())


def test_a_container_that_has_ended_runs_nothing_more() -> None:
    async def main() -> None:
        async with rig(ACCOUNTS[0]) as node:
            await node.start_agent()
            await node.create_pod("short", "true")
            pod = await node.finished("short")
            assert run(node, pod, "true") == ["CommandError", "container main is not running"]

    asyncio.run(main())
