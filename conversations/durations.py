"""Lengths of time in microseconds. The protocol has all times in whole microseconds."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def milliseconds(period: int) -> int:
    """Convert microseconds to whole milliseconds, the unit of Kafka's settings and timestamps."""
    return period // 1_000
