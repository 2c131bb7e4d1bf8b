"""The switch: one process per local cluster that holds its network.

It owns a network namespace with a bridge in it, and for every pod forks a *pause* process that holds the pod's own
namespaces (`pause.py`); a veth pair joins the two. For an ordinary user all of it lives in one user
namespace made here. The host's interfaces, routes and rules are never touched from here.

The switch outlives agents. If it is killed itself, pods keep their links: every pause holds the switch's namespace
open (descriptor 3), and the next switch finds it there and carries on. Pods reach each other through it, under the
rules agents give (`ruleset.py`), and the bridge address, where agents answer DNS; other networks by a way out
(`uplink.py`), where there is one.

Requests come over a unix socket, one JSON message each way (`switch_client.py`).
"""

from __future__ import annotations

import array
import fcntl
import ipaddress
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

from hekla.node import records
from hekla.node import syscalls as sys_
from hekla.node.links import Links
from hekla.node.pause import HELD_NAMESPACE, POD_LINK, fork_pause
from hekla.node.pod_network import choose_network, host_networks
from hekla.node.uplink import Keeper, Outgoing, Way, apply_rules, choose_way, fork_keeper, rules
from hekla.node.user_ids import enter_user_namespace, mapped_ids

BRIDGE = "hekla0"
SOCKET = "switch.sock"
RECORD = "switch.json"
LOCK = "switch.lock"
DNS_PORT = 53
_BRIDGE_HARDWARE = "02:68:65:6b:6c:61"  # locally administered
_MESSAGE_BYTES = 64 * 1024
_NFT_SECONDS = 5.0


