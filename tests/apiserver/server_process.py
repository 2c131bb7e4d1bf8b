"""Runs the API server as a program of its own: `python server_process.py DATA_DIR`; prints the port when ready."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from pathlib import Path

from hekla.apiserver.access.authentication import hash_token
from hekla.apiserver.access.user import ADMIN
from hekla.apiserver.server import ApiServerSettings, run
from hekla.apiserver.sockets import open_sockets
from hekla.clock import SystemClock
from hekla.local.credentials import ensure_credentials


async def main(directory: Path) -> None:
    (directory / "credentials").mkdir(parents=True, exist_ok=True, mode=0o700)
    credentials = ensure_credentials(directory / "credentials", clock=SystemClock(), rng=random.SystemRandom())
    sockets = open_sockets(directory / "run" / "api.sock", 0)
    settings = ApiServerSettings(
        database=directory / "state" / "db",
        sockets=sockets,
        tls_certificate=credentials.server.certificate,
        tls_key=credentials.server.key,
        holders={hash_token(credentials.token.read_text().strip()): ADMIN},
        signing_key=credentials.signing_key,
        root_ca=credentials.ca,
        kubelet_ca=credentials.ca,
        kubelet_client_certificate=credentials.kubelet_client.certificate,
        kubelet_client_key=credentials.kubelet_client.key,
    )
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await run(
            settings,
            clock=SystemClock(),
            rng=random.SystemRandom(),
            ready=lambda: print(sockets.port, flush=True),
        )
    finally:
        sockets.close()


if __name__ == "__main__":
    import uvloop

    try:
        uvloop.run(main(Path(sys.argv[1])))
    except asyncio.CancelledError:
        sys.exit(0)
