"""`metrics.k8s.io`, for `kubectl top`: what pods and nodes use just now, asked of the nodes when somebody asks.

A node tells how many seconds of CPU its containers have used so far. How much that is at the moment takes two such
answers; the earlier one is kept for the next who asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from hekla.api.kinds import NODE, POD, Kind, Obj
from hekla.api.meta import timestamp
from hekla.apiserver.logs import LogProxy, node_address
from hekla.apiserver.path import Route
from hekla.apiserver.request import Request, Response, json_response, not_found
from hekla.apiserver.resource import Resource
from hekla.apiserver.selecting import read_selection
from hekla.apiserver.store.store import Entry, Key, Store
from hekla.clock import Clock
from hekla.errors import Disconnected
from hekla.log import get_logger

log = get_logger("apiserver")

NODE_METRICS = Kind("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", False, singular="")
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", singular="")
METRICS = (NODE_METRICS, POD_METRICS)
_CPU = "container_cpu_usage_seconds_total"
_MEMORY = "container_memory_working_set_bytes"
# Shorter says little; longer ago is not "now".
_SHORTEST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0

Container = tuple[str, str, str]  # namespace, pod, name


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    cpu_seconds: dict[Container, float]
    memory: dict[Container, int]


@dataclass(frozen=True, slots=True)
class _Rate:
    """Between two samples: nanocores and bytes by container."""

    seconds: float
    cpu: dict[Container, int]
    memory: dict[Container, int]


def is_usage_route(route: Route, request: Request) -> bool:
    return request.method == "GET" and _kind_of(route) is not None and not route.subresource


class Usage:
    def __init__(self, store: Store, nodes: LogProxy | None, *, clock: Clock) -> None:
        self._store = store
        self._nodes = nodes
        self._clock = clock
        self._earlier: dict[str, _Sample] = {}  # by node

    async def answer(self, route: Route, request: Request) -> Response:
        kind = _kind_of(route)
        assert kind is not None
        request.verb, request.resource = "GET" if route.name else "LIST", kind.resource
        made = await (self._of_nodes if kind is NODE_METRICS else self._of_pods)(route, request)
        if not route.name:
            document = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": {}, "items": made}
            return json_response(document)
        if not made:
            raise not_found(kind, route.name)
        return json_response({"kind": kind.kind, "apiVersion": kind.api_version, **made[0]})

    async def _of_nodes(self, route: Route, request: Request) -> list[Obj]:
        nodes = self._chosen(NODE, route, request)
        rates = await self._rates(node.key.name for node in nodes)
        return [
            {**self._about(node, rate), "usage": _amounts(sum(rate.cpu.values()), sum(rate.memory.values()))}
            for node in nodes
            if (rate := rates.get(node.key.name)) is not None
        ]

    async def _of_pods(self, route: Route, request: Request) -> list[Obj]:
        pods = self._chosen(POD, route, request)
        places = {pod.key: str((pod.decode().get("spec") or {}).get("nodeName") or "") for pod in pods}
        rates = await self._rates(filter(None, places.values()))
        found = []
        for pod in pods:
            rate = rates.get(places[pod.key])
            running = sorted(each for each in rate.cpu if each[:2] == pod.key[1:]) if rate is not None else []
            if rate is not None and running:
                used = [{"name": each[2], "usage": _amounts(rate.cpu[each], rate.memory[each])} for each in running]
                found.append({**self._about(pod, rate), "containers": used})
        return found

    def _chosen(self, kind: Kind, route: Route, request: Request) -> list[Entry]:
        selection = read_selection(Resource(kind), route.namespace, request.query, route.name)
        return [entry for entry in self._store.entries(f"/{kind.plural}", route.namespace) if selection.matches(entry)]

    def _about(self, entry: Entry, rate: _Rate) -> Obj:
        metadata = entry.decode()["metadata"]
        shown = {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}
        now = timestamp(self._clock.now())
        return {"metadata": {**shown, "creationTimestamp": now}, "timestamp": now, "window": f"{rate.seconds:.3f}s"}

    async def _rates(self, names: Iterable[str]) -> dict[str, _Rate]:
        """Of those nodes that answer."""
        asked = sorted(set(names))
        rates = await asyncio.gather(*(self._rate(name) for name in asked))
        return {name: rate for name, rate in zip(asked, rates, strict=True) if rate is not None}

    async def _rate(self, node: str) -> _Rate | None:
        try:
            earlier = self._earlier.pop(node, None)
            if earlier is None or self._clock.monotonic() - earlier.at > _LONGEST_SECONDS:
                earlier = await self._sample(node)
            wait = earlier.at + _SHORTEST_SECONDS - self._clock.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            now = await self._sample(node)
        except (Disconnected, LookupError, ValueError) as error:
            # Also one whose address or answer nobody understands: the others are told of all the same.
            log.info("node does not tell what it uses", node=node, error=error)
            return None
        self._earlier[node] = now
        seconds = now.at - earlier.at
        cpu = {
            each: int((used - earlier.cpu_seconds.get(each, 0.0)) / seconds * 1e9)
            for each, used in now.cpu_seconds.items()
        }
        return _Rate(seconds, {each: max(0, rate) for each, rate in cpu.items()}, now.memory)

    async def _sample(self, node: str) -> _Sample:
        entry = self._store.get(Key("/nodes", "", node))
        if entry is None or self._nodes is None:
            raise Disconnected("there is no such node")
        text = (await self._nodes.fetch(*node_address(entry.decode()), "/metrics/resource")).decode()
        values: dict[str, dict[Container, float]] = {_CPU: {}, _MEMORY: {}}
        for family in text_string_to_metric_families(text):
            for name, labels, value, *_ in family.samples:
                if name in values:
                    values[name][labels["namespace"], labels["pod"], labels["container"]] = value
        memory = {each: int(values[_MEMORY].get(each, 0)) for each in values[_CPU]}
        return _Sample(self._clock.monotonic(), values[_CPU], memory)


def _kind_of(route: Route) -> Kind | None:
    place = (route.group, route.version, route.plural)
    found = next((kind for kind in METRICS if place == (kind.group, kind.version, kind.plural)), None)
    return found if found is None or found.namespaced or not route.namespace else None


def _amounts(nanocores: int, memory: int) -> Obj:
    return {"cpu": f"{nanocores}n", "memory": f"{memory // 1024}Ki"}
