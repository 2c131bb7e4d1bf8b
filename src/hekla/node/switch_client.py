"""Asking the switch, and starting it when nobody answers. Blocking; agents call it off the event loop."""

from __future__ import annotations

import array
import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hekla.errors import HeklaError
from hekla.node import records
from hekla.node.ruleset import clearing, rules_id
from hekla.node.switch import RECORD, SOCKET
from hekla.node.uplink import Outgoing

_TURN = "switch.turn"
_ANSWER_SECONDS = 10.0
_START_SECONDS = 20.0


class SwitchError(HeklaError):
    """The switch could not be reached or said no."""


@dataclass(frozen=True)
class Sandbox:
    process: records.ProcessId
    address: str
    rules: str  # what is in force in the network, by `ruleset.rules_id`


@dataclass(frozen=True)
class SwitchClient:
    data_dir: Path
    outgoing: Outgoing = "none"

    def sandbox(self, uid: str, hostname: str) -> Sandbox:
        """The pod's namespaces and address, made if they are not there. Same answer as often as asked."""
        answer, _ = self._ask({"op": "sandbox", "uid": uid, "hostname": hostname})
        return Sandbox(answer["process"], answer["address"], answer["rules"])

    def remove(self, uid: str) -> None:
        """End the pod's pause process and pull its cable."""
        self._ask({"op": "remove", "uid": uid})

    def dns_sockets(self) -> tuple[str, socket.socket, socket.socket]:
        """The bridge address, and the UDP and TCP sockets on which its pods ask for names."""
        answer, descriptors = self._ask({"op": "dns"})
        udp, tcp = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        udp.setblocking(False)
        tcp.setblocking(False)
        return answer["address"], udp, tcp

    def service_socket(self, address: str, port: int) -> socket.socket:
        """A socket that listens for pods at a cluster address."""
        _, descriptors = self._ask({"op": "listen", "address": address, "port": port})
        listening = socket.socket(fileno=descriptors[0])
        listening.setblocking(False)
        return listening

    def open_socket(self, uid: str | None = None) -> socket.socket:
        """A new TCP socket inside the switch's network: whoever connects it reaches pods. With a uid: in that pod's."""
        _, descriptors = self._ask({"op": "socket", "uid": uid})
        return socket.socket(fileno=descriptors[0])

    def set_rules(self, text: str) -> str:
        """Put these rules in force in place of those before; gives their id."""
        descriptor = os.memfd_create("hekla-rules")
        try:
            os.write(descriptor, (text or clearing()).encode())
            os.lseek(descriptor, 0, os.SEEK_SET)
            self._ask({"op": "rules", "id": rules_id(text)}, [descriptor])
        finally:
            os.close(descriptor)
        return rules_id(text)

    def describe(self) -> dict[str, Any]:
        """What the switch wrote about itself: process, network, gateway, user_namespace, ids, nft, outgoing, keeper.
        Starts it if need be.
        """
        try:
            self._connect().close()
        except OSError as error:
            raise SwitchError(f"the switch cannot be reached: {error}") from error
        found: dict[str, Any] = records.read(str(self.data_dir / RECORD)) or {}
        return found

    def _ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> tuple[dict[str, Any], list[int]]:
        try:
            with self._connect() as connection:
                socket.send_fds(connection, [json.dumps(request).encode()], list(descriptors))
                data, ancillary, _, _ = connection.recvmsg(64 * 1024, socket.CMSG_SPACE(16 * 4))
            answer = json.loads(data)
        except (OSError, ValueError) as error:
            raise SwitchError(f"the switch did not answer: {error}") from error
        if "error" in answer:
            raise SwitchError(f"the switch said: {answer['error']}")
        return answer, _descriptors(ancillary)

    def _connect(self) -> socket.socket:
        try:
            return self._dial()
        except (FileNotFoundError, ConnectionRefusedError):
            pass
        # Several agents may find nobody there at once: one starts the switch, the others wait until it is ready.
        turn = os.open(self.data_dir / _TURN, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(turn, fcntl.LOCK_EX)
            try:
                return self._dial()
            except (FileNotFoundError, ConnectionRefusedError):
                self._start()
            return self._dial()
        finally:
            os.close(turn)

    def _dial(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(_ANSWER_SECONDS)
        directory = os.open(self.data_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            connection.connect(f"/proc/self/fd/{directory}/{SOCKET}")
        except OSError:
            connection.close()
            raise
        finally:
            os.close(directory)
        return connection

    def _start(self) -> None:
        """Start a switch that outlives us; return when it is ready."""
        with (self.data_dir / "switch.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "hekla.node.switch", str(self.data_dir), self.outgoing],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                cwd="/",
                start_new_session=True,
            )
        assert process.stdout is not None
        with process.stdout:
            answer = process.stdout.readline()
        process.wait(_START_SECONDS)
        if answer != b"ready\n":
            raise SwitchError(f"the switch did not start; see {self.data_dir / 'switch.log'}")


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)
