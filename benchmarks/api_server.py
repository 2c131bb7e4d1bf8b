"""Creates and binds per second against an API server's unix socket, with a client that costs next to nothing.

First with a request each, then with the batch form: `--batch` pods in one request, bound as gangs of the same size on
nodes made for the purpose, all or nothing.

python benchmarks/api_server.py SOCKET [--pods 5000] [--in-flight 64] [--batch 100] [--server-pid PID]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from pathlib import Path

import uvloop

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {"volcano.sh/job-name": "bench"}, "annotations": {"scheduling.k8s.io/group-name": "bench"}},
    "spec": {
        "schedulerName": "volcano",
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "python:3",
                "command": ["sleep", "10"],
                "env": [{"name": f"VARIABLE_{index}", "value": str(index)} for index in range(8)],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }
        ],
    },
}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("socket")
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--server-pid", type=int, default=0)
    options = parser.parse_args()
    run = f"b{time.time_ns() // 1_000_000 % 10_000_000}"
    base = "/api/v1/namespaces/default/pods"
    await singly(options, run, base)
    await in_batches(options, run)


async def singly(options: argparse.Namespace, run: str, base: str) -> None:
    creates = [(base, pod(f"{run}-{i}")) for i in range(options.pods)]
    binds = [(f"{base}/{run}-{i}/binding", binding(f"{run}-{i}", f"node-{i % 100}")) for i in range(options.pods)]
    await measure("creates", options, creates)
    await measure("binds", options, binds)


async def in_batches(options: argparse.Namespace, run: str) -> None:
    nodes = [f"{run}-{i}" for i in range(100)]
    room = {"cpu": str(options.pods), "memory": f"{options.pods}Gi", "pods": str(options.pods)}
    await measure(
        "nodes", options, [("/api/v1/nodes", {"metadata": {"name": n}, "status": {"allocatable": room}}) for n in nodes]
    )
    lots = [range(first, min(first + options.batch, options.pods)) for first in range(0, options.pods, options.batch)]
    creates = [("/apis/hekla.dev/v1/objectbatches", {"items": [pod(f"{run}-b{i}") for i in lot]}) for lot in lots]
    binds = [
        (
            "/apis/hekla.dev/v1/bindingbatches",
            {"items": [binding(f"{run}-b{i}", nodes[i % 100]) for i in lot], "allOrNothing": True},
        )
        for lot in lots
    ]
    await measure(f"creates by {options.batch}", options, creates, options.pods)
    await measure(f"binds by {options.batch}", options, binds, options.pods)


def pod(name: str) -> dict[str, object]:
    return {**POD, "metadata": {**POD["metadata"], "name": name}}  # type: ignore[dict-item]


def binding(name: str, node: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}


async def measure(
    title: str, options: argparse.Namespace, requests: list[tuple[str, dict[str, object]]], pods: int = 0
) -> None:
    encoded = [(path, json.dumps(body).encode()) for path, body in requests]
    waiting = iter(encoded)
    latencies: list[float] = []
    cpu = cpu_seconds(options.server_pid)
    started = time.perf_counter()
    await asyncio.gather(*(worker(options.socket, waiting, latencies) for _ in range(options.in_flight)))
    seconds = time.perf_counter() - started
    latencies.sort()
    used, count = cpu_seconds(options.server_pid) - cpu, pods or len(requests)
    print(
        f"{title}: {count / seconds:.0f}/s, p50 {latencies[len(latencies) // 2] * 1000:.1f} ms, "
        f"p99 {latencies[len(latencies) * 99 // 100] * 1000:.1f} ms, "
        f"server {used / count * 1e6:.0f} us CPU each"
    )


async def worker(socket: str, waiting: object, latencies: list[float]) -> None:
    reader, writer = await asyncio.open_unix_connection(socket)
    for path, body in waiting:  # type: ignore[attr-defined]
        started = time.perf_counter()
        head = (
            f"POST {path} HTTP/1.1",
            "host: localhost",
            "content-type: application/json",
            f"content-length: {len(body)}",
        )
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        assert answer.startswith(b"HTTP/1.1 20"), answer
        assert b'"status":{"kind":"Status"' not in body, body[:500]
        latencies.append(time.perf_counter() - started)
    writer.close()


def cpu_seconds(pid: int) -> float:
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    uvloop.run(main())
