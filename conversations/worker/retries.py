"""The parks of handlers without a message."""

from __future__ import annotations

from collections.abc import Iterable

from conversations.protocol import rows
from conversations.worker.active import Park


class Retries(dict[bytes, Park]):
    """Waiting handlers without a message, by the identity of their endpoint, followed by the handler: ``rows.ERROR``, for example.

    A dialog may have several timers with names. So the handlers of these timers are also kept by the identity of their endpoint.
    """

    def __init__(self) -> None:
        super().__init__()
        self._of_named: dict[bytes, set[bytes]] = {}

    def __setitem__(self, key: bytes, park: Park) -> None:
        super().__setitem__(key, park)
        if len(key) > rows.HANDLER_SIZE:
            own = key[: rows.IDENTITY_SIZE]
            self._of_named.setdefault(own, set()).add(key[rows.IDENTITY_SIZE :])

    def take(self, key: bytes) -> Park:
        """Remove the park of a handler, and return it."""
        own = key[: rows.IDENTITY_SIZE]
        if len(key) > rows.HANDLER_SIZE:
            named = self._of_named[own]
            named.discard(key[rows.IDENTITY_SIZE :])
            if not named:
                del self._of_named[own]
        return self.pop(key)

    def handlers(self, own: bytes) -> Iterable[bytes]:
        """Return the handlers without a message that may wait for an endpoint."""
        named = self._of_named.get(own) if self._of_named else None
        return rows.WITHOUT_MESSAGE if named is None else (*rows.WITHOUT_MESSAGE, *sorted(named))

    def timers(self, own: bytes) -> set[str]:
        """Return the names of the timers of an endpoint whose handlers wait."""
        if not self:
            return set()
        return {rows.timer_of(it) for it in self.handlers(own) if rows.is_timer(it) and own + it in self}
