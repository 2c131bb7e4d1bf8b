"""Members of a cluster that only find each other: what can be checked of a TensorFlow job without TensorFlow.

Every member answers on its port with its host name. A worker asks all members by name, tells a parameter server that
it has, and ends when all workers have; a parameter server goes on.
"""

from __future__ import annotations

import socket
import threading
import time

PORT = 2222
done: list[socket.socket] = []


def meet(ps: list[str], workers: list[str], role: str) -> None:
    server = socket.create_server(("", PORT))
    serving = threading.Thread(target=serve, args=(server, len(workers)), daemon=role != "ps")
    serving.start()
    if role == "worker":
        for address in [*ps, *workers]:
            print(f"{address} is {ask(address, 'who')}", flush=True)
        ask(ps[0], "done")


def serve(server: socket.socket, workers: int) -> None:
    while True:
        peer, _ = server.accept()
        if peer.recv(16) == b"who":
            peer.sendall(socket.gethostname().encode())
            peer.close()
            continue
        done.append(peer)
        if len(done) == workers:
            for each in done:
                each.sendall(b"all")


def ask(address: str, question: str) -> str:
    host, _, port = address.partition(":")
    deadline = time.monotonic() + 240
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=60) as peer:
                peer.sendall(question.encode())
                return peer.recv(256).decode()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
