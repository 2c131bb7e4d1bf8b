"""Creates and binds per second against an API server's unix socket, with a client that costs next to nothing.

python benchmarks/api_server.py SOCKET [--pods 5000] [--in-flight 64] [--server-pid PID]
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
    parser.add_argument("--server-pid", type=int, default=0)
    options = parser.parse_args()
    run = f"b{time.time_ns() // 1_000_000 % 10_000_000}"
    base = "/api/v1/namespaces/default/pods"
    creates = [(f"{base}", {**POD, "metadata": {**POD["metadata"], "name": f"{run}-{i}"}}) for i in range(options.pods)]
    binds = [
        (
            f"{base}/{run}-{i}/binding",
            {"metadata": {"name": f"{run}-{i}"}, "target": {"kind": "Node", "name": f"node-{i % 100}"}},
        )
        for i in range(options.pods)
    ]
    for title, requests in (("creates", creates), ("binds", binds)):
        await measure(title, options, [(path, json.dumps(body).encode()) for path, body in requests])


async def measure(title: str, options: argparse.Namespace, requests: list[tuple[str, bytes]]) -> None:
    waiting = iter(requests)
    latencies: list[float] = []
    cpu = cpu_seconds(options.server_pid)
    started = time.perf_counter()
    await asyncio.gather(*(worker(options.socket, waiting, latencies) for _ in range(options.in_flight)))
    seconds = time.perf_counter() - started
    latencies.sort()
    used = cpu_seconds(options.server_pid) - cpu
    print(
        f"{title}: {len(requests) / seconds:.0f}/s, p50 {latencies[len(latencies) // 2] * 1000:.1f} ms, "
        f"p99 {latencies[len(latencies) * 99 // 100] * 1000:.1f} ms, "
        f"server {used / len(requests) * 1e6:.0f} us CPU each"
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
        assert answer.startswith(b"HTTP/1.1 201"), answer
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        latencies.append(time.perf_counter() - started)
    writer.close()


def cpu_seconds(pid: int) -> float:
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    uvloop.run(main())
