"""What the server tells about itself at `/metrics`, named as the real server names it where it has the same figure."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from hekla.apiserver.path import Route
from hekla.apiserver.request import Request, Response
from hekla.apiserver.store.store import Store

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The figures of one server: nothing here is shared with another in the same process."""

    def __init__(self, store: Store) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "apiserver_request_total", "Requests answered.", ("verb", "resource", "code"), registry=self._registry
        )
        self._seconds = Histogram(
            "apiserver_request_duration_seconds",
            "Seconds until the answer was ready, of requests that do not stream.",
            ("verb",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._streams = Gauge(
            "apiserver_longrunning_requests", "Streams open now.", ("verb", "resource"), registry=self._registry
        )
        self._registry.register(_StoreCollector(store))
        # To find the figure of a label takes longer than to raise it.
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def answered(self, request: Request, response: Response, seconds: float) -> None:
        verb, resource, status = request.verb, request.resource, response.status
        counter = self._counters.get((verb, resource, status))
        if counter is None:
            counter = self._counters[verb, resource, status] = self._requests.labels(verb, resource, str(status))
        counter.inc()
        if response.stream is None:
            histogram = self._histograms.get(verb)
            if histogram is None:
                histogram = self._histograms[verb] = self._seconds.labels(verb)
            histogram.observe(seconds)

    def streams(self, request: Request) -> Gauge:
        """The number of open streams like this one."""
        return self._streams.labels(request.verb, request.resource)

    def page(self) -> Response:
        return Response(200, generate_latest(self._registry), CONTENT_TYPE_LATEST)


def verb_of(request: Request, route: Route) -> str:
    match request.method:
        case "GET" if request.flag("watch"):
            return "WATCH"
        case "GET" if not route.name:
            return "LIST"
        case "GET" if route.subresource:
            return "CONNECT" if route.subresource in ("log", "exec") else "GET"
        case "DELETE" if not route.name:
            return "DELETECOLLECTION"
    return request.method


class _StoreCollector(Collector):
    """Read when asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("hekla_store_revision", "The newest durable revision.", self._store.revision)
        yield GaugeMetricFamily(
            "hekla_store_compacted_revision", "Changes up to here are no longer in the history.", self._store.compacted
        )
        objects = GaugeMetricFamily("apiserver_storage_objects", "Objects stored.", labels=("resource",))
        for resource in self._store.resources():
            group, _, plural = resource.partition("/")
            objects.add_metric((f"{plural}.{group}" if group else plural,), len(self._store.entries(resource)))
        yield objects
