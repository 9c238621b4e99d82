"""The metrics of all services of a namespace, from the file of the read model. They are there even if no worker runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from conversations import metrics
from conversations.durations import SECOND
from conversations_ops.metrics.readings import Readings
from conversations_ops.read_model.file import File
from conversations_ops.read_model.status import Status, Unowned, statuses

_FIELDS: Final = {
    metrics.S_PARTITIONS: "partitions", metrics.S_OPEN: "open", metrics.S_PENDING: "pending", metrics.S_DELAYED: "delayed",
    metrics.S_PARKED: "parked", metrics.S_HELD: "held", metrics.S_LETTERS: "letters", metrics.S_OFF: "off",
}  # fmt: skip
"""Metrics whose value is a field of ``Status``."""


def of_services(file: File, unowned: Mapping[str, Unowned] | None = None) -> Readings:
    """Return the metrics of the services in an open file, as it was last brought up to date.

    ``unowned`` has the services of which some partitions have no owner; None if that is not known.

    Raises:
        ReadModelFailed: the file cannot be read.
    """
    found, now = Readings(), time.time()
    for status in statuses(file):
        _add(found, status, now)
        if unowned is not None:
            found.add(metrics.S_UNREAD, (status.service,), unowned.get(status.service, Unowned()).records)
    with file.explained():
        read = file.connection.execute(
            "SELECT service, total(next), min(read_at) FROM places WHERE service <> '' GROUP BY service"
        ).fetchall()
    for service, offsets, read_at in read:
        found.add(metrics.READ, (service,), offsets)
        found.add(metrics.BEHIND, (service,), max(0.0, now - read_at))
    return found


def _add(found: Readings, status: Status, now: float) -> None:
    for metric, field in _FIELDS.items():
        found.add(metric, (status.service,), getattr(status, field))
    waits = 0.0 if status.oldest is None else max(0.0, now - status.oldest / SECOND)
    found.add(metrics.S_OLDEST, (status.service,), waits)
