"""The trace contexts that a partition carries on: from a message to what its handler sends, and from there over a timer to its handler."""

from __future__ import annotations

from conversations.protocol import rows
from conversations.worker.outbox import Outbox


class Carried:
    """The trace context of the present requests, and the trace contexts of timers, each in a row.

    A service that does not trace has no such rows, and pays nothing for them.
    """

    __slots__ = ("_outbox", "_timers", "trace")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._timers: dict[bytes, set[str]] = {}
        """For each endpoint, the names of the timers that have a row."""
        self.trace = b""
        """The trace context of the handler or command whose requests are carried out now; empty if there is none."""

    def carry(self, trace: bytes) -> None:
        """Give this trace context to everything that is requested from now on. If it is empty, what is requested has none."""
        self.trace = trace

    def restore(self) -> None:
        """Account for the rows from before a restart."""
        for key, _ in self._outbox.store.scan(rows.TRACE):
            own, name = rows.traced_timer(key)
            self._timers.setdefault(own, set()).add(name)

    def set_timer(self, own: bytes, name: str) -> None:
        """Keep the present trace context for the handler of a timer that was set now. Without one, delete the row of an earlier one."""
        if not self.trace:
            self.forget_timer(own, name)
            return
        self._timers.setdefault(own, set()).add(name)
        self._outbox.write(rows.trace_key(own, name), self.trace)

    def of_timer(self, own: bytes, name: str) -> bytes:
        """Return the trace context in which a timer was set; empty if there is none."""
        known = name in self._timers.get(own, ())
        return (self._outbox.read(rows.trace_key(own, name)) or b"") if known else b""

    def forget_timer(self, own: bytes, name: str) -> None:
        """Delete the row of a timer that is over."""
        names = self._timers.get(own)
        if names is None or name not in names:
            return
        names.remove(name)
        if not names:
            del self._timers[own]
        self._outbox.write(rows.trace_key(own, name), None)

    def forget(self, own: bytes) -> None:
        """Delete the rows of an endpoint that is closed."""
        for name in self._timers.pop(own, ()):
            self._outbox.write(rows.trace_key(own, name), None)
