"""Puts the pages of the web console together, behind its guard."""

from __future__ import annotations

import logging
import sqlite3

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException as Failure
from starlette.staticfiles import StaticFiles

from conversations.errors import DeclarationError, LogError
from conversations_ops.metrics.exposition import CONTENT_TYPE, exposition
from conversations_ops.metrics.services import of_services
from conversations_ops.web.desk import Desk
from conversations_ops.web.guard import PUBLIC, Guard
from conversations_ops.web.pages import (
    charts,
    decisions,
    detached,
    dialogs,
    events,
    letters,
    login,
    overview,
    queues,
    redrives,
    why,
)
from conversations_ops.web.rendering import STATIC, Pages, session_of
from conversations_ops.web.sessions import is_form_of

log = logging.getLogger("conversations.ops")


async def check_form(request: Request) -> None:
    """Refuse a form without the token of its session. Another site can make a browser send a form, but cannot know the token.

    Raises:
        HTTPException: the token is missing or wrong.
    """
    if request.method in ("GET", "HEAD"):
        return
    form = await request.form(max_files=0, max_fields=20)
    token = form.get("form")
    if not isinstance(token, str) or not is_form_of(session_of(request), token):
        raise HTTPException(403, "The form is too old. Go back, load the page again, and repeat.")


def application(desk: Desk, *, secure: bool = False, open_metrics: bool = False) -> Guard:
    """Return the web console as an ASGI application.

    Args:
        desk: what the pages work with.
        secure: True if the console is reached over TLS.
        open_metrics: True if the page for Prometheus needs no session.
    """
    # A redirect for a closing slash would name the host that the request names.
    app = FastAPI(title="conversations", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    pages = Pages(desk)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.include_router(login.routes(desk, pages, secure=secure))
    for part in (overview, dialogs, why, letters, decisions, detached, queues, redrives, charts, events):
        app.include_router(part.routes(desk, pages), dependencies=[Depends(check_form)])

    @app.get("/health")
    def health() -> Response:
        trouble = desk.live.progress.trouble
        return PlainTextResponse("the read model is not up to date\n" if trouble else "ok\n", 503 if trouble else 200)

    @app.get("/metrics")
    def metrics() -> Response:
        board = desk.boards.of("")
        with desk.live.file() as file:
            found = of_services(file, None if board is None else board.unowned)
            return Response(exposition(found), headers={"content-type": CONTENT_TYPE})

    _explain(app, pages)
    public = (*PUBLIC, "/metrics") if open_metrics else PUBLIC
    return Guard(app, desk.sessions, desk.knows, public=public, secure=secure)


def _explain(app: FastAPI, pages: Pages) -> None:
    """Give each failure a page that says what to do."""

    @app.exception_handler(Failure)
    def failed(request: Request, error: Exception) -> HTMLResponse:
        status = error.status_code if isinstance(error, Failure) else 500
        said = str(error.detail) if isinstance(error, Failure) else ""
        return pages.page(request, "failure.html", status, number=status, said=_SAID.get(said, said))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: Exception) -> HTMLResponse:
        faults = error.errors() if isinstance(error, RequestValidationError) else []
        said = "; ".join(f"{it['loc'][-1]}: {it['msg']}" for it in faults[:5])
        return pages.page(request, "failure.html", 400, number=400, said=said)

    @app.exception_handler(LogError)
    @app.exception_handler(DeclarationError)
    def out_of_reach(request: Request, error: Exception) -> HTMLResponse:
        return pages.page(request, "failure.html", 503, number=503, said=str(error))

    @app.exception_handler(sqlite3.DatabaseError)
    def damaged(request: Request, error: Exception) -> HTMLResponse:
        log.warning("the read model is damaged: %s", error)
        said = "The read model is damaged. The console makes it anew from Kafka. Load the page again in a moment."
        return pages.page(request, "failure.html", 503, number=503, said=said)

    @app.exception_handler(Exception)
    def unexpected(request: Request, error: Exception) -> HTMLResponse:
        log.error("the page %s failed", request.url.path, exc_info=error)
        said = "This page has a fault. The log of the console has its cause."
        return pages.page(request, "failure.html", 500, number=500, said=said)


_SAID = {"Not Found": "There is no such page.", "Method Not Allowed": "This page cannot be asked in this way."}
"""What a person is told instead of the words of HTTP."""
