"""What kinds are called, and what may be done with them: the same from a real kube-apiserver and from ours."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import msgspec
import pytest

from hekla.api.kinds import BUILT_IN_KINDS
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from tests.apiserver.live import LiveServer
from tests.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

FIELDS = ("singularName", "namespaced", "kind", "verbs", "shortNames", "categories")


def test_both_servers_tell_the_same_of_kubernetes_own_kinds(bare_plane: ControlPlane, tmp_path: pathlib.Path) -> None:
    async def main(server: LiveServer) -> list[str]:
        async with client_from_files([bare_plane.kubeconfig]) as real, client_from_files([server.kubeconfig]) as ours:
            expected, found = await kinds_of(real), await kinds_of(ours)
        assert len(found) > 20
        return [f"{name}: {expected[name]}, ours {entry}" for name, entry in found.items() if expected[name] != entry]

    with LiveServer(tmp_path) as server:
        differences = asyncio.run(main(server))
    assert not differences, "\n".join(differences)


async def kinds_of(client: Client) -> dict[str, dict[str, Any]]:
    found = {}
    for path in sorted({kind.path().rpartition("/")[0] for kind in BUILT_IN_KINDS}):
        for entry in msgspec.json.decode((await client.raw("GET", path)).body)["resources"]:
            if "/" not in entry["name"]:
                found[f"{path}/{entry['name']}"] = {name: entry.get(name) for name in FIELDS}
    return found
