"""Redrives: make a plan, start it, see its progress, stop it, continue it."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from conversations.errors import DeclarationError, LogError
from conversations.protocol.events import RedriveEvent, decode_event
from conversations_ops.operate.redrive.drive import stop
from conversations_ops.operate.redrive.known import Known, known
from conversations_ops.operate.redrive.outcomes import Outcome
from conversations_ops.operate.redrive.plan import Care
from conversations_ops.operate.redrive.selection import Selector
from conversations_ops.read_model.events import redrive_events
from conversations_ops.web.desk import Desk
from conversations_ops.web.pages.decisions import LOOK
from conversations_ops.web.rendering import Pages, session_of

LOST = 10.0
"""Seconds without news after which a redrive does not run any more. One that runs tells its progress every two seconds."""
Reason = Annotated[str, Form(max_length=500)]


def routes(desk: Desk, pages: Pages) -> APIRouter:
    """Return the pages about redrives."""
    router = APIRouter()

    @router.get("/redrives")
    def every(request: Request) -> Response:
        found = {it.redrive: it for it in _known(desk)}
        waiting = [name for name in desk.redrives.plans() if name not in found]
        return pages.page(
            request, "redrives.html", redrives=sorted(found.values(), key=lambda it: it.started, reverse=True), waiting=waiting,
            final=[it.value for it in Outcome if it.final], lost=LOST * 1_000_000,
        )  # fmt: skip

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
        made = desk.redrives.plan(name)
        found = next((it for it in _known(desk) if it.redrive == name), None)
        if made is None and found is None:
            raise HTTPException(404, f"There is no redrive {name[:40]}.")
        total = found.letters if found is not None and found.letters else len(made.letters) if made is not None else 0
        outcomes = dict(found.outcomes) if found is not None else {Outcome.OPEN.value: total}
        over = sum(outcomes.get(it.value, 0) for it in Outcome if it.final)
        return pages.page(
            request, "redrive.html", name=name, made=made, found=found, total=total, outcomes=outcomes, over=over,
            runs=desk.redrives.runs(name) or (found is not None and found.end is None and not _is_lost(found)), was_started=made is not None and desk.redrives.was_started(name),
        )  # fmt: skip


def _is_lost(it: Known) -> bool:
    """Return True if the process that carried out a redrive has ended without a word, so that somebody must continue it."""
    return time.time() - it.news / 1_000_000 > LOST


def _acting(desk: Desk, router: APIRouter) -> None:
    @router.post("/redrives/{name}/start")
    def start(request: Request, name: str, reason: Reason = "") -> Response:
        session, made = session_of(request), desk.redrives.plan(name)
        if made is None:
            raise HTTPException(404, f"This console has no plan {name[:40]}. Continue it where it was made.")
        try:
            if not reason.strip():
                raise DeclarationError("Nothing was done: give a reason. It is in the journal.")
            desk.redrives.start(made, session.user.name, reason.strip())
        except DeclarationError as error:
            desk.notices.leave(session, "bad", str(error))
        desk.live.look_now(LOOK)
        return RedirectResponse(f"/redrives/{made.redrive}", 303)

    @router.post("/redrives/{name}/stop")
    def halt(request: Request, name: str, reason: Reason = "") -> Response:
        session = session_of(request)
        try:
            if not reason.strip():
                raise LogError("Nothing was done: give a reason. It is in the journal.")
            stop(desk.kafka, name, session.user.name, reason.strip())
        except LogError as error:
            desk.notices.leave(session, "bad", str(error))
        else:
            desk.notices.leave(
                session, "good", "The redrive was asked to stop. Messages that were given back are still handled."
            )
        desk.live.look_now(LOOK)
        return RedirectResponse("/redrives" if not name.startswith("rd-") else f"/redrives/{name[:40]}", 303)


def _known(desk: Desk) -> list[Known]:
    with desk.live.file() as file:
        told = redrive_events(file)
    found = (decode_event(it) for it in told)
    return known(it for it in found if isinstance(it, RedriveEvent))
