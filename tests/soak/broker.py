"""A broker whose own periods are shortened with those of the product."""

from __future__ import annotations

DAY = 24 * 3600 * 1000
_PERIODS = {
    "log.roll.ms": (7 * DAY, 1_000),
    "log.retention.check.interval.ms": (300_000, 500),
    "log.cleaner.backoff.ms": (15_000, 200),
    "log.cleaner.delete.retention.ms": (DAY, 1_000),
    "log.segment.delete.delay.ms": (60_000, 500),
    "producer.id.expiration.ms": (DAY, 2_000),
    "producer.id.expiration.check.interval.ms": (600_000, 500),
    "transactional.id.expiration.ms": (7 * DAY, 20_000),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (3_600_000, 500),
    "offsets.retention.check.interval.ms": (600_000, 500),
}
"""Milliseconds by default, and at least: below, the machine is too slow for them."""
_SESSION = {"group.consumer.session.timeout.ms": "1500", "group.consumer.heartbeat.interval.ms": "500"}
MINUTES = 10_080
"""Kafka's ``offsets.retention.minutes``."""


def settings(factor: float) -> dict[str, str]:
    """Return a broker's settings for periods that are shorter by a factor."""
    shortened = {name: str(max(least, int(default / factor))) for name, (default, least) in _PERIODS.items()}
    return shortened | {"offsets.retention.minutes": str(max(1, round(MINUTES / factor)))} | _SESSION
