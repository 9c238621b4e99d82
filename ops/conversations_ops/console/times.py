"""Reads times and spans of time from a command line, and writes them for people."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

MINUTE = timedelta(minutes=1)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SPAN = re.compile(r"(?:\d{1,9}[dhms])+")
_PART = re.compile(r"(\d+)([dhms])")


def instant(text: str) -> datetime:
    """Read a time. A time without a zone is in UTC.

    Raises:
        ValueError: the text is not a time.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: write it as 2026-09-01 or 2026-09-01T12:30:00Z") from None
    return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)


def minute(text: str) -> datetime:
    """Read a time without seconds. A time without a zone is in UTC.

    Raises:
        ValueError: the text is not a time, or its seconds are not 0.
    """
    at = instant(text)
    if at != minute_of(at):
        raise ValueError(
            f"{text!r} is not the start of a minute: give a time without seconds, for instance 2026-09-01T12:30Z"
        )
    return at


def minute_of(at: datetime) -> datetime:
    """Return the beginning of the minute that a time belongs to."""
    return at.replace(second=0, microsecond=0)


def span(text: str) -> timedelta:
    """Read a span of time: ``90s``, ``15m``, ``1h30m``, ``7d``.

    Raises:
        ValueError: the text is not a span of time, or the span is longer than 36,500 days.
    """
    seconds = sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(text)) if _SPAN.fullmatch(text) else -1
    if not 0 <= seconds <= 36_500 * _SECONDS["d"]:
        raise ValueError(f"{text!r} is no span of time: write it as 90s, 15m, 1h30m or 7d")
    return timedelta(seconds=seconds)


def written(span: timedelta) -> str:
    """Write a span in its two largest units, for people: ``3d4h``, ``2m5s``."""
    rest, found = max(0, int(span.total_seconds())), list[str]()
    for unit, size in _SECONDS.items():
        count, rest = divmod(rest, size)
        if count or found:
            found.append(f"{count}{unit}")
    return "".join(found[:2]) or "0s"


def moment(at: int) -> str:
    """Write microseconds since 1970 as a time in UTC. If the year is out of range, write the number."""
    try:
        return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{at} us"


def clock_of(now: int) -> Callable[[int], str]:
    """Return a function that writes a time of today as ``12:30``, and another one with its date: ``2026-09-01T12:30``; in UTC.

    Times are in microseconds since 1970.
    """
    today = moment(now)[:10]

    def write(at: int) -> str:
        text = moment(at)
        return text[11:16] if text.startswith(today) else text[:16]

    return write


def ahead(at: int, now: float) -> str:
    """Write a time in microseconds since 1970 with its distance from ``now`` (seconds since 1970): ``in 5h3m (2026-09-01T12:30:00+00:00)``."""
    seconds = at / 1_000_000 - now
    return f"{f'in {written(timedelta(seconds=seconds))}' if seconds > 0 else 'now'} ({moment(at)})"


def next_try(at: int | None, now: int) -> str:
    """Write when something is tried again: ``next try in 32s``, or ``next try now``; empty for None. Times are in microseconds since 1970."""
    if at is None:
        return ""
    return f"next try in {written(timedelta(microseconds=at - now))}" if at > now else "next try now"


def plain(it: Any) -> Any:
    """Return a copy of plain data in which each ``datetime`` is a text in UTC, so that the data can be written as JSON."""
    if isinstance(it, dict):
        return {name: plain(value) for name, value in it.items()}
    if isinstance(it, list):
        return [plain(value) for value in it]
    return it.astimezone(UTC).isoformat() if isinstance(it, datetime) else it


def micros(text: str) -> int:
    """Read a time, and return it in microseconds since 1970; 0 for an empty text.

    Raises:
        ValueError: the text is not a time.
    """
    return int(instant(text).timestamp() * 1_000_000) if text else 0


def time_since(text: str, now: int) -> int:
    """Read a time, or a span before ``now`` such as ``1h``, in microseconds since 1970; 0 for an empty text.

    Raises:
        ValueError: the text is neither.
    """
    if _SPAN.fullmatch(text):
        return now - int(span(text).total_seconds() * 1_000_000)
    try:
        return micros(text)
    except ValueError as error:
        raise ValueError(f"{error}, or as 1h, 7d") from None
