"""`POST serviceaccounts/NAME/token`: a token for an account, as `kubectl create token` and nodes ask for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hekla.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT, Kind, Obj
from hekla.api.meta import timestamp, uid_of
from hekla.apiserver.access.tokens import ISSUER, Tokens
from hekla.apiserver.decoding import decode_object
from hekla.apiserver.invalid import Problem, invalid, refusal
from hekla.apiserver.path import Route
from hekla.apiserver.request import Request, Response, json_response, not_found
from hekla.apiserver.store.store import Key, Store
from hekla.clock import Clock
from hekla.errors import BadRequest, Conflict

TOKEN_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests")
_DEFAULT_SECONDS = 3600
_SHORTEST_SECONDS = 600
_LONGEST_SECONDS = 1 << 32
_BINDABLE = {kind.kind: kind for kind in (POD, SECRET, NODE)}


class TokenRequests:
    def __init__(self, store: Store, tokens: Tokens, *, clock: Clock) -> None:
        self._store = store
        self._tokens = tokens
        self._clock = clock

    def answer(self, route: Route, request: Request) -> Response:
        wish = decode_object(request, TOKEN_REQUEST.kind)
        spec, metadata = (_mapping(wish, part) for part in ("spec", "metadata"))
        # 1. For whom, for how long, and bound to what.
        account = self._get(SERVICE_ACCOUNT, route.namespace, route.name)
        _check_place(metadata, route)
        seconds = _seconds(spec)
        audiences = _audiences(spec)
        bound = _mapping(spec, "boundObjectRef")
        bonds = self._bonds(bound, route) if bound else []
        # 2. The token, and the request with the answer in it.
        now = self._clock.now()
        until = int(now.timestamp()) + seconds
        token = self._tokens.issue(account, bonds, audiences, at=int(now.timestamp()), until=until)
        answer = {
            "kind": TOKEN_REQUEST.kind,
            "apiVersion": TOKEN_REQUEST.api_version,
            "metadata": {"name": route.name, "namespace": route.namespace, "creationTimestamp": timestamp(now)},
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound or None},
            "status": {"token": token, "expirationTimestamp": timestamp(datetime.fromtimestamp(until, UTC))},
        }
        return json_response(answer, 201)

    def _bonds(self, reference: Any, route: Route) -> list[tuple[Kind, Obj]]:
        group, _, version = str(reference.get("apiVersion") or "").rpartition("/")
        kind = _BINDABLE.get(str(reference.get("kind"))) if not group else None
        if kind is None:
            shown = f"{group}/{version}, Kind={reference.get('kind', '')}"
            raise BadRequest(f"cannot bind token to object of type {shown}")
        name = str(reference.get("name") or "")
        found = self._get(kind, route.namespace, name)
        if kind is POD and found["spec"].get("serviceAccountName") != route.name:
            raise BadRequest(
                f'cannot bind token for serviceaccount "{route.name}" to pod running with different '
                "serviceaccount name."
            )
        uid = reference.get("uid")
        if uid and uid != uid_of(found):
            raise Conflict(
                f'Operation cannot be fulfilled on {kind.kind} "{name}": the UID in the bound object reference ({uid}) '
                "does not match the UID in record. The object might have been deleted and then recreated",
                details={"name": name, "kind": kind.kind},
            )
        return [(kind, found), *self._node_of(found)] if kind is POD else [(kind, found)]

    def _node_of(self, pod: Obj) -> list[tuple[Kind, Obj]]:
        name = pod["spec"].get("nodeName")
        entry = self._store.get(Key(f"/{NODE.plural}", "", name)) if name else None
        return [(NODE, entry.decode())] if entry is not None else []

    def _get(self, kind: Kind, namespace: str, name: str) -> Obj:
        entry = self._store.get(Key(f"/{kind.plural}", namespace if kind.namespaced else "", name))
        if entry is None:
            raise not_found(kind, name)
        return entry.decode()


def _mapping(obj: Obj, field: str) -> Obj:
    value = obj.get(field) or {}
    if not isinstance(value, dict):
        raise BadRequest(f"{field} of a {TOKEN_REQUEST.kind} is a mapping")
    return value


def _audiences(spec: Obj) -> list[str]:
    given = spec.get("audiences") or []
    if not isinstance(given, list):
        raise BadRequest("spec.audiences is a list of texts")
    return [str(each) for each in given] or [ISSUER]


def _check_place(metadata: Obj, route: Route) -> None:
    for field, wanted, what in (("name", route.name, "name"), ("namespace", route.namespace, "namespace")):
        given = metadata.get(field)
        if given and given != wanted:
            why = f"must match the service account {what} if specified"
            raise refusal(TOKEN_REQUEST, route.name, [invalid(f"metadata.{field}", given, why)])


def _seconds(spec: Obj) -> int:
    given = spec.get("expirationSeconds")
    seconds = _DEFAULT_SECONDS if given is None else given
    problem: Problem | None = None
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise BadRequest("spec.expirationSeconds is a number of seconds")
    if seconds < _SHORTEST_SECONDS:
        problem = invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > _LONGEST_SECONDS:
        problem = invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    if problem is not None:
        raise refusal(TOKEN_REQUEST, "", [problem])
    return seconds
