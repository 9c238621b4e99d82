"""Open letters: dead letters that no dialog waits for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Query, Request
from fastapi.responses import RedirectResponse, Response

from conversations_ops.operate.open_letters import Request as Wish
from conversations_ops.operate.open_letters import close
from conversations_ops.operate.reasons import WHY
from conversations_ops.read_model.detached import kept_letter
from conversations_ops.read_model.letters import PAGE, open_groups, open_letters
from conversations_ops.read_model.services import service_names
from conversations_ops.web.desk import Desk
from conversations_ops.web.elsewhere import about, place_of
from conversations_ops.web.pages.decisions import WAIT
from conversations_ops.web.rendering import Pages, session_of


def routes(desk: Desk, pages: Pages) -> APIRouter:
    """Return the pages about open letters."""
    router = APIRouter()

    @router.get("/detached")
    def detached(
        request: Request,
        service: str = "",
        begin: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
        cluster: str = "",
    ) -> Response:
        place = place_of(desk, cluster)
        with place.live.file() as file:
            found, groups = open_letters(file, service, begin), open_groups(file, service)
            names = service_names(file)
        return pages.page(
            request, "detached.html", letters=found, groups=groups, reasons=WHY, service=service, services=names,
            begin=begin, more=begin + PAGE if len(found) == PAGE else 0, **about(desk, place, lambda it: it.letters),
        )  # fmt: skip

    @router.post("/detached/{name}/discard")
    def discard(request: Request, name: str, reason: Annotated[str, Form(max_length=500)] = "") -> Response:
        session = session_of(request)
        with desk.live.file() as file:
            kept = kept_letter(desk.kafka, file, name)
        if kept is None or not kept.is_open or kept.letter.foreign:
            raise HTTPException(404, f"{name[:200]} is no open letter. Somebody may have closed it already.")

        def act() -> tuple[str, str]:
            close(desk.kafka, [kept.letter], "discarded", Wish(session.user.name, reason.strip(), WAIT))
            return "good", f"{name} was discarded. Its bytes stay in the dead-letter topic."

        desk.carry_out(session, reason, act)
        return RedirectResponse("/detached" if reason.strip() else f"/letters/{name}", 303)

    return router
