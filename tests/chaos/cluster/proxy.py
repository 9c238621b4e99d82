"""The network of a cluster, in one thread: every connection between brokers, and from clients, goes through it.

A broker introduces itself in its first request: Kafka's client ids of brokers hold their number. So bytes can be lost in one
direction between two hosts whichever of them has opened the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Any, Self

from conversations_ops.broker.server import HOST

CLIENTS = "clients"
"""The host all clients are on: workers, whoever sends, Spark."""
UNKNOWN = "unknown"
"""A broker that did not say which."""
CHUNK = 1 << 16
STARTING = 10.0
"""Seconds the thread may take to listen, or to hear of a trouble."""
_HEAD = struct.Struct(">ihhih")
"""Of a request: its length, what it asks for, in which version, its number, and the length of the client's id."""
_NUMBER = re.compile(rb"\d+")

Way = tuple[str, str]
"""From which host to which."""


@dataclass(frozen=True)
class Route:
    """Where to listen, and to whom what comes there is passed on."""

    listen: int
    target: int
    host: str
    """The target's."""
    brokers: bool
    """Only brokers come here, and say who they are; else clients."""


class Effect(Enum):
    """What a trouble does to bytes."""

    CUT = "cut"
    """Connections are reset and refused."""
    LOST = "lost"
    """Nothing arrives while it lasts."""
    SLOW = "slow"
    """All of it arrives late."""


@dataclass(frozen=True, eq=False)
class Trouble:
    """One thing that is wrong with the network; made, begun and ended by whoever does the harm."""

    ways: frozenset[Way]
    effect: Effect
    latency: float = 0.0
    """Seconds by which bytes come late."""
    resets: bool = False
    """Bytes that were lost stay lost: their connections are reset when it ends. Else they arrive then, as TCP repeats them."""
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Broken(Exception):
    """A connection cannot go on."""


@dataclass(eq=False)
class Link:
    """A connection, from who opened it to the other."""

    way: Way
    writers: list[asyncio.StreamWriter]

    @property
    def ways(self) -> set[Way]:
        """Both."""
        return {self.way, self.way[::-1]}

    def abort(self) -> None:
        """Reset it."""
        for writer in self.writers:
            writer.transport.abort()


class Proxy:
    """Passes connections on, as well as its troubles allow; a context manager."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = list(routes)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._links: set[Link] = set()
        self._troubles: list[Trouble] = []
        self.counts: Counter[str] = Counter()
        """What became of connections."""
        self.strangers: Counter[str] = Counter()
        """Client ids of brokers that do not say which broker."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._ask(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ask(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def begin(self, trouble: Trouble) -> None:
        """Let a trouble begin."""
        self._ask(self._begin(trouble))

    def end(self, trouble: Trouble) -> None:
        """Let it be over; harmless when it is."""
        self._ask(self._end(trouble))

    def _ask(self, what: Any) -> None:
        future: Future[None] = asyncio.run_coroutine_threadsafe(what, self._loop)
        future.result(STARTING)

    # -- in the thread ------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        for route in self._routes:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, route: Route = route) -> None:
                await self._serve(route, reader, writer)

            self._servers.append(await asyncio.start_server(serve, HOST, route.listen))

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for trouble in list(self._troubles):
            await self._end(trouble)
        for link in list(self._links):
            link.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _begin(self, trouble: Trouble) -> None:
        self._troubles.append(trouble)
        if trouble.effect is Effect.CUT:
            for link in [link for link in self._links if link.ways & trouble.ways]:
                self.counts["connections cut"] += 1
                link.abort()

    async def _end(self, trouble: Trouble) -> None:
        if trouble in self._troubles:
            self._troubles.remove(trouble)
        trouble.over.set()

    async def _serve(self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link((CLIENTS, route.host), [writer])
        # Its task is nobody's: cancelled when the proxy is closed, it ends without a word.
        with contextlib.suppress(Broken, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                await self._connect(route, link, reader)
            finally:
                self._links.discard(link)
                link.abort()

    async def _connect(self, route: Route, link: Link, reader: asyncio.StreamReader) -> None:
        first = b""
        if route.brokers:
            first, source = await self._introduction(reader)
            link.way = source, route.host
        self.counts["connections"] += 1
        self._links.add(link)
        if any(trouble.effect is not Effect.SLOW for trouble in self._on(link.ways)):
            await self._attempt(link)
        there_reader, there = await asyncio.open_connection(HOST, route.target)
        link.writers.append(there)
        there.write(first)
        pumps = [
            asyncio.ensure_future(self._pump(link.way, reader, there)),
            asyncio.ensure_future(self._pump(link.way[::-1], there_reader, link.writers[0])),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _introduction(self, reader: asyncio.StreamReader) -> tuple[bytes, str]:
        head = await reader.readexactly(_HEAD.size)
        *_, length = _HEAD.unpack(head)
        name = await reader.readexactly(max(0, length))
        number = _NUMBER.search(name)
        if number is None:
            self.strangers[name.decode(errors="replace")] += 1
        return head + name, number[0].decode() if number else UNKNOWN

    async def _attempt(self, link: Link) -> None:
        """Let an attempt to connect fail: at once where the way is cut, else when it is no longer of interest."""
        for trouble in self._on(link.ways):
            if trouble.effect is Effect.LOST:
                self.counts["connections that hung"] += 1
                await trouble.over.wait()
        raise Broken

    async def _pump(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self._travel(way)
            writer.write(data)
            await writer.drain()
        await self._travel(way)

    async def _travel(self, way: Way) -> None:
        for trouble in self._on({way}):
            if trouble.effect is Effect.SLOW:
                await asyncio.sleep(trouble.latency)
        while lost := [trouble for trouble in self._on({way}) if trouble.effect is Effect.LOST]:
            self.counts["bytes held"] += 1
            await lost[0].over.wait()
            if lost[0].resets:
                self.counts["connections reset"] += 1
                raise Broken

    def _on(self, ways: set[Way]) -> list[Trouble]:
        return [trouble for trouble in self._troubles if trouble.ways & ways]
