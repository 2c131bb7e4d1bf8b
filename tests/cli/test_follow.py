"""Following a job on an API server in this process."""

from __future__ import annotations

import random

from hekla.api.batch import JOB_NAME
from hekla.api.crds import load_crds
from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, JOB, NODE, POD, Kind, Obj
from hekla.api.meta import owner_reference
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.cli.follow import Follower, LogWish
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.clock import LoopClock
from tests import make
from tests.integration.virtual_loop import run_virtually


class Heard:
    """Keeps what was said about the following itself."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def changed(self, job: Obj, group: Obj | None, pods: list[Obj]) -> None: ...

    def log_line(self, pod: str, line: str) -> None: ...

    draws_drafts = False

    def log_draft(self, pod: str, draft: str) -> None: ...

    def warned(self, reason: str, message: str) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)


async def _put(client: Client, kind: Kind, obj: Obj) -> Obj:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ("resourceVersion", "uid")}
    made = await client.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **obj, "metadata": metadata})
    return await client.update_status(kind, {**made, "status": obj["status"]})


def test_logs_that_cannot_be_read_are_told_with_the_servers_words() -> None:
    heard = Heard()

    async def main() -> None:
        clock = LoopClock()
        app = build_app(MemoryStore(clock), clock=clock, rng=random.Random(0))
        await app.start()
        client = Client(InProcessTransport(app))
        for definition in load_crds():
            await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        await _put(client, NODE, make.node("n1"))
        job = make.job("done", make.task("main"))
        job = await _put(client, JOB, {**job, "status": {"state": {"phase": "Completed"}}})
        pod = make.job_pod(job, "main", 0, "Succeeded")
        pod["spec"]["nodeName"] = "n1"
        pod["metadata"]["labels"][JOB_NAME] = "done"
        pod["metadata"]["ownerReferences"] = [owner_reference(job, JOB)]
        await _put(client, POD, pod)
        await Follower(client, job, heard, logs=LogWish()).run()

    run_virtually(main())
    assert heard.said == ["logs of 1 container could not be read: this server has no connection to nodes"]
