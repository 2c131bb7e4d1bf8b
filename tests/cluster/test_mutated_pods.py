"""Pods with one thing wrong: a real kube-apiserver and ours take and refuse the same, in the same words."""

from __future__ import annotations

import asyncio
import pathlib

import pytest
import yaml

from tests.apiserver.live import LiveServer
from tests.cluster.control_plane import ControlPlane
from tests.cluster.mutations import differences

pytestmark = pytest.mark.cluster

PODS = "/api/v1/namespaces/default/pods"
RICH = yaml.safe_load((pathlib.Path(__file__).parent / "rich-pod.yaml").read_text())


def test_both_servers_say_the_same_of_a_pod_with_one_thing_wrong(
    bare_plane: ControlPlane, tmp_path: pathlib.Path
) -> None:
    with LiveServer(tmp_path) as server:
        found = asyncio.run(differences(bare_plane.kubeconfig, server.kubeconfig, PODS, RICH, explained))
    assert not found, "\n".join(found)


def explained(message: str) -> bool:
    # The claim of an ephemeral volume has the pod's name before its own: it is refused when it is made.
    return 'PVC name "' in message
