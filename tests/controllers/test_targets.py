from __future__ import annotations

import pytest

from hekla.api.kinds import COMMAND, JOB, QUEUE, Kind
from tests import make
from tests.controllers.bench import Bench, on_bench


@pytest.mark.parametrize("uid", ["of-one-that-was-there", ""])
@pytest.mark.parametrize("kind", [JOB, QUEUE])
def test_a_command_for_what_is_not_there_goes(kind: Kind, uid: str) -> None:
    async def script(bench: Bench) -> None:
        command = make.command("AbortJob", make.job("nobody"))
        command["metadata"] = {"name": "stop", "namespace": "default"}
        command["target"] = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "nobody", "uid": uid}
        await bench.client.create(COMMAND, command)
        await bench.settle()
        assert bench.store.objects(COMMAND) == []

    on_bench(script)
