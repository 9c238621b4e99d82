"""Stands before every page: limits sizes and rates, finds the session, refuses other sites and viewers who act, and adds headers."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conversations_ops.web.sessions import Session, Sessions
from conversations_ops.web.users import User

COOKIE = "conversations-session"
LARGEST = 3_000_000
"""Maximum number of bytes of a request's body. A message's body is smaller, also when it is written as a form."""
STRANGER = 10_000
"""Maximum number of bytes of the body of a request without a session: a name and a password."""
PATIENCE = 10.0
"""Seconds that the body of a request may take."""
SPEED = 10_000
"""Bytes for which a body may take one second more."""
LONGEST_COOKIES = 16_000
"""Maximum number of characters of all cookies that are read."""
FORM = "application/x-www-form-urlencoded"
"""The only content type of a form. Others, which may have files and odd encodings, are refused."""
BURST, PER_SECOND = 240, 40
"""Requests that an address may send at once, and in each second after that."""
ADDRESSES = 1_000
"""Maximum number of addresses whose rates are remembered."""
PUBLIC = ("/login", "/health")
"""Pages that need no session, beside the style sheet and the script: the form to log in, and the state of the process."""
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Refused(HTTPException):
    """The body of a request is too large or too slow."""


class Guard:
    """ASGI middleware in front of the pages.

    Args:
        app: the pages.
        sessions: the sessions of users who have logged in.
        knows: returns True if a user is still one.
        public: pages that need no session.
        secure: True if the console is reached over TLS.
        clock: seconds, for the rates.
    """

    def __init__(
        self,
        app: ASGIApp,
        sessions: Sessions,
        knows: Callable[[User], bool],
        *,
        public: Collection[str] = PUBLIC,
        secure: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._sessions, self._knows, self._secure = app, sessions, knows, secure
        self._public = public
        self._rates = Rates(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        client = scope.get("client")
        if not self._rates.allows(network(client[0] if client else "")):
            await self._answer(PlainTextResponse("too many requests", 429, {"retry-after": "1"}), scope, receive, send)
            return
        token = _token(headers)
        session = self._sessions.find(token, used=headers.get("x-live") is None) if token else None
        if session is not None and not self._knows(session.user):
            self._sessions.end(token)
            session = None
        scope.setdefault("state", {}).update(session=session, token=token)
        refusal = _refusal(scope, headers, session, self._public)
        if refusal is not None:
            await self._answer(refusal, scope, receive, send)
            return
        await self._pass(scope, _limited(receive, STRANGER if session is None else LARGEST), send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = False

        async def noting(message: Message) -> None:
            nonlocal began
            began = began or message["type"] == "http.response.start"
            await self._with_headers(scope, send)(message)

        try:
            await self._app(scope, receive, noting)
        except Refused as error:
            if not began:
                await self._answer(PlainTextResponse(error.detail, error.status_code), scope, receive, send)

    async def _answer(self, response: Response, scope: Scope, receive: Receive, send: Send) -> None:
        await response(scope, receive, self._with_headers(scope, send))

    def _with_headers(self, scope: Scope, send: Send) -> Callable[[Message], Any]:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                is_file = scope["path"].startswith("/static/")
                headers["cache-control"] = "max-age=3600" if is_file else "no-store"
                if self._secure:
                    headers["strict-transport-security"] = "max-age=31536000"
            await send(message)

        return sending


def _token(headers: Headers) -> str:
    # Cookies of other programs on this machine come too, because a browser does not tell ports apart. They may be malformed.
    return cookie_parser(headers.get("cookie", "")[:LONGEST_COOKIES]).get(COOKIE, "")


def _refusal(scope: Scope, headers: Headers, session: Session | None, public: Collection[str]) -> Response | None:
    """Return the answer to a request that no page may see; None if it may pass."""
    reads, path = scope["method"] in ("GET", "HEAD"), str(scope["path"])
    size, limit = headers.get("content-length", "0"), STRANGER if session is None else LARGEST
    if not size.isdecimal() or len(size) > 10 or int(size) > limit:
        return PlainTextResponse(_too_large(limit), 413)
    if "transfer-encoding" in headers and "content-length" in headers:
        # A proxy in front may take the other of the two for the length, and the rest for the request of somebody else.
        return PlainTextResponse("a request has one length", 400, {"connection": "close"})
    if not reads and _is_foreign(headers):
        return PlainTextResponse("this form was not sent by a page of this console", 403)
    if not reads and headers.get("content-type", FORM).partition(";")[0].strip().lower() != FORM:
        return PlainTextResponse(f"a form has the content type {FORM}", 415)
    if path in public or path.startswith("/static/"):
        return None
    if session is None:
        if reads and headers.get("x-live") is None:
            query = scope["query_string"].decode("latin-1")
            return RedirectResponse(f"/login?next={quote(path + (f'?{query}' if query else ''), safe='')}", 303)
        return PlainTextResponse("log in first", 401)
    if not reads and path != "/logout" and not session.user.decides:
        return PlainTextResponse(f"{session.user.name} is a viewer, and viewers change nothing", 403)
    return None


def _is_foreign(headers: Headers) -> bool:
    """Return True if a browser says that another site has sent the request."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None:
        return urlsplit(origin).netloc != headers.get("host", "")
    return site not in (None, "same-origin", "none")


def _too_large(limit: int) -> str:
    return f"a request has at most {limit:,} bytes" + (" before you log in" if limit == STRANGER else "")


def _limited(receive: Receive, limit: int) -> Receive:
    read, more, began = 0, True, time.monotonic()

    async def counting() -> Message:
        nonlocal read, more
        if not more:
            return await receive()  # tells that the browser is gone
        try:
            async with asyncio.timeout(max(began + PATIENCE + read / SPEED - time.monotonic(), 0)):
                message = await receive()
        except TimeoutError:
            raise Refused(408, "the request came too slowly") from None
        read += len(message.get("body", b""))
        more = bool(message.get("more_body"))
        if read > limit:
            raise Refused(413, _too_large(limit))
        return message

    return counting


def network(address: str) -> str:
    """Return what stands for an address: itself, or the first 64 bits of IPv6, of which one machine may have every address."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return address
    return str(found.ipv4_mapped or ip_network((int(found) >> 64 << 64, 64)))


class Rates:
    """How many requests each address may still send now."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Requests that an address has left, and when this was true."""

    def allows(self, address: str) -> bool:
        """Return True if the address may send a request now, and count it."""
        now = self._clock()
        left, at = self._left.pop(address, (float(BURST), now))
        left = min(left + (now - at) * PER_SECOND, BURST)
        self._left[address] = max(left - 1, 0.0), now
        while len(self._left) > ADDRESSES:
            self._left.popitem(last=False)
        return left >= 1
