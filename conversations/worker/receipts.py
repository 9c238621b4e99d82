"""Receipts: ENDs and acknowledgements that arrive alone wait a little, so that they share a transaction with the work that follows.

A transaction takes some milliseconds. A request through a service makes one for the request, and would make another for the END that follows
its answer. The next request would wait for that one. So the worker reads receipts, and leaves them in its backlog: until something else
arrives, and at most for the time ``hold``. They are not routed meanwhile, so there is nothing to undo if a partition is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from conversations.errors import UndecodableRecord
from conversations.ports import Record
from conversations.protocol.envelope import Kind, decode
from conversations.worker.context import Context

FEW = 32
"""Maximum number of receipts that wait. More are worth a transaction."""


class Receipts:
    """Decides whether the records of a step are receipts that wait.

    A service with a handler ``on_end`` lets no END wait, because the handler's effects are work.
    """

    __slots__ = ("_clock", "_hold", "_kinds", "_queue", "until")

    def __init__(self, context: Context) -> None:
        self._clock = context.clock
        self._hold = context.settings.hold // timedelta(microseconds=1)
        ends = any(side.on_end is not None for side in context.sides.values())
        self._kinds = {Kind.ACK} if ends else {Kind.ACK, Kind.END}
        self._queue = context.topics.queue
        self.until = 0
        """Log time at which the waiting receipts are routed, in microseconds; 0 if none wait."""

    def wait(self, records: Sequence[Record]) -> bool:
        """Return True if the records of this step are receipts that wait for other work. The caller puts them back into the backlog."""
        until, self.until = self.until, 0
        if not records or not self._hold or len(records) > FEW or not all(map(self._is_receipt, records)):
            return False
        now = self._clock.now()
        until = until or now + self._hold
        if not now < until <= now + self._hold:  # the time is over, or the clock was set back
            return False
        self.until = until
        return True

    def _is_receipt(self, record: Record) -> bool:
        if record.topic() != self._queue:
            return False
        try:
            # The headers stay unread: they may be read only once, by the intake.
            envelope = decode(record.value() or b"")
            return envelope.kind in self._kinds and not envelope.skipped  # a handler may hear what was skipped
        except UndecodableRecord:
            return False
