"""Times as the protocol counts them: microseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from conversations.protocol.endpoint import NEVER


def later(now: int, after: int) -> int:
    """Return the time ``after`` microseconds from now; the end of time when there is no such time."""
    return min(now + after, NEVER - 1)


def moment(at: int) -> datetime:
    """Turn microseconds since the epoch into a datetime in UTC; what no datetime can say becomes the nearest that can."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if at > 0 else datetime.min.replace(tzinfo=UTC)
