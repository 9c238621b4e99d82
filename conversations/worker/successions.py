"""Successions: the dialogs of each key of a pool, one after the other, without a change of the order.

A pool sends all messages for one key on one dialog, and replaces the dialog from time to time. The messages of two dialogs have no order. So the next
dialog of the key is **held back** until all dialogs before it are closed. Its envelopes are delayed rows meanwhile, like envelopes for a
destination that accepts no records. The target of a replaced dialog is asked to end it (``END_OF_STREAM``). It does so when it has handled all
messages of the dialog. Then the dialog closes when the replies are handled here.

    begin --no dialog before it--> transmits --replaced: EndOfStream--> the target's END --> closed: the next dialog transmits
      '-----a dialog before it---> held back ----------------------------------------------------'

If a dialog breaks and another dialog carries on with its messages, the other dialog takes its place.
"""

from __future__ import annotations

from conversations.protocol import rows
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.succession import Succession, decode_succession, encode_succession
from conversations.worker.outbox import Outbox
from conversations.worker.schedule import Schedule


class Successions:
    """The successions of one partition."""

    __slots__ = ("_count", "_outbox", "_schedule", "held_back")

    def __init__(self, outbox: Outbox, schedule: Schedule) -> None:
        self._outbox = outbox
        self._schedule = schedule
        self._count = 0
        """Number of successions. While it is 0, no row is read."""
        self.held_back: set[bytes] = set()
        """Endpoints that must not transmit yet, because a dialog before them is not closed."""

    def restore(self) -> None:
        """Restore the deadlines, and which endpoints are held back, from the rows."""
        for key, row in self._outbox.store.scan(rows.SUCCESSION):
            succession = self._outbox.decoded(key, decode_succession, row)
            self._count += 1
            self.held_back.update(succession.dialogs[1:])
            self._schedule_replacement(succession)

    def of(self, key: str) -> Succession:
        """Return the succession of a group's key; it is empty if no dialog of it is open."""
        name = rows.SUCCESSION + key.encode()
        row = self._outbox.read(name) if self._count else None
        return Succession() if row is None else self._outbox.decoded(name, decode_succession, row)

    def begin(self, key: str, own: bytes, replace_at: int) -> None:
        """Add a dialog at the end. It is held back until the dialogs before it are closed."""
        succession = self.of(key)
        if succession.dialogs:
            self.held_back.add(own)
        else:
            self._count += 1
        succession.begin(own, replace_at)
        self._schedule_replacement(succession)
        self._write(key, succession)

    def carry_on(self, key: str, old: bytes, new: bytes) -> None:
        """Put a dialog in the place of a broken dialog, whose messages it sends again. If the key has no such dialog, do nothing."""
        succession = self.of(key)
        if old not in succession.dialogs:
            return
        succession.carry_on(old, new)
        if old in self.held_back:
            self.held_back.remove(old)
            self.held_back.add(new)
        self._schedule_replacement(succession)
        self._write(key, succession)

    def close(self, endpoint: Endpoint) -> list[bytes]:
        """Remove a closed dialog; return the endpoints that are not held back any more, which may be this endpoint itself."""
        own = endpoint.conversation + b"\1"
        if not self._count or not _may_be_pooled(endpoint):
            return []
        succession = self.of(endpoint.key)
        if own not in succession.dialogs:
            return []
        succession.close(own)
        freed = [it for it in (own, *succession.dialogs[:1]) if it in self.held_back]
        self.held_back.difference_update(freed)
        self._write(endpoint.key, succession)
        return freed

    def replace(self, key: str) -> None:
        """Note that the last dialog of a key is replaced: no further message is sent on it."""
        succession = self.of(key)
        succession.replace()
        self._write(key, succession)

    def is_replaced(self, endpoint: Endpoint) -> bool:
        """Return True if an endpoint is in a succession, and no further message is sent on it."""
        if not self._count or not _may_be_pooled(endpoint):
            return False
        own, succession = endpoint.conversation + b"\1", self.of(endpoint.key)
        return own in (succession.dialogs if succession.is_replaced else succession.dialogs[:-1])

    def is_due(self, endpoint: Endpoint, now: int) -> bool:
        """Return True if an endpoint is the last of its succession, and the time to replace it has passed."""
        if not self._count or not _may_be_pooled(endpoint):
            return False
        succession = self.of(endpoint.key)
        return succession.replace_at <= now and endpoint.conversation + b"\1" in succession.dialogs[-1:]

    def _schedule_replacement(self, succession: Succession) -> None:
        if not succession.is_replaced:
            self._schedule.deadlines.add(succession.replace_at, succession.dialogs[-1])

    def _write(self, key: str, succession: Succession) -> None:
        name = rows.SUCCESSION + key.encode()
        if succession.dialogs:
            self._outbox.write(name, encode_succession(succession))
        else:
            self._count -= 1
            self._outbox.write(name, None)


def _may_be_pooled(endpoint: Endpoint) -> bool:
    """Return False for most endpoints without the reading of a row: the group of a pooled dialog never has the key of a conversation."""
    return endpoint.initiator and endpoint.origin == "" and endpoint.key != uuid_text(endpoint.conversation)
