"""The contract between an API server and admission: a review goes in, a review comes out.

The embedded server is handed an `Admission` when it is composed and calls it as a function; on a real cluster the
same object sits behind HTTPS at upstream's paths. Both speak `admission.k8s.io/v1` AdmissionReview dicts.
"""

from __future__ import annotations

from typing import Protocol

from hekla.api.kinds import Kind, Obj


class Reader(Protocol):
    """What admission may look up (queues, namespaces): answered from the store, or by an API client.

    What is found is there to be read: it must not be changed.
    """

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Obj | None:
        """The object, or None."""

    async def find_all(self, kind: Kind, namespace: str | None = None) -> list[Obj]:
        """Every object of the kind, in one namespace or in all."""


class Admission(Protocol):
    def interested(self, kind: Kind, operation: str) -> bool:
        """Whether `mutate` or `validate` has anything to say; a cheap check made on every write."""

    def fills_in(self, kind: Kind, operation: str) -> bool:
        """Whether `mutate` has; `interested` is true then."""

    async def mutate(self, review: Obj) -> Obj:
        """Called after schema defaulting and pruning. The answer may carry `response.patch` (base64 JSON Patch)."""

    async def validate(self, review: Obj) -> Obj:
        """Called after the schema check. `response.allowed` false means the write is refused with its message."""


def one_line(text: str) -> str:
    """A warning as a header can carry it. Kubernetes drops one that has a line break or another control character."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
