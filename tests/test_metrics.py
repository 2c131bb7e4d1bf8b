from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from hekla.errors import UsageError
from hekla.metrics import PlainCounter, serving_metrics


async def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split()[1]), answer.partition("\r\n\r\n")[2]


def test_figures_are_served_under_their_exact_names() -> None:
    async def main() -> None:
        registry = CollectorRegistry()
        counter = PlainCounter("volcano_things_count", "Things.", ("kind",), registry=registry)
        counter.add("a")
        counter.add("a")
        counter.add("b")
        counter.forget("b")
        async with serving_metrics(registry, "127.0.0.1:0") as port:
            status, page = await get(port, "/metrics")
            assert (status, 'volcano_things_count{kind="a"} 2.0' in page, 'kind="b"' in page) == (200, True, False)
            assert "# TYPE volcano_things_count counter\n" in page
            assert await get(port, "/healthz") == (200, "ok")
            assert (await get(port, "/secrets"))[0] == 404
            assert (await get(port, "/metrics", "POST"))[0] == 404

    asyncio.run(main())


def test_an_address_that_is_none_or_is_taken_is_told_in_one_sentence() -> None:
    async def main() -> None:
        for address in ("8081", "host", ":x", ":65536", ":\u00b2"):
            with pytest.raises(UsageError, match="is not an address"):
                async with serving_metrics(CollectorRegistry(), address):
                    pass
        async with serving_metrics(CollectorRegistry(), "127.0.0.1:0") as port:
            with pytest.raises(UsageError, match="cannot serve metrics"):
                async with serving_metrics(CollectorRegistry(), f"127.0.0.1:{port}"):
                    pass

    asyncio.run(main())
