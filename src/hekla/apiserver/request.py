"""One HTTP request and its answer, free of the server that carried it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hekla.api.kinds import Kind, Obj
from hekla.api.review import one_line
from hekla.apiserver.access.user import ADMIN, User
from hekla.errors import ApiError, BadRequest, Conflict, Invalid, NotFound

JSON = "application/json"
BODY_LIMIT = 3 * 1024 * 1024
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Request:
    """`verb` and `resource` are filled in when the request has been routed; what is not of a resource has none.

    `warnings` collects what the answer's headers will say, whether it is a yes or a no.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""
    user: User = ADMIN
    verb: str = ""
    resource: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def dry_run(self) -> bool:
        value = self.query.get("dryRun", "")
        if value not in ("", "All"):
            raise self.bad_option("dryRun", f'Unsupported value: ["{value}"]: supported values: "All"')
        return value == "All"

    def bad_option(self, field: str, message: str, reason: str = "FieldValueNotSupported") -> Invalid:
        """The refusal of a query parameter."""
        kind = _OPTIONS.get(self.method, "ListOptions")
        return Invalid(
            f'{kind}.meta.k8s.io "" is invalid: {field}: {message}',
            details={
                "group": "meta.k8s.io",
                "kind": kind,
                "causes": [{"reason": reason, "message": message, "field": field}],
            },
        )

    def flag(self, name: str) -> bool:
        return self.query.get(name, "") not in ("", "false", "0")

    def number(self, name: str) -> int | None:
        text = self.query.get(name, "")
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


@dataclass(slots=True)
class Response:
    """`stream`, when there is one, follows `body`; it is closed when the client goes away."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: list[tuple[str, str]] = field(default_factory=list)
    stream: AsyncIterator[bytes] | None = None


def json_response(document: Any, status: int = 200) -> Response:
    return Response(status, _encode(document))


def error_response(error: ApiError, warnings: Sequence[str] = ()) -> Response:
    response = json_response(error.to_status(), error.code)
    response.headers += warning_headers(warnings)
    if error.retry_after:
        response.headers.append(("retry-after", str(int(error.retry_after))))
    return response


def warning_headers(warnings: Sequence[str]) -> list[tuple[str, str]]:
    return [("warning", f'299 - "{_escape(each)}"') for each in warnings]


def success_status(details: Obj | None = None, code: int | None = None) -> Obj:
    status: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code is not None:
        status["code"] = code
    return status


def name_details(kind: Kind, name: str = "") -> Obj:
    details: Obj = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.plural
    return details


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(f'{kind.resource} "{name}" not found', details=name_details(kind, name))


def no_such_path() -> NotFound:
    return NotFound("the server could not find the requested resource", details={})


def modified(kind: Kind, name: str) -> Conflict:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def conflict(kind: Kind, name: str, why: str) -> Conflict:
    return Conflict(
        f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}', details=name_details(kind, name)
    )


def _escape(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')
