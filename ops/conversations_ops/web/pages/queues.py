"""Queues, and turning them off and on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from conversations.errors import LogError
from conversations.kafka.ownership import owned_partitions
from conversations.protocol.command import Switch
from conversations_ops.operate.queues import turn
from conversations_ops.printable import counted
from conversations_ops.read_model.queues import queues
from conversations_ops.read_model.status import statuses
from conversations_ops.web.desk import Desk
from conversations_ops.web.elsewhere import about, place_of
from conversations_ops.web.hidden import queues_for, statuses_for
from conversations_ops.web.pages.decisions import WAIT
from conversations_ops.web.rendering import Pages, session_of


def routes(desk: Desk, pages: Pages) -> APIRouter:
    """Return the pages about queues."""
    router = APIRouter()

    @router.get("/queues")
    def every(request: Request, cluster: str = "") -> Response:
        place = place_of(desk, cluster)
        with place.live.file() as file:
            found = statuses_for(session_of(request).user, statuses(file))
        return pages.page(request, "queues.html", services=found, **about(desk, place, lambda it: it.off))

    @router.get("/queues/{service}")
    def one(request: Request, service: str) -> Response:
        with desk.live.file() as file:
            found = queues_for(session_of(request).user, queues(file, service))
        if not found:
            raise HTTPException(404, f"There is no service {service[:128]}.")
        try:
            owned, trouble = owned_partitions(desk.kafka, service), ""
        except LogError as error:
            owned, trouble = None, str(error)
        return pages.page(request, "queue.html", service=service, queues=found, owned=owned, trouble=trouble)

    @router.post("/queues/{service}/{to}")
    def switch(request: Request, service: str, to: str, reason: Annotated[str, Form(max_length=500)] = "") -> Response:
        session = session_of(request)
        if to not in ("on", "off"):
            raise HTTPException(404, "A queue is turned on or off.")
        with desk.live.file() as file:
            count = len(queues(file, service))
        if not count:
            raise HTTPException(404, f"There is no service {service[:128]}.")

        def act() -> tuple[str, str]:
            turn(desk.kafka, service, Switch(to == "on", reason.strip()), session.user.name, WAIT)
            return "good", f"The queue of {service} is {to} in {counted(count, 'partition')}."

        desk.carry_out(session, reason, act)
        return RedirectResponse(f"/queues/{service}", 303)

    return router
