from __future__ import annotations

import asyncio
import errno
import socket

from hekla.tunnel import Stream, tunnel


async def line() -> tuple[Stream, Stream]:
    """The two ends of a connection."""
    one, other = socket.socketpair()
    return await asyncio.open_connection(sock=one), await asyncio.open_connection(sock=other)


def test_bytes_go_both_ways_until_a_side_ends() -> None:
    async def main() -> None:
        (client, near), (far, server) = await line(), await line()
        tunnelling = asyncio.create_task(tunnel(near, far))
        client[1].write(b"question" * 100_000)
        assert await server[0].readexactly(800_000) == b"question" * 100_000
        server[1].write(b"answer")
        assert await client[0].readexactly(6) == b"answer"
        client[1].close()
        await asyncio.wait_for(tunnelling, 10)
        for _, writer in (near, far, server):
            writer.close()

    asyncio.run(main())


def test_a_line_that_is_cut_ends_the_tunnel_and_is_nobodys_error() -> None:
    class Cut(asyncio.StreamReader):
        async def read(self, n: int = -1) -> bytes:
            raise OSError(errno.ETIMEDOUT, "Connection timed out")

    async def main() -> None:
        (client, near), (far, server) = await line(), await line()
        await asyncio.wait_for(tunnel((Cut(), near[1]), far), 10)
        for _, writer in (client, near, far, server):
            writer.close()

    asyncio.run(main())
