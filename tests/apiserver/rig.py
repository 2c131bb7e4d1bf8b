"""An API server without sockets for tests: the real app on a memory store, spoken to through the real client."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, Obj
from hekla.apiserver.app import build_app
from hekla.apiserver.store.memory import MemoryStore
from hekla.client.inprocess import InProcessTransport
from hekla.client.rest import Client
from hekla.client.transport import Request
from hekla.clock import LoopClock
from tests.integration.virtual_loop import run_virtually

T = TypeVar("T")

WIDGET = Kind("example.org", "v1", "Widget", "widgets", True, ("wd",), ("status",))
WIDGETS: Obj = {
    "metadata": {"name": "widgets.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1, "maximum": 10},
                                    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "weight": {"type": "integer", "default": 7},
                                            },
                                        },
                                    },
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


class Rig:
    def __init__(self, admission: Any = None, **store: Any) -> None:
        self.clock = LoopClock()
        self.store = MemoryStore(self.clock, **store)
        self.app = build_app(self.store, clock=self.clock, rng=random.Random(1), admission=admission)
        self.transport = InProcessTransport(self.app)
        self.client = Client(self.transport)

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, document (or text) and headers of the answer, whatever it is."""
        data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        sent = {"Content-Type": content_type, "Accept": "application/json", **headers}
        answer = await self.transport.send(Request(method, path, data, sent))
        try:
            return answer.status, msgspec.json.decode(answer.body), _lower(answer.headers)
        except msgspec.DecodeError:
            return answer.status, answer.body.decode(), _lower(answer.headers)

    async def define_widgets(self) -> None:
        await self.client.create(CUSTOM_RESOURCE_DEFINITION, WIDGETS)


def with_server(script: Callable[[Rig], Awaitable[T]], admission: Any = None, **store: Any) -> T:
    """Run a script against a fresh server, in virtual time."""

    async def main() -> T:
        rig = Rig(admission, **store)
        await rig.app.start()
        return await script(rig)

    return run_virtually(main())


def pod(name: str = "p", **spec: Any) -> Obj:
    container = {"name": "main", "image": "python:3"}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container], **spec}}


def config_map(name: str = "a", **metadata: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": "default", **metadata}, "data": {"x": "1"}}


def widget(name: str = "w", **spec: Any) -> Obj:
    return {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"size": 3, **spec},
    }


async def soon(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Let (virtual) time pass until it holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
