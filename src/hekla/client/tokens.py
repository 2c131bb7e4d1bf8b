"""Bearer tokens that change while a component runs: files that are rewritten, and programs that hand them out.

A service account's token in a pod is replaced about every hour, a cloud's every few minutes. Who reads one only once
loses the cluster then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from hekla.api.meta import parse_timestamp
from hekla.clock import Clock
from hekla.errors import Disconnected, UsageError

_EXEC_SECONDS = 60
# Who rotates a file leaves the old token valid for longer than this.
_FILE_SECONDS = 60.0
# A token about to expire is not sent on its way any more.
_MARGIN_SECONDS = 10.0


class TokenSource(Protocol):
    def at_hand(self) -> str | None:
        """The token to send now; None when it has to be waited for, with `token`."""

    async def token(self, refused: str = "") -> str:
        """The token to send now. `refused` is one that a server has just turned down: look for a newer one."""


@dataclass(frozen=True, slots=True)
class FixedToken:
    value: str

    def at_hand(self) -> str:
        return self.value

    async def token(self, refused: str = "") -> str:
        return self.value


class FileToken:
    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._value = self._read()
        self._read_at = clock.monotonic()

    def at_hand(self) -> str:
        return self._current("")

    async def token(self, refused: str = "") -> str:
        return self._current(refused)

    def _current(self, refused: str) -> str:
        if refused == self._value or self._clock.monotonic() - self._read_at >= _FILE_SECONDS:
            self._read_at = self._clock.monotonic()
            # It may be just being replaced. The old one may still do; if not, the server says so and we look again.
            with contextlib.suppress(UsageError):
                self._value = self._read()
        return self._value

    def _read(self) -> str:
        try:
            return self._path.read_text().strip()
        except OSError as error:
            raise UsageError(f"{self._path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Credential:
    """What a credential program answered."""

    token: str = ""
    certificate: str = ""
    key: str = ""
    expires: datetime | None = None


class ExecToken:
    """Asks its program again when the token is about to expire, or was turned down."""

    def __init__(self, plugin: Mapping[str, Any], environment: Mapping[str, str], clock: Clock) -> None:
        self._plugin = plugin
        self._environment = environment
        self._clock = clock
        self._asking = asyncio.Lock()
        self.credential = ask_program(plugin, environment)

    def at_hand(self) -> str | None:
        return None if self._is_stale("") else self.credential.token

    async def token(self, refused: str = "") -> str:
        if self._is_stale(refused):
            async with self._asking:
                # Somebody else may have asked while we waited.
                if self._is_stale(refused):
                    await self._ask()
        return self.credential.token

    async def _ask(self) -> None:
        try:
            self.credential = await asyncio.to_thread(ask_program, self._plugin, self._environment)
        except UsageError as error:
            # It worked when we started: like a network that is away, this is to be tried again, not to be died of.
            raise Disconnected(str(error)) from error

    def _is_stale(self, refused: str) -> bool:
        if refused == self.credential.token:
            return True
        expires = self.credential.expires
        return expires is not None and (expires - self._clock.now()).total_seconds() < _MARGIN_SECONDS


def ask_program(plugin: Mapping[str, Any], environment: Mapping[str, str]) -> Credential:
    """Run a kubeconfig's `exec` entry and read the ExecCredential it prints."""
    try:
        command = [str(plugin.get("command", "")), *(str(arg) for arg in plugin.get("args") or ())]
        extra = {str(item["name"]): str(item["value"]) for item in plugin.get("env") or ()}
    except (TypeError, KeyError):
        raise UsageError("kubeconfig: exec: args is a list of texts, env one of mappings with name and value") from None
    info = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": {"interactive": False}}
    try:
        done = subprocess.run(
            command,
            env={**environment, **extra, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            capture_output=True,
            timeout=_EXEC_SECONDS,
            check=True,
        )
        status = json.loads(done.stdout)["status"]
        expires = status.get("expirationTimestamp")
        return Credential(
            token=str(status.get("token") or ""),
            certificate=str(status.get("clientCertificateData") or ""),
            key=str(status.get("clientKeyData") or ""),
            expires=parse_timestamp(expires) if expires else None,
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip() or f"exit status {error.returncode}"
        raise UsageError(f"kubeconfig: credential plugin {command[0]!r} failed: {said}") from error
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        raise UsageError(f"kubeconfig: credential plugin {command[0]!r} failed: {error}") from error
