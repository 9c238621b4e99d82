"""Writes pages from templates. Text from outside is escaped, and its control characters are made visible."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from conversations_ops.console.times import moment, written
from conversations_ops.printable import lines, one_line
from conversations_ops.web.desk import Desk
from conversations_ops.web.sessions import Session

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
STATIC = HERE / "static"
LONG_TEXT = 100_000
"""Maximum number of characters of a body or a stack trace on a page."""
_PARTS = re.compile(r"[.\-_/]|(?<=[a-z])(?=[A-Z])")


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_shown,
    )
    made.filters.update(
        ago=ago,
        ahead=ahead,
        clock=clock,
        moment=moment,
        short=short,
        block=block,
        number=number,
        breaks=breaks,
        as_is=as_is,
        figure=figure,
    )
    return made


def _shown(value: object) -> object:
    """Make the control characters of every value visible, unless a filter of this module has written it."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else one_line(value)


def as_is(value: str) -> Markup:
    """Write a text with all of its characters, for a form that sends it back."""
    return escape(value)


def ago(at: int | None) -> str:
    """Write how long ago a time in microseconds since 1970 was: ``3d4h``; empty for None."""
    return "" if at is None else written(timedelta(microseconds=max(_now() - at, 0)))


def ahead(at: int | None) -> str:
    """Write how far ahead a time is: ``in 5h3m``, or ``now``; empty for None."""
    if at is None:
        return ""
    left = at - _now()
    return f"in {written(timedelta(microseconds=left))}" if left > 1_000_000 else "now"


def clock(at: int | None) -> str:
    """Write a time in UTC: without the date if it is today, else without seconds; empty for None."""
    if at is None:
        return ""
    try:
        found = datetime.fromtimestamp(at / 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return moment(at)
    today = datetime.now(UTC).date() == found.date()
    return found.strftime("%H:%M:%S") if today else found.strftime("%Y-%m-%d %H:%M")


def short(name: str) -> str:
    """Write an id of a dialog so that people can compare it: its first and its last digits."""
    return f"{name[:8]}…{name[-4:]}" if len(name) == 36 else one_line(name)


def block(value: object) -> Markup:
    """Write a text from outside as lines without control characters."""
    found = str(value)
    cut = f"\n… {len(found) - LONG_TEXT:,} more characters" if len(found) > LONG_TEXT else ""
    return escape(lines(found[:LONG_TEXT], "") + cut)


def number(value: float) -> str:
    """Write a number with commas."""
    return f"{value:,}"


def figure(value: float) -> str:
    """Write a count with commas, or a measured value with four digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def breaks(value: object) -> Markup:
    """Write a name from outside as one line in which a narrow screen may break it."""
    marked = _PARTS.sub(lambda it: f"{it.group()}\0", one_line(str(value)))
    return Markup("<wbr>").join(marked.split("\0"))


def _now() -> int:
    return time.time_ns() // 1_000


class Pages:
    """Writes the pages of a desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._environment = _environment()

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Write a page. ``values`` are the variables of its template."""
        session: Session | None = getattr(request.state, "session", None)
        live = request.headers.get("x-live") is not None
        notice = None if session is None or live else self._desk.notices.take(session)
        shared: Mapping[str, Any] = {
            "namespace": self._desk.kafka.namespace, "bootstrap": self._desk.kafka.bootstrap, "session": session,
            "user": None if session is None else session.user, "notice": notice, "progress": self._desk.live.progress,
            "path": request.url.path, "now": _now(), "others": {name: live.progress for name, live in self._desk.others.items()},
        }  # fmt: skip
        return HTMLResponse(self._environment.get_template(template).render(**shared, **values), status)


def session_of(request: Request) -> Session:
    """Return the session of a request. ``Guard`` lets no request without a session pass."""
    session: Session = request.state.session
    return session
