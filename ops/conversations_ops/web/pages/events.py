"""Events, and the journal: the events that name the operator who decided."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from conversations_ops.read_model.events import PAGE, Event, Wanted, events, names
from conversations_ops.read_model.services import service_names
from conversations_ops.web.desk import Desk
from conversations_ops.web.hidden import events_for
from conversations_ops.web.rendering import Pages, session_of


def routes(desk: Desk, pages: Pages) -> APIRouter:
    """Return the pages about events."""
    router = APIRouter()

    @router.get("/events")
    def every(
        request: Request, service: str = "", name: str = "", before: Annotated[int, Query(ge=0, le=2**62)] = 2**62
    ) -> Response:
        with desk.live.file() as file:
            found = events(file, Wanted(service, name, before=before))
            services, known = service_names(file), names(file)
        return pages.page(
            request, "events.html", title="Events", events=events_for(session_of(request).user, found), service=service, name=name, services=services, names=known, more=_more(found)
        )  # fmt: skip

    @router.get("/journal")
    def journal(request: Request, service: str = "", before: Annotated[int, Query(ge=0, le=2**62)] = 2**62) -> Response:
        with desk.live.file() as file:
            found = events(file, Wanted(service, by_person=True, before=before))
            services = service_names(file)
        return pages.page(
            request,
            "journal.html",
            events=events_for(session_of(request).user, found),
            service=service,
            services=services,
            more=_more(found),
        )

    return router


def _more(found: list[Event]) -> int:
    return found[-1].offset if len(found) == PAGE else 0
