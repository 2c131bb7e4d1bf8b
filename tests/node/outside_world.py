"""A machine with a network of its own, and a world behind it: for tests that must not touch this machine's.

Run as root: `python outside_world.py`. It enters a network and mount namespace with one interface, whose other end is
in a second namespace where the world answers: TCP on 203.0.113.5:8080 (with the caller's address) and DNS (all names
are 203.0.113.5). Says `ready` and stays until its standard input closes.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
import threading
from pathlib import Path

from dnslib import QTYPE, RR, A, DNSRecord

from hekla.node import syscalls as sys_
from hekla.node.links import Links

WORLD, PORT = "203.0.113.5", 8080


def main() -> None:
    sys_.unshare(sys_.CLONE_NEWNET | sys_.CLONE_NEWNS)
    sys_.mount(None, "/", None, sys_.MS_REC | sys_.MS_PRIVATE)
    sys_.mount("hekla", "/run", "tmpfs", 0, "mode=755")
    resolv = Path("/run/resolv.conf")
    resolv.write_text(f"nameserver {WORLD}\n")
    # What the machine says of its network must be this network's.
    sys_.bind(str(resolv), "/etc/resolv.conf")
    # As udev makes it; some machines have it for root alone.
    sys_.mount("hekla", "/dev/net", "tmpfs", 0, "mode=755")
    os.mknod("/dev/net/tun", stat.S_IFCHR | 0o666, os.makedev(10, 200))
    Path("/dev/net/tun").chmod(0o666)
    machine, world_end = socket.socketpair()
    world = os.fork()
    if world == 0:
        sys_.unshare(sys_.CLONE_NEWNET)
        be_the_world(world_end)
    machine.recv(1)
    with Links() as links:
        links.add_cable("lan", "lan", world)
        configure(links, "198.51.100.2")
        links.add_default_route("198.51.100.1")
    machine.sendall(b"1")
    machine.recv(1)
    print("ready", flush=True)
    sys.stdin.read()
    os.kill(world, 9)


def be_the_world(machine: socket.socket) -> None:
    machine.sendall(b"1")
    machine.recv(1)
    with Links() as links:
        configure(links, "198.51.100.1")
        links.add_address("lo", WORLD, 32)
    server = socket.create_server(("", PORT))
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind((WORLD, 53))
    threading.Thread(target=answer_names, args=(names,), daemon=True).start()
    machine.sendall(b"1")
    while True:
        peer, address = server.accept()
        peer.sendall(address[0].encode())
        peer.close()


def answer_names(names: socket.socket) -> None:
    while True:
        question, address = names.recvfrom(4096)
        reply = DNSRecord.parse(question).reply()
        if reply.q.qtype == QTYPE.A:
            reply.add_answer(RR(reply.q.qname, QTYPE.A, rdata=A(WORLD), ttl=1))
        names.sendto(reply.pack(), address)


def configure(links: Links, address: str) -> None:
    links.bring_up("lo")
    links.bring_up("lan")
    links.add_address("lan", address, 24)


main()
