"""The first page: one card for each service, and what needs a person."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from conversations_ops.read_model.status import cause, statuses
from conversations_ops.web.desk import Desk
from conversations_ops.web.hidden import statuses_for
from conversations_ops.web.rendering import Pages, clock, session_of


def routes(desk: Desk, pages: Pages) -> APIRouter:
    """Return the first page."""
    router = APIRouter()

    @router.get("/")
    def overview(request: Request) -> Response:
        with desk.live.file() as file:
            found = statuses_for(session_of(request).user, statuses(file))
        services = [{"it": it, "cause": cause(it, clock), "link": _link(it.service, it)} for it in found]
        return pages.page(
            request, "overview.html", services=services, people=sum(it.needs_person for it in found),
            open=sum(it.open for it in found), parked=sum(it.parked for it in found), held=sum(it.held for it in found),
            letters=sum(it.letters for it in found),
        )  # fmt: skip

    return router


def _link(service: str, it: object) -> str:
    """Return the page that shows more about the cause of a service; empty if nothing stalls."""
    for number, page in (
        ("off", f"/queues/{service}"),
        ("held", f"/letters?service={service}"),
        ("heads", f"/retries?service={service}"),
        ("waits_for", f"/dialogs?service={service}&waits=1"),
        ("letters", f"/detached?service={service}"),
    ):
        if getattr(it, number):
            return page
    return ""
