"""The object with which a handler sends messages for a key of a pool."""

from __future__ import annotations

from typing import Protocol

from conversations.handlers import Side
from conversations.pool import Pool
from conversations.protocol import admission
from conversations.protocol.command import Reuse, Send


class Notes(Protocol):
    """The draft that notes the messages."""

    def check_open(self) -> None:
        """Check that the handler's run is not over.

        Raises:
            HandlerOver: the run is over, so the request would be lost.
        """

    def note_pooled(self, group: str, reuse: Reuse, send: Send) -> None:
        """Note a message for a key of a pool; ``group`` is the key of its conversation group."""


class PoolSender:
    """Sends messages for one key of a pool, after the handler has returned."""

    __slots__ = ("_body_limit", "_group", "_notes", "_reuse", "_side")

    def __init__(self, notes: Notes, side: Side, pool: Pool, key: str, body_limit: int) -> None:
        self._notes = notes
        self._side = side
        self._group = pool.group(key)
        self._reuse = pool.reuse(key)
        self._body_limit = body_limit

    def send(self, body: object, /, *, type: str | None = None) -> None:  # noqa: A002 - `type` is the word of this domain
        """Send a message on the dialog of the key, after this handler has returned.

        Args:
            body: the body. The message type decides its kind: a model, a mapping for an Avro schema, bytes, or None.
            type: name of the message type. Needed if several message types have the body's class.

        Raises:
            HandlerOver: the handler's run is over.
            NotInContract: the contract does not know the message type (8431).
            WrongDirection: only the other side may send the message type (8432, 8434).
            InvalidBody: the body is not valid (9615).
            BodyTooLarge: the body is larger than a message may be (8459).
        """
        self._notes.check_open()
        codec = self._side.outgoing(body, type)
        data = codec.encode(body)
        if len(data) > self._body_limit:
            raise admission.body_too_large(len(data), self._body_limit)
        self._notes.note_pooled(self._group, self._reuse, Send(codec.name, codec.content_type, data))
