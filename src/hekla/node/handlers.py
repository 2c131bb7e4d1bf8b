"""Carrying out what a probe or a lifecycle hook asks for: a command, a connection, an HTTP request, a pause.

Connections are made from inside the switch, where pods' addresses mean something.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass

from hekla.api.kinds import Obj
from hekla.errors import HeklaError
from hekla.node.commands import CommandError, run_command
from hekla.node.directory import PodDirectory
from hekla.node.spawner import Spawner
from hekla.node.switch_client import SwitchClient, SwitchError


class HandlerFailed(HeklaError):
    """What was asked for did not work; the text says how."""


@dataclass(frozen=True)
class Handlers:
    """Of one container. `switch` is None where pods are plain processes."""

    directory: PodDirectory
    container: Obj
    address: str
    spawner: Spawner
    switch: SwitchClient | None

    async def carry_out(self, handler: Obj, seconds: float) -> None:
        """Return when it has succeeded. Raises HandlerFailed."""
        try:
            if handler.get("exec"):
                await self._exec(handler["exec"].get("command") or [], seconds)
                return
            async with asyncio.timeout(seconds):
                if handler.get("httpGet"):
                    await self._http(handler["httpGet"])
                elif handler.get("tcpSocket"):
                    await self._tcp(handler["tcpSocket"])
                elif handler.get("sleep"):
                    await asyncio.sleep(float(handler["sleep"].get("seconds") or 0))
        except TimeoutError:
            raise HandlerFailed(f"timed out after {seconds:g} s") from None
        except (CommandError, SwitchError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise HandlerFailed(str(error) or type(error).__name__) from error

    async def _exec(self, argv: list[str], seconds: float) -> None:
        code, said = await run_command(self.spawner, self.directory, self.container["name"], argv, seconds)
        if code:
            raise HandlerFailed(said.strip() or f"exit code {code}")

    async def _tcp(self, wanted: Obj) -> None:
        dialled = await self._dial(str(wanted.get("host") or self.address), self._port(wanted["port"]))
        dialled.close()

    async def _http(self, wanted: Obj) -> None:
        host, port = str(wanted.get("host") or self.address), self._port(wanted["port"])
        dialled = await self._dial(host, port)
        secure = str(wanted.get("scheme") or "HTTP").upper() == "HTTPS"
        reader, writer = await asyncio.open_connection(
            sock=dialled, ssl=_unverified() if secure else None, server_hostname=host if secure else None
        )
        try:
            writer.write(_request(wanted, f"{host}:{port}"))
            head = await reader.readuntil(b"\r\n")
        finally:
            writer.close()
        words = head.decode("latin-1").split(" ")
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        if not 200 <= status < 400:
            raise HandlerFailed(f"HTTP probe failed with statuscode: {status}")

    async def _dial(self, host: str, port: int) -> socket.socket:
        if self.switch is None:
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        else:
            made = await asyncio.to_thread(self.switch.open_socket)
        made.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(made, (host, port))
        except BaseException:
            made.close()
            raise
        return made

    def _port(self, wanted: int | str) -> int:
        if isinstance(wanted, int) or wanted.isdigit():
            return int(wanted)
        for port in self.container.get("ports") or ():
            if port.get("name") == wanted:
                return int(port["containerPort"])
        raise HandlerFailed(f"couldn't find port: {wanted!r}")


def _request(wanted: Obj, host: str) -> bytes:
    headers = {"Host": host, "User-Agent": "kube-probe/1.36", "Accept": "*/*", "Connection": "close"}
    for each in wanted.get("httpHeaders") or ():
        headers[str(each["name"]).title()] = str(each.get("value") or "")
    path = str(wanted.get("path") or "/")
    lines = [f"GET {path if path.startswith('/') else '/' + path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def _unverified() -> ssl.SSLContext:
    """As kubelets do: a probe asks whether somebody answers, not who."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
