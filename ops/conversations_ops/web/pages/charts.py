"""Charts of the metrics that Spark writes: dialogs, times and backlog."""

from __future__ import annotations

import time
from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from conversations_ops.read_model.minutes import MINUTE, newest_minute, services_with_minutes, slots
from conversations_ops.web.charts import charts
from conversations_ops.web.desk import Desk
from conversations_ops.web.rendering import Pages

OLD = 10 * MINUTE
"""Seconds after which the newest minute is old, so that the page asks whether the job runs."""


class Span(NamedTuple):
    """A span of time that can be shown."""

    name: str
    size: int
    """Seconds of a slot."""
    number: int
    """Number of slots."""


SPANS = {
    "1h": Span("one hour", MINUTE, 60),
    "6h": Span("six hours", 5 * MINUTE, 72),
    "1d": Span("one day", 15 * MINUTE, 96),
    "7d": Span("seven days", 120 * MINUTE, 84),
}


def routes(desk: Desk, pages: Pages) -> APIRouter:
    """Return the page with the charts."""
    router = APIRouter()

    @router.get("/charts")
    def every(request: Request, service: str = "", span: str = "1h") -> Response:
        shown = SPANS.get(span, SPANS["1h"])
        now = int(time.time())
        since = now - now % shown.size + shown.size - shown.size * shown.number
        with desk.live.file() as file:
            newest, services = newest_minute(file), services_with_minutes(file)
            found = slots(file, since, shown.size, shown.number, service)
        return pages.page(
            request, "charts.html", charts=charts(found, shown.size), slots=found, size=shown.size, service=service, services=services,
            span=span, spans=SPANS, newest=newest, is_old=newest is not None and now - newest > OLD + MINUTE,
        )  # fmt: skip

    return router
