"""What comes in over TCP: from this machine, from no web page, and from nobody without a credential.

Whose credential it is, the app finds out. The unix socket needs none of this: its file mode lets in its owner alone.
"""

from __future__ import annotations

from hekla.api.core import API_SERVICE_ADDRESS, API_SERVICE_NAMES
from hekla.apiserver.access.user import ANONYMOUS
from hekla.apiserver.app import App, Receive, Scope, Send
from hekla.apiserver.request import Response, error_response
from hekla.errors import Forbidden, TooManyRequests, Unauthorized

_ANONYMOUS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
# As many as the real server takes at once; its owner's own components come through the unix socket and are not counted.
_MOST = {"read": 400, "write": 200, "watch": 1000}
_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]", API_SERVICE_ADDRESS, *API_SERVICE_NAMES})


class Gate:
    """The app behind the checks of host, origin and credential."""

    def __init__(self, app: App, *, hosts: frozenset[str] = _HOSTS) -> None:
        self._app = app
        self._hosts = hosts
        self._in_flight = {"read": 0, "write": 0, "watch": 0}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self.refusal(scope)
        if refusal is not None:
            await _refuse(refusal, send)
            return
        kind = _kind(scope)
        if self._in_flight[kind] >= _MOST[kind]:
            details = {"retryAfterSeconds": 1}
            await _refuse(
                error_response(TooManyRequests("too many requests, please try again later", details=details)), send
            )
            return
        self._in_flight[kind] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_flight[kind] -= 1

    def refusal(self, scope: Scope) -> Response | None:
        """Why the request is not let in; None when it is. Looks at `path` and `headers` only."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        # A page in the user's browser can reach this port: names that only DNS rebinding uses are refused, and so is
        # whatever says that it comes from a page.
        if _host(headers.get("host", "")) not in self._hosts:
            return error_response(Forbidden("this server answers only to localhost", details={}))
        if "origin" in headers or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return error_response(Forbidden("requests from web pages are refused", details={}))
        if "authorization" in headers:
            return None
        if scope["path"] not in _ANONYMOUS:
            return error_response(Unauthorized("Unauthorized"))
        scope["hekla.user"] = ANONYMOUS
        return None


def _kind(scope: Scope) -> str:
    if scope["method"] not in ("GET", "HEAD"):
        return "write"
    long = b"watch=" in scope["query_string"] or b"follow=" in scope["query_string"]
    return "watch" if long else "read"


def _host(header: str) -> str:
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() and ":" in header else header
    return name.lower()


async def _refuse(response: Response, send: Send) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(response.body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in response.headers]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
