"""The socket on which the web console listens."""

from __future__ import annotations

import asyncio
import socket

from conversations_ops.web.server import Listen, bound


def test_what_is_written_to_a_connection_leaves_at_once() -> None:
    """Else the body of a page waits until the browser has confirmed its head, which takes 40 ms."""
    said: asyncio.Queue[int] = asyncio.Queue()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said.put_nowait(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def main() -> int:
        with bound(Listen("127.0.0.1", 0)) as listening:
            async with await asyncio.start_server(serve, sock=listening):
                _, writer = await asyncio.open_connection(*listening.getsockname())
                found = await asyncio.wait_for(said.get(), 10)
                writer.close()
                return found

    assert asyncio.run(main()) == 1
