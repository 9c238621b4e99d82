"""Spans and minutes as jobs are given them on the command line, and times as they are told."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import Any

MINUTE = timedelta(minutes=1)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SPAN = re.compile(r"(?:\d{1,9}[dhms])+")
_PART = re.compile(r"(\d+)([dhms])")


def span(text: str) -> timedelta:
    """Read a span of time: ``90s``, ``15m``, ``1h30m``, ``7d``.

    Raises:
        argparse.ArgumentTypeError: it is none, or longer than can be counted back.
    """
    seconds = sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(text)) if _SPAN.fullmatch(text) else -1
    if not 0 <= seconds <= 36_500 * _SECONDS["d"]:
        raise argparse.ArgumentTypeError(f"{text!r} is no span of time: write it as 90s, 15m, 1h30m or 7d")
    return timedelta(seconds=seconds)


def minute(text: str) -> datetime:
    """Read a whole minute; without a zone it is UTC.

    Raises:
        argparse.ArgumentTypeError: it is no time, or within a minute.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write it as 2026-09-01 or 2026-09-01T12:30Z") from None
    at = found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)
    if at != minute_of(at):
        raise argparse.ArgumentTypeError(f"{text!r} is within a minute: give whole minutes, 2026-09-01T12:30Z")
    return at


def minute_of(at: datetime) -> datetime:
    """Return the minute a moment is in."""
    return at.replace(second=0, microsecond=0)


def written(span: timedelta) -> str:
    """Write a span down in its two largest units, for people: ``3d4h``, ``2m5s``."""
    rest, found = max(0, int(span.total_seconds())), list[str]()
    for unit, size in _SECONDS.items():
        count, rest = divmod(rest, size)
        if count or found:
            found.append(f"{count}{unit}")
    return "".join(found[:2]) or "0s"


def plain(it: Any) -> Any:
    """Write the times in what is to be JSON as text, in UTC."""
    if isinstance(it, dict):
        return {name: plain(value) for name, value in it.items()}
    if isinstance(it, list):
        return [plain(value) for value in it]
    return it.astimezone(UTC).isoformat() if isinstance(it, datetime) else it
