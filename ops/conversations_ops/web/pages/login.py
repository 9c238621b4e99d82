"""Logging in and out."""

from __future__ import annotations

import logging
import math
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from conversations_ops.printable import one_line
from conversations_ops.web.desk import Desk
from conversations_ops.web.guard import COOKIE, network
from conversations_ops.web.rendering import Pages
from conversations_ops.web.users import LONGEST, User, Users

log = logging.getLogger("conversations.ops")
Text = Annotated[str, Form(max_length=LONGEST)]


def routes(desk: Desk, pages: Pages, *, secure: bool) -> APIRouter:
    """Return the pages to log in and out. ``secure`` is True if the console is reached over TLS."""
    router = APIRouter()

    @router.get("/login")
    def login(
        request: Request, to: Annotated[str, Query(alias="next", max_length=2_000)] = "/", link: str = ""
    ) -> Response:
        user = desk.links.use(link) if desk.links is not None and link else None
        if user is not None:
            return begun(user, to)
        trouble = "This link is used up. The console has printed a new one." if link else ""
        return pages.page(
            request, "login.html", 403 if link else 200, to=_local(to), trouble=trouble, by_link=desk.users is None
        )

    @router.post("/login")
    def log_in(
        request: Request,
        name: Text = "",
        password: Text = "",
        to: Annotated[str, Form(alias="next", max_length=2_000)] = "/",
    ) -> Response:
        if desk.users is None:
            return pages.page(request, "login.html", 403, to="/", trouble="", by_link=True)
        if not desk.log_ins.acquire(blocking=False):
            return later(request, to, "Too many people log in at this moment. Try again.", 1)
        try:
            return checked(request, desk.users, name, password, to)
        finally:
            desk.log_ins.release()

    @router.post("/logout")
    def log_out(request: Request) -> Response:
        desk.sessions.end(request.state.token)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer

    def checked(request: Request, users: Users, name: str, password: str, to: str) -> Response:
        address = network(request.client.host if request.client else "")
        whom = f"name {name}", f"address {address}"
        left = math.ceil(desk.pauses.attempt(*whom))
        if left:
            return later(request, to, f"Too many wrong passwords. Try again in {left} s.", left)
        with desk.checks:
            user = users.check(name, password)
        if user is None:
            log.warning("a wrong password for %s from %s", one_line(name), address)
            trouble = "The name or the password is wrong."
            return pages.page(request, "login.html", 403, to=_local(to), trouble=trouble, by_link=False)
        log.info("%s has logged in from %s", user.name, address)
        desk.pauses.right(*whom)
        return begun(user, to)

    def later(request: Request, to: str, trouble: str, seconds: int) -> Response:
        page = pages.page(request, "login.html", 429, to=_local(to), trouble=trouble, by_link=False)
        page.headers["retry-after"] = str(seconds)
        return page

    def begun(user: User, to: str) -> Response:
        answer = RedirectResponse(_local(to), 303)
        answer.set_cookie(COOKIE, desk.sessions.begin(user), httponly=True, samesite="strict", secure=secure, path="/")
        return answer

    return router


def _local(to: str) -> str:
    """Return an address of this console; the overview if the address may lead elsewhere."""
    safe = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable() and "\\" not in to
    return to if safe else "/"
