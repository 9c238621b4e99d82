"""The metrics of one forwarder, from its report."""

from __future__ import annotations

from typing import Final

from conversations import metrics
from conversations.kafka.forwarding_report import Report
from conversations_ops.metrics.readings import Readings

_COUNTS: Final = {
    metrics.F_ENVELOPES: "envelopes", metrics.F_BATCHES: "transactions", metrics.F_BYTES: "bytes", metrics.F_UNKNOWN: "unknown",
    metrics.F_FAILURES: "failures",
}  # fmt: skip
"""Metrics whose value is a field of ``Carried``."""


def of_forwarder(cluster: str, report: Report, now: float) -> Readings:
    """Return the metrics of a forwarder to a cluster. ``now`` is in seconds since 1970."""
    found, labels = Readings(), (cluster,)
    carried, condition = report.carried, report.condition
    for metric, field in _COUNTS.items():
        found.add(metric, labels, getattr(carried, field))
    found.add(metrics.F_PARTITIONS, labels, len(condition.partitions))
    found.add(metrics.F_LAG, labels, condition.lag)
    for metric, at in ((metrics.F_SUCCESS, condition.last_success), (metrics.F_AWAY, condition.away_since)):
        found.add(metric, labels, max(0.0, now - at) if at else 0.0)
    return found
