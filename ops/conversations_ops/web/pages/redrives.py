"""Redrives: make a plan, start it, see its progress, stop it, resume it."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from conversations.errors import DeclarationError, LogError
from conversations_ops.operate.redrive.drive import stop
from conversations_ops.operate.redrive.outcomes import Outcome
from conversations_ops.operate.redrive.plan import Care
from conversations_ops.operate.redrive.selection import Selector
from conversations_ops.read_model.redrives import plan as plan_of
from conversations_ops.read_model.redrives import redrive, redrives, refuse_stopped
from conversations_ops.web.desk import Desk
from conversations_ops.web.rendering import Pages, session_of

Reason = Annotated[str, Form(max_length=500)]


def routes(desk: Desk, pages: Pages) -> APIRouter:
    """Return the pages about redrives."""
    router = APIRouter()

    @router.get("/redrives")
    def every(request: Request) -> Response:
        with desk.live.file() as file:
            found = redrives(file)
        return pages.page(request, "redrives.html", redrives=[(it, it.state(_now())) for it in reversed(found)])

    @router.post("/redrives")
    def plan(
        request: Request,
        service: Annotated[str, Form(max_length=128)],
        exception: Annotated[str, Form(max_length=500)] = "",
        what: Annotated[str, Form(max_length=500)] = "",
        canary: Annotated[int, Form(ge=0, le=1_000)] = 3,
        rate: Annotated[float, Form(ge=0.01, le=10_000)] = 20.0,
        max_returns: Annotated[int, Form(ge=1, le=1_000)] = 3,
    ) -> Response:
        session = session_of(request)
        try:
            made = desk.redrives.make(
                Selector(service, exception, what), Care(canary, rate, max_returns), session.user.name
            )
        except (LogError, DeclarationError) as error:
            desk.notices.leave(session, "bad", str(error))
            return RedirectResponse("/redrives", 303)
        if not made.letters:
            out = f" {made.left_out} were given back {max_returns} times or more before." if made.left_out else ""
            desk.notices.leave(session, "bad", f"No held message matches.{out}")
            return RedirectResponse("/letters", 303)
        return RedirectResponse(f"/redrives/{made.redrive}", 303)

    _one(desk, pages, router)
    _acting(desk, router)
    return router


def _one(desk: Desk, pages: Pages, router: APIRouter) -> None:
    @router.get("/redrives/{name}")
    def one(request: Request, name: str) -> Response:
        made, trouble = None, "Its plan is in a file of an older release."
        with desk.live.file() as file:
            found = redrive(file, name)
            try:
                made = plan_of(file, name)
            except DeclarationError as error:
                trouble = f"Its plan cannot be read: {error}"
        if found is None:
            raise HTTPException(404, f"There is no redrive {name[:40]}.")
        total = found.letters or (len(made.letters) if made is not None else 0)
        over = sum(found.outcomes.get(it.value, 0) for it in Outcome if it.final)
        return pages.page(
            request,
            "redrive.html",
            name=name,
            made=made,
            trouble=trouble,
            found=found,
            state=found.state(_now()),
            total=total,
            over=over,
        )


def _acting(desk: Desk, router: APIRouter) -> None:
    @router.post("/redrives/{name}/start")
    def start(request: Request, name: str, reason: Reason = "") -> Response:
        session = session_of(request)
        try:
            with desk.live.file() as file:
                made = plan_of(file, name)
        except DeclarationError as error:
            raise HTTPException(409, f"The plan of {name[:40]} cannot be read: {error}") from error
        if made is None:
            raise HTTPException(404, f"There is no plan {name[:40]}.")
        desk.carry_out(session, reason, lambda: desk.redrives.start(made, session.user.name, reason.strip()))
        return RedirectResponse(f"/redrives/{made.redrive}", 303)

    @router.post("/redrives/{name}/stop")
    def halt(request: Request, name: str, reason: Reason = "") -> Response:
        session = session_of(request)

        def act() -> tuple[str, str]:
            with desk.live.file() as file:
                refuse_stopped(file, name)
            stop(desk.kafka, name, session.user.name, reason.strip())
            return "good", "The redrive was asked to stop. Messages that were given back are still handled."

        desk.carry_out(session, reason, act)
        return RedirectResponse("/redrives" if not name.startswith("rd-") else f"/redrives/{name[:40]}", 303)


def _now() -> int:
    return time.time_ns() // 1_000
