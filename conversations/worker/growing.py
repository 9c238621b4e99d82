"""Growing: the body of one message is joined while its fragments come, because at the end it would take a long time at once.

The fragments are rows too. So nothing depends on a body that grows: without it, the fragments are read from their rows.
"""

from __future__ import annotations

from io import BytesIO

from conversations.interpreter import trim
from conversations.protocol.envelope import Envelope
from conversations.protocol.fragments import is_last
from conversations.worker.joining import LARGE


class Growing:
    """The body of the largest message of which fragments come. Only one body grows at a time, because it may have many megabytes.

    ``most`` is the largest number of bytes that a body may have.
    """

    __slots__ = ("_body", "_fragments", "_most", "_next", "_own")

    def __init__(self, most: int) -> None:
        self._most = most
        self._own = b""
        self._fragments = 0
        self._next = -1
        """The number of the next fragment. The numbers of a dialog are never used again, so it tells the messages of a dialog apart."""
        self._body = BytesIO()

    def add(self, own: bytes, fragment: Envelope) -> None:
        """Add a fragment that is kept in a row now. ``own`` is the identity of its dialog."""
        if fragment.fragment == 0 and (own == self._own or fragment.fragments >= self._fragments):
            self._begin(own, fragment.seq, fragment.fragments)
            # The memory is asked for at once, and not touched. A buffer that grows would be copied again and again.
            self._body = BytesIO(bytes(min(fragment.fragments * len(fragment.body), self._most)))
        elif own != self._own:
            return
        elif fragment.seq != self._next:  # its partition was away, or its step was undone
            self._begin(b"", -1, 0)
            return
        self._body.write(fragment.body)
        self._next += 1

    def finish(self, own: bytes, last: Envelope) -> bytes | None:
        """Return the whole body of the message with this last fragment; None if it is not the one that grows."""
        if own != self._own:
            return None
        body, is_next = self._body, last.seq == self._next and is_last(last)
        self._begin(b"", -1, 0)
        if not is_next:
            return None
        body.write(last.body)
        if body.tell() >= LARGE:
            trim()
        body.truncate()
        return body.getvalue()

    def forget(self, own: bytes) -> None:
        """Forget the body of a message that is settled or given up on."""
        if own == self._own:
            self._begin(b"", -1, 0)

    def _begin(self, own: bytes, number: int, fragments: int) -> None:
        self._own, self._next, self._fragments, self._body = own, number, fragments, BytesIO()
