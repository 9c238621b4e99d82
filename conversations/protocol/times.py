"""Times of the protocol: microseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from conversations.protocol.endpoint import NEVER


def later(now: int, after: int) -> int:
    """Return the time ``after`` microseconds from ``now``, but at most the last time before ``NEVER``."""
    return min(now + after, NEVER - 1)


def moment(at: int) -> datetime:
    """Turn microseconds since 1970 into a datetime in UTC. A time outside the range of datetime becomes its earliest or latest value."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if at > 0 else datetime.min.replace(tzinfo=UTC)
