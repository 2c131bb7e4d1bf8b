"""Objects of Kubernetes' own kinds with one thing wrong: a real kube-apiserver and ours say the same of them."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from hekla.api.kinds import kind_of
from hekla.client.kubeconfig import client_from_files
from tests.apiserver.live import LiveServer
from tests.cluster.control_plane import ControlPlane
from tests.cluster.mutations import answer, differences

pytestmark = pytest.mark.cluster

HERE = pathlib.Path(__file__).parent
RICH = list(yaml.safe_load_all((HERE.parent / "apiserver" / "rich-objects.yaml").read_text()))
WRONG = yaml.safe_load((HERE.parent / "apiserver" / "wrong-objects.yaml").read_text())


@pytest.mark.parametrize("right", RICH, ids=lambda right: f"{right['kind']}-{right['metadata']['name']}")
def test_both_servers_say_the_same_of_an_object_with_one_thing_wrong(
    right: dict[str, Any], bare_plane: ControlPlane, server: LiveServer
) -> None:
    found = asyncio.run(differences(bare_plane.kubeconfig, server.kubeconfig, place(right), right, explained))
    assert not found, "\n".join(found)


def test_both_servers_say_the_same_of_objects_at_the_edge_of_what_is_right(
    bare_plane: ControlPlane, server: LiveServer
) -> None:
    async def main() -> list[str]:
        async with client_from_files([bare_plane.kubeconfig]) as real, client_from_files([server.kubeconfig]) as ours:
            found = []
            for obj, recorded in ((each["object"], each["said"]) for each in WRONG):
                expected, said = [await answer(each, place(obj), obj, explained) for each in (real, ours)]
                if not recorded == expected == said:
                    found.append(f"{obj}: {expected}, recorded {recorded}, ours {said}")
            return found

    found = asyncio.run(main())
    assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("server")) as running:
        yield running


def explained(message: str) -> bool:
    # Which node ports there are is not looked at by the real server as long as nothing is made.
    return "The range of valid ports is" in message


def place(obj: dict[str, Any]) -> str:
    """The list that it is added to."""
    kind = kind_of(obj)
    assert kind is not None
    return kind.path("default")
