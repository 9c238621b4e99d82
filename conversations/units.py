"""Units of time as the protocol counts it: whole microseconds."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def milliseconds(period: int) -> int:
    """Return a period as Kafka's settings and timestamps count it."""
    return period // 1_000
