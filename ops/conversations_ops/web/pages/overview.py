"""The first page: one card for each service of each cluster, the routes between clusters, and what needs a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from conversations.protocol.events import ClusterAway, ForwardingEnded
from conversations_ops.read_model.live import Live
from conversations_ops.read_model.status import Status, cause, statuses
from conversations_ops.web.desk import Desk
from conversations_ops.web.hidden import routes_for, statuses_for
from conversations_ops.web.rendering import Pages, clock, session_of
from conversations_ops.web.users import User
from conversations_ops.why.routes import Route, condition, counted_most, with_stalls
from conversations_ops.why.unowned import with_unowned


def routes(desk: Desk, pages: Pages) -> APIRouter:
    """Return the first page."""
    router = APIRouter()

    @router.get("/")
    def overview(request: Request) -> Response:
        user = session_of(request).user
        clusters = [_cluster(desk, user, name, live) for name, live in desk.clusters.items()]
        found: list[Status] = [row["it"] for it in clusters for row in it["services"]]
        return pages.page(
            request, "overview.html", clusters=clusters, services=len(found), people=sum(it.needs_person for it in found),
            open=sum(it.open for it in found), parked=sum(it.parked for it in found), held=sum(it.held for it in found),
            letters=sum(it.letters for it in found),
        )  # fmt: skip

    return router


def _cluster(desk: Desk, user: User, name: str, live: Live) -> dict[str, Any]:
    with live.file() as file:
        found = statuses(file)
    board = desk.boards.of(name)
    known = routes_for(user, board.routes if board is not None else ())
    unowned = with_unowned(found, board.unowned if board is not None else {})
    services = statuses_for(user, with_stalls(unowned, known))
    return {
        "name": name, "bootstrap": live.kafka.bootstrap, "trouble": "" if board is None else board.trouble,
        "services": [{"it": it, "cause": cause(it, clock), "link": _link(it, name)} for it in services], "routes": _rows(known),
    }  # fmt: skip


def _rows(known: Sequence[Route]) -> list[dict[str, Any]]:
    return [
        {
            "to": it.way.cluster, "forwarded": len(it.way.carried), "partitions": it.way.partitions, "unacknowledged": it.unacknowledged,
            "next_try": it.next_try, "not_carried": counted_most(it.not_carried), "state": condition(it, clock),
            **_chip(it),
        }
        for it in known
    ]  # fmt: skip


def _chip(it: Route) -> dict[str, str]:
    if it.stall() is not None:
        return {"word": "down", "look": "bad" if it.unacknowledged else "warn"}
    return {"word": "service missing", "look": "warn"} if it.lacked else {"word": "up", "look": "good"}


def _link(it: Status, cluster: str) -> str:
    """Return the page that shows more about the cause of a service; empty if nothing stalls."""
    service, at = it.service, f"&cluster={cluster}" if cluster else ""
    for number, page in (
        ("off", f"/queues?cluster={cluster}" if cluster else f"/queues/{service}"),
        ("lacks_worker", f"/queues?cluster={cluster}" if cluster else f"/queues/{service}"),
        ("held", f"/letters?service={service}{at}"),
        ("heads", f"/retries?service={service}{at}"),
        ("stalls", "" if cluster else f"/events?name={_event(it)}"),
        ("waits_for", f"/dialogs?service={service}&waits=1{at}"),
        ("letters", f"/detached?service={service}{at}"),
    ):
        if getattr(it, number):
            return page
    return ""


def _event(it: Status) -> str:
    """Return the name of the events that tell more about the first route that is down."""
    return ClusterAway.NAME if it.stalls and it.stalls[0].forwarded else ForwardingEnded.NAME
