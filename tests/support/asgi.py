"""Asks an ASGI application in this process, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.types import ASGIApp, Message

NONE: Mapping[str, str] = {}


class Answer(NamedTuple):
    """What the application answered."""

    status: int
    headers: dict[str, str]
    body: bytes


class Question(NamedTuple):
    """One request. ``parts`` are the pieces in which its body arrives."""

    path: str
    method: str = "GET"
    headers: Mapping[str, str] = NONE
    parts: Sequence[bytes] = (b"",)
    query: bytes = b""
    address: str = "1.2.3.4"


def answer(app: ASGIApp, question: Question) -> Answer:
    """Return the answer of an application."""
    return asyncio.run(_answer(app, question))


async def _answer(app: ASGIApp, it: Question) -> Answer:
    scope = {
        "type": "http", "method": it.method, "path": it.path, "raw_path": it.path.encode(), "root_path": "", "query_string": it.query,
        "client": (it.address, 1), "server": ("here", 1), "scheme": "http", "http_version": "1.1",
        "headers": [(name.encode(), value.encode()) for name, value in {"host": "here:1", **it.headers}.items()],
    }  # fmt: skip
    said: list[Message] = []
    left = list(it.parts)

    async def receive() -> Message:
        if not left:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: Message) -> None:
        said.append(message)

    await app(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in said[0]["headers"]}
    return Answer(said[0]["status"], headers, b"".join(part.get("body", b"") for part in said[1:]))
