"""A server that can no longer be reached, and says nothing: for tests that must not touch this machine's network.

Run in a network namespace of its own: `unshare -Urn python -m tests.client.cut_off stream|request`. Prints what its
client hears after the network has begun to swallow everything.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

from hekla.client.transport import HttpTransport, Request
from hekla.errors import Disconnected
from hekla.node.links import Links

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BEGINNING = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
SWALLOW = """
table inet cut {
  chain in {
    type filter hook input priority 0
    tcp dport %d drop
    tcp sport %d drop
  }
}
"""
SILENT_SECONDS = 2.0
LONGEST = 30.0


async def main(what: str) -> None:
    with Links() as links:
        links.bring_up("lo")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(BEGINNING if what == "stream" else WHOLE)
        await asyncio.Event().wait()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = HttpTransport(f"http://127.0.0.1:{port}", silent_seconds=SILENT_SECONDS)

    def cut_off() -> None:
        subprocess.run(["nft", "-f", "-"], input=SWALLOW % (port, port), text=True, check=True)

    try:
        async with asyncio.timeout(LONGEST):
            if what == "stream":
                async with transport.stream(Request("GET", "/", timeout=10 * LONGEST)) as answer:
                    async for _ in answer.chunks:
                        cut_off()
            else:
                # The first leaves a connection open, and the second goes out on it.
                await transport.send(Request("POST", "/", timeout=10 * LONGEST))
                cut_off()
                await transport.send(Request("POST", "/", timeout=10 * LONGEST))
    except Disconnected as error:
        print("disconnected:", error)
    except TimeoutError:
        print(f"nothing for {LONGEST:g} s")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
