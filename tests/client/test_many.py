"""Many writes at once mean the same whether the server takes batches or one request each."""

from __future__ import annotations

import asyncio

import pytest

from hekla.api.batches import BATCH_PATH, Binding
from hekla.api.kinds import CONFIG_MAP, NODE, POD
from hekla.client.many import in_turns, portions
from hekla.client.rest import Client
from hekla.errors import AlreadyExists, Conflict, Disconnected
from tests.apiserver.rig import Rig, config_map, pod, with_server
from tests.integration.virtual_loop import run_virtually
from tests.transports import Counting


@pytest.mark.parametrize("batches", [True, False])
def test_creating_many_gives_the_same_results_from_every_server(batches: bool) -> None:
    async def script(rig: Rig) -> int:
        transport = Counting(rig.transport, batches=batches)
        client = Client(transport)
        await client.create(CONFIG_MAP, config_map("c7"))
        results = await client.create_many(CONFIG_MAP, [config_map(f"c{n}") for n in range(100)])
        assert [n for n, each in enumerate(results) if isinstance(each, AlreadyExists)] == [7]
        assert [each["metadata"]["name"] for each in results[:3] if isinstance(each, dict)] == ["c0", "c1", "c2"]
        assert transport.most_in_flight <= 64
        await client.create_many(CONFIG_MAP, [config_map(f"d{n}") for n in range(2)])
        assert transport.sent.count(f"GET {BATCH_PATH}") == 1, "asked once"
        return len(transport.sent)

    assert with_server(script) == (4 if batches else 104)


def test_one_of_many_gives_the_same_results_as_several_and_none_asks_for_nothing() -> None:
    async def script(rig: Rig) -> list[str]:
        transport = Counting(rig.transport)
        client = Client(transport)
        assert await client.create_many(CONFIG_MAP, []) == []
        (made,) = await client.create_many(CONFIG_MAP, [config_map("c")])
        assert isinstance(made, dict)
        assert made["metadata"]["name"] == "c"
        (refused,) = await client.create_many(CONFIG_MAP, [config_map("c")])
        assert isinstance(refused, AlreadyExists)
        return transport.sent

    assert with_server(script) == ["POST /api/v1/namespaces/default/configmaps"] * 2


@pytest.mark.parametrize("batches", [True, False])
def test_binding_many_gives_the_same_results_from_every_server(batches: bool) -> None:
    async def script(rig: Rig) -> None:
        client = Client(Counting(rig.transport, batches=batches))
        allocatable = {"cpu": "4", "memory": "1Gi", "pods": "10"}
        await client.create(NODE, {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}})
        made = [each for each in await client.create_many(POD, [pod("a"), pod("b")]) if isinstance(each, dict)]
        a, b = [Binding("default", each["metadata"]["name"], "n", each["metadata"]["uid"]) for each in made]
        assert await client.bind_many([a], all_or_nothing=True) == [None]
        refused, bound = await client.bind_many([a, b], all_or_nothing=False)
        assert isinstance(refused, Conflict)
        assert bound is None
        assert await client.bind_many([], all_or_nothing=True) == []

    with_server(script)


def test_large_lots_are_cut_into_portions_that_fit() -> None:
    objs = [{"n": n, "pad": "x" * (n % 7) * 100_000} for n in range(60)]
    cut = [[bytes(each) for each in portion] for portion in portions(objs)]
    assert len(cut) > 5
    assert all(sum(map(len, portion)) <= 2_000_000 for portion in cut)
    assert sum(map(len, cut)) == 60
    assert [len(portion) for portion in portions([{}] * 1001)] == [500, 500, 1]


def test_a_lost_connection_is_raised_when_everything_else_is_done() -> None:
    done = []

    async def work(number: int) -> int:
        await asyncio.sleep(number)
        if number == 1:
            raise Disconnected("gone")
        done.append(number)
        return number

    async def main() -> None:
        with pytest.raises(Disconnected):
            await in_turns(range(5), work, 2)
        assert done == [0, 2, 3, 4]

    run_virtually(main())
