"""Templates of a Job in which one thing is empty: their pods are stored alike by a real kube-apiserver and by ours.

The real one is given the pod as the template has it, and reads it into Go's types; ours is given what the Job
controller makes of it.
"""

from __future__ import annotations

import asyncio
import pathlib
import random
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml

from hekla.api.kinds import Obj
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.client.transport import Request
from hekla.controllers.job.model import read_job
from hekla.controllers.job.pods import build_pod
from tests import make
from tests.apiserver.live import LiveServer
from tests.cluster.control_plane import ControlPlane
from tests.cluster.mutations import mutated, parts
from tests.parity.compare import differences

pytestmark = pytest.mark.cluster

PODS = "/api/v1/namespaces/default/pods?dryRun=All"
HEADERS = {"Accept": "application/json", "Content-Type": "application/json"}
RICH: Obj = yaml.safe_load((pathlib.Path(__file__).parent / "rich-pod.yaml").read_text())["spec"]
# Where the two differ without anybody noticing.
ACCEPTED = (
    r"serviceAccount(Name)?",  # nobody fills it in on a server without service accounts
    r"volumes/name=.*/ephemeral/volumeClaimTemplate/(metadata|spec/volumeMode)",
    r"volumes/name=.*/projected/sources",  # null for none
    r"imagePullSecrets/0/name|.*/ports/(name=|containerPort=80)",  # no name or an empty one
    r".*/sleep/seconds|.*/preference",  # zero or nothing
)


def test_both_servers_store_the_same_of_a_template_in_which_one_thing_is_empty(
    bare_plane: ControlPlane, tmp_path: pathlib.Path
) -> None:
    with LiveServer(tmp_path) as server:
        found = asyncio.run(compared(bare_plane.kubeconfig, server.kubeconfig))
    assert not found, "\n".join(found)


async def compared(real: pathlib.Path, ours: pathlib.Path) -> list[str]:
    found = []
    async with client_from_files([real]) as one, client_from_files([ours]) as other:
        for what, spec in emptied(RICH):
            pod = made_of(spec)
            recorded, stored = (
                await answer(one, {**pod, "spec": {**spec, "schedulerName": "volcano"}}),
                await answer(other, pod),
            )
            for each in differences(recorded, stored):
                if not any(re.fullmatch(pattern, each.path) for pattern in ACCEPTED):
                    found.append(f"{what}: {each}")
    return found


def emptied(spec: Obj) -> Iterator[tuple[str, Obj]]:
    """What is empty in it, and the spec."""
    for path, value in parts(spec):
        if path[-1] != "restartPolicy" or len(path) == 1:
            # Of a container it is told apart from nothing, of a pod it is not.
            yield f"{path} = {type(value)()!r}", mutated(spec, path, type(value)())


def made_of(spec: Obj) -> Obj:
    job = read_job(make.job("demo", {**make.task("a"), "template": {"spec": spec}}))
    return build_pod(job, job.tasks[0], 0, claims={}, rng=random.Random(0))


async def answer(client: Client, pod: Obj) -> Any:
    """What is stored of a new pod's spec, nothing being made; of a refusal only that it is one."""
    sent = await client.transport.send(Request("POST", PODS, msgspec.json.encode(pod), HEADERS))
    return msgspec.json.decode(sent.body)["spec"] if sent.status < 300 else {"refused": True}
