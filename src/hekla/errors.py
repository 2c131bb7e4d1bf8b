"""The one tree of errors.

API errors are raised by the client when a server answers with a Status, and by the embedded server
to answer with one: the same class on both sides, so `except NotFound` reads alike everywhere.
A "no" that somebody asked about (does it fit? is it valid?) is a value, not one of these.
"""

from __future__ import annotations

from typing import Any


class HeklaError(Exception):
    """Root of everything Hekla raises on purpose; its text is meant for a person."""


class UsageError(HeklaError):
    """The person asked for something that cannot be done as asked (bad file, bad flag, no cluster)."""


class Misuse(UsageError):
    """Flags that make no sense, whatever the state of the world."""


class Disconnected(HeklaError):
    """The API server could not be reached, or the connection broke before an answer came.

    The request may or may not have taken effect: callers look again rather than assume.
    """


class ApiError(HeklaError):
    """A Kubernetes Status of failure, as an exception."""

    code = 500
    reason = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        reason: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        if code is not None:
            self.code = code
        if reason is not None:
            self.reason = reason

    @property
    def retry_after(self) -> float | None:
        """Seconds the server asked us to wait before the next attempt."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        return float(seconds) if seconds else None

    @property
    def namespace_goes(self) -> bool:
        """Whether something could not be made because its namespace is being deleted."""
        causes = (self.details or {}).get("causes") or ()
        return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)

    def to_status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class BadRequest(ApiError):
    code = 400
    reason = "BadRequest"


class Unauthorized(ApiError):
    code = 401
    reason = "Unauthorized"


class Forbidden(ApiError):
    code = 403
    reason = "Forbidden"


class NotFound(ApiError):
    code = 404
    reason = "NotFound"


class MethodNotAllowed(ApiError):
    code = 405
    reason = "MethodNotAllowed"


class NotAcceptable(ApiError):
    code = 406
    reason = "NotAcceptable"


class Conflict(ApiError):
    """The object changed since it was read, or a precondition (uid, resourceVersion) does not hold."""

    code = 409
    reason = "Conflict"


class AlreadyExists(ApiError):
    code = 409
    reason = "AlreadyExists"


class Expired(ApiError):
    """The resourceVersion asked for has been compacted away: list again."""

    code = 410
    reason = "Expired"


class TooLarge(ApiError):
    code = 413
    reason = "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code = 415
    reason = "UnsupportedMediaType"


class Invalid(ApiError):
    """The object is well-formed but breaks rules; `details.causes` lists each field."""

    code = 422
    reason = "Invalid"


class TooManyRequests(ApiError):
    code = 429
    reason = "TooManyRequests"


class InternalError(ApiError):
    code = 500
    reason = "InternalError"


class ServiceUnavailable(ApiError):
    code = 503
    reason = "ServiceUnavailable"


class Timeout(ApiError):
    code = 504
    reason = "Timeout"


def told_error(error: BaseException) -> BaseException:
    """Out of a group of errors that belong together, the one a person should be told."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    found = [told_error(inner) for inner in error.exceptions]
    return next((inner for inner in found if isinstance(inner, HeklaError | OSError)), found[0])


_BY_REASON: dict[str, type[ApiError]] = {
    cls.reason: cls
    for cls in (
        BadRequest,
        Unauthorized,
        Forbidden,
        NotFound,
        MethodNotAllowed,
        NotAcceptable,
        Conflict,
        AlreadyExists,
        Expired,
        TooLarge,
        UnsupportedMediaType,
        Invalid,
        TooManyRequests,
        InternalError,
        ServiceUnavailable,
        Timeout,
    )
}
_BY_REASON["Gone"] = Expired
_BY_CODE: dict[int, type[ApiError]] = {
    cls.code: cls for cls in reversed(list(_BY_REASON.values())) if cls is not AlreadyExists
}


def error_from_status(status: dict[str, Any], code: int = 0) -> ApiError:
    """The exception for a Status object; `code` (the HTTP status) decides where the reason is unknown."""
    number = int(status.get("code") or code or 500)
    reason = str(status.get("reason") or "")
    cls = _BY_REASON.get(reason) or _BY_CODE.get(number) or ApiError
    message = str(status.get("message") or f"the server answered {number} {reason}".strip())
    return cls(message, code=number, reason=reason, details=status.get("details"))