def main() -> None:
    data_dir, outgoing = Path(sys.argv[1]), cast("Outgoing", sys.argv[2])
    # Nobody's child: the agent that started us comes and goes.
    if os.fork():
        os._exit(0)
    lock = os.open(data_dir / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    # Held for life. One that is just being killed lets go in a moment. The file stays, whoever sweeps: a switch with a
    # lock of its own would take socket and record away from the one before it, which nobody would know of any more.
    fcntl.flock(lock, fcntl.LOCK_EX)
    switch = Switch(data_dir, choose_way(outgoing))
    listener = switch.open()
    # If nobody hears this any more we end here: a sweep may have come before our record.
    os.write(1, b"ready\n")
    _detach()
    switch.serve(listener)


@dataclass(frozen=True)
class _Pause:
    process: records.ProcessId
    address: str


@dataclass
class Switch:
    data_dir: Path
    way_out: Way
    _network: ipaddress.IPv4Network = field(init=False)
    _pauses: dict[str, _Pause] = field(init=False, default_factory=dict)
    _shared: dict[str, socket.socket] = field(init=False, default_factory=dict)
    _links: Links = field(init=False)
    _last_address: int = field(init=False, default=1)
    _rules: str = field(init=False, default="unknown")

    def open(self) -> socket.socket:
        """Make the network, or take over the one that pods still hold. Then listen."""
        keeper = fork_keeper(self.way_out, self.data_dir) if self.way_out else None
        found = self._living_pauses()
        known = records.read(str(self.data_dir / RECORD)) or {}
        if found:
            self._network = ipaddress.IPv4Network(known["network"])
            _enter_held_namespaces(next(iter(found.values())).process["pid"])
        else:
            self._network = choose_network(host_networks(), known.get("network"))
            _make_namespaces()
        self._pauses = found
        self._links = Links()
        if not found:
            self._make_bridge()
            self._rules = ""
        if keeper is not None:
            self._open_way_out(keeper)
        listener = _listen(self.data_dir)
        records.write(
            str(self.data_dir / RECORD),
            {
                "process": records.process_id(os.getpid()),
                "network": str(self._network),
                "gateway": self.gateway,
                "user_namespace": os.geteuid() == 0 and _owner() != 0,
                "ids": mapped_ids(),
                "nft": _find_nft() is not None,
                "outgoing": self.way_out,
                "keeper": keeper.process if keeper and self.way_out else None,
            },
            durable=False,
        )
        return listener

    def _open_way_out(self, keeper: Keeper) -> None:
        try:
            apply_rules(rules())
            keeper.begin()
        except OSError:
            # Pods reach each other all the same.
            traceback.print_exc()
            keeper.dismiss()
            self.way_out = ""

    @property
    def gateway(self) -> str:
        return str(self._network.network_address + 1)

    def serve(self, listener: socket.socket) -> NoReturn:
        """One request at a time, for ever."""
        signal.signal(signal.SIGCHLD, _reap)
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(5)
                try:
                    self._answer(connection)
                except Exception as error:
                    # The loop that must survive: one request's trouble must not cost the others their network.
                    traceback.print_exc()
                    _reply(connection, {"error": str(error)})

    def _answer(self, connection: socket.socket) -> None:
        message, descriptors, _, _ = socket.recv_fds(connection, _MESSAGE_BYTES, 1)
        if not message:
            return  # somebody only looked whether we are here
        request = json.loads(message)
        match request["op"]:
            case "sandbox":
                pause = self._sandbox(request["uid"], request["hostname"])
                answer = {"process": pause.process, "address": pause.address, "rules": self._rules}
                _reply(connection, answer)
            case "rules":
                _set_rules(descriptors[0])
                self._rules = request["id"]
                _reply(connection, {})
            case "remove":
                self._remove(request["uid"])
                _reply(connection, {})
            case "socket":
                with self._socket(request.get("uid")) as made:
                    _reply(connection, {}, [made])
            case "dns":
                sockets = [self._dns_socket(kind) for kind in ("udp", "tcp")]
                _reply(connection, {"address": self.gateway}, sockets)
            case "listen":
                _reply(connection, {}, [self._service_socket(request["address"], request["port"])])
            case other:
                _reply(connection, {"error": f"unknown request {other!r}"})

    def _sandbox(self, uid: str, hostname: str) -> _Pause:
        known = self._pauses.get(uid)
        if known is not None and records.is_alive(known.process):
            return known
        self._remove(uid)
        address = known.address if known is not None else self._free_address()
        forked = fork_pause(hostname)
        try:
            self._link(uid, forked.pid)
            forked.configure(address, self.gateway)
            pause = _Pause(records.process_id(forked.pid), address)
            record = {"process": pause.process, "address": address}
            records.write(str(self.data_dir / "pods" / uid / "sandbox.json"), record, durable=False)
            forked.release()
        except Exception:
            forked.kill()
            self._links.delete(link_name(uid))
            raise
        finally:
            forked.close()
        self._pauses[uid] = pause
        return pause

    def _socket(self, uid: str | None) -> socket.socket:
        """A TCP socket in our own network, or in a pod's."""
        if uid is None:
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        pause = self._pauses.get(uid)
        if pause is None or not records.is_alive(pause.process):
            raise OSError(0, "the pod's sandbox is gone")
        own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        theirs = os.open(f"/proc/{pause.process['pid']}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            sys_.setns(theirs, sys_.CLONE_NEWNET)
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        finally:
            sys_.setns(own, sys_.CLONE_NEWNET)
            os.close(own)
            os.close(theirs)

    def _remove(self, uid: str) -> None:
        # The cable first: with the pause goes the pod's end of it, and then ours, at a time of the kernel's choice.
        self._links.delete(link_name(uid))
        pause = self._pauses.pop(uid, None)
        if pause is not None:
            _kill(pause.process)

    def _link(self, uid: str, pid: int) -> None:
        self._links.add_cable(link_name(uid), POD_LINK, pid)
        # Pods speak to the bridge and not to each other: everything passes the rules, raw frames too.
        self._links.plug_in(link_name(uid), BRIDGE)

    def _free_address(self) -> str:
        """The next address never used since the start, so that a name looked up late does not reach a stranger."""
        taken = {pause.address for pause in self._pauses.values()}
        size = self._network.num_addresses
        for step in range(1, size):
            offset = (self._last_address + step) % size
            address = str(self._network.network_address + offset)
            if 1 < offset < size - 1 and address not in taken:
                self._last_address = offset
                return address
        raise OSError(0, f"no free address in {self._network}")

    def _dns_socket(self, kind: str) -> socket.socket:
        """Shared by all agents: each question is read, and answered, by one of those that are there."""
        if kind not in self._shared:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
            # Agents may still hold the sockets of a switch that was killed; both may answer until they change over.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            made.setblocking(False)
            made.bind((self.gateway, DNS_PORT))
            if kind == "tcp":
                made.listen(64)
            self._shared[kind] = made
        return self._shared[kind]

    def _service_socket(self, address: str, port: int) -> socket.socket:
        """One that listens at a cluster address, which becomes ours; shared by all agents."""
        key = f"{address}:{port}"
        if key not in self._shared:
            self._links.add_address(BRIDGE, address, 32)
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            # As with DNS: agents may still hold that of a switch that was killed.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            made.setblocking(False)
            made.bind((address, port))
            made.listen(128)
            self._shared[key] = made
        return self._shared[key]

    def _make_bridge(self) -> None:
        # An address of its own: otherwise it takes that of a port, and changes it whenever pods come and go.
        self._links.add_bridge(BRIDGE, _BRIDGE_HARDWARE)
        self._links.add_address(BRIDGE, self.gateway, self._network.prefixlen)
        self._links.bring_up(BRIDGE)
        self._links.bring_up("lo")
        # Where the kernel lets rules for routed packets see bridged ones too, a Service's would apply too early.
        early = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
        if early.exists():
            early.write_text("0")
        # What comes in from a pod and goes out to another takes the same interface: that is how it is meant.
        Path("/proc/sys/net/ipv4/conf/all/send_redirects").write_text("0")
        Path(f"/proc/sys/net/ipv4/conf/{BRIDGE}/send_redirects").write_text("0")
        # In our own namespace: what has no way out is answered "unreachable" at once instead of being swallowed.
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def _living_pauses(self) -> dict[str, _Pause]:
        found = {}
        for path in sorted(self.data_dir.glob("pods/*/sandbox.json")):
            record = records.read(str(path))
            if record and records.is_alive(record["process"]):
                found[path.parent.name] = _Pause(record["process"], record["address"])
        return found


def link_name(uid: str) -> str:
    """A name for the switch's end of a pod's cable; the kernel allows 15 bytes."""
    return "v" + uid.replace("-", "")[:13]


def _make_namespaces() -> None:
    if os.geteuid() != 0:
        enter_user_namespace()
    sys_.unshare(sys_.CLONE_NEWNET)


def _enter_held_namespaces(pause: int) -> None:
    network = os.open(f"/proc/{pause}/fd/{HELD_NAMESPACE}", os.O_RDONLY)
    if os.geteuid() != 0:
        user = os.open(f"/proc/{pause}/ns/user", os.O_RDONLY)
        sys_.setns(user, sys_.CLONE_NEWUSER)
        os.close(user)
        sys_.prctl(sys_.PR_SET_DUMPABLE, 1)
    sys_.setns(network, sys_.CLONE_NEWNET)
    os.close(network)


def _owner() -> int:
    """The uid, outside, that our uid 0 stands for."""
    return int(Path("/proc/self/uid_map").read_text().split()[1])


def _listen(data_dir: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    directory = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
    # Through the descriptor: a socket's path may have 107 bytes only, a data directory's more.
    path = f"/proc/self/fd/{directory}/{SOCKET}"
    (data_dir / SOCKET).unlink(missing_ok=True)
    listener.bind(path)
    (data_dir / SOCKET).chmod(0o600)
    os.close(directory)
    listener.listen(64)
    return listener


def _find_nft() -> str | None:
    return shutil.which("nft", path="/usr/sbin:/sbin:/usr/local/sbin:/usr/bin:/bin")


def _set_rules(descriptor: int) -> None:
    """Have nft put the rules in force, all or none; `descriptor` is the file they are in."""
    program = _find_nft()
    if program is None:
        raise OSError(0, "the program nft (Debian's package nftables) is not on this machine")
    # While we wait for it ourselves nobody else may.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        done = subprocess.run([program, "-f", "-"], stdin=descriptor, capture_output=True, timeout=_NFT_SECONDS)
    finally:
        os.close(descriptor)
        signal.signal(signal.SIGCHLD, _reap)
        _reap()
    if done.returncode:
        raise OSError(0, f"nft: {done.stderr.decode(errors='replace').strip()[:500]}")


def _kill(process: records.ProcessId) -> None:
    descriptor = records.open_process(process)
    if descriptor is not None:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)


def _reap(*_: object) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _reply(connection: socket.socket, answer: dict[str, Any], sockets: list[socket.socket] | None = None) -> None:
    rights = array.array("i", [each.fileno() for each in sockets or ()])
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else []
    try:
        connection.sendmsg([json.dumps(answer).encode()], ancillary)
    except OSError:
        pass  # the agent has gone away; it will ask again


def _detach() -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)


if __name__ == "__main__":
    main()
