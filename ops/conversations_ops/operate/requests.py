"""Speaks for a service from a process that runs no worker of it: begins a dialog, sends, and waits for the reply.

Only the worker of a service gets its messages. So a terminal hosts nothing: the client appends a command, the workers of the service begin the
dialog and get the reply as always, and a ``Reader`` tells when they have accepted it. The bytes of the reply are then read from the queue.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, NamedTuple, cast

from conversations.bodies import codec_of
from conversations.client import Client
from conversations.config import Kafka, Periods
from conversations.dialog_view import DialogView, Status
from conversations.errors import InvalidBody, PeerError, UndecodableRecord
from conversations.kafka.offsets import Ends
from conversations.kafka.restore import BoundedReader
from conversations.ports import Record
from conversations.protocol.contract import Contract, MessageType
from conversations.protocol.envelope import Envelope, Kind, decode
from conversations.protocol.identifiers import read_handle
from conversations.protocol.topics import QUEUE, partition_of, service_topic
from conversations.reader import Reader
from conversations.service import Service

READ = 30.0
"""Seconds without progress after which the reading of a reply fails."""
BATCH = 5_000
"""Number of records that are read together."""


class Said(NamedTuple):
    """What is said on a dialog."""

    declared: MessageType
    body: Any
    size: int
    """Bytes of the encoded body."""
    key: str = ""
    """Idempotency key; empty for none."""
    end: bool = False
    """True if this side ends after the message."""


class Opening(NamedTuple):
    """A dialog to begin."""

    to: str
    contract: Contract
    id: str
    """A new UUIDv7. A repetition with the same id begins no second dialog."""
    lifetime: timedelta | None = None
    to_group: str | None = None


class Reply(NamedTuple):
    """The first message of the peer."""

    type: str
    data: bytes
    content_type: str


class Answer(NamedTuple):
    """What came of a request."""

    reply: Reply | None
    error: PeerError | None
    """The error with which the dialog ended, if there is no reply."""
    why: str
    """Why there is no reply; empty if there is one."""
    is_open: bool
    """True if this side of the dialog has not ended."""


def begin(client: Client, opening: Opening, said: Said) -> str:
    """Begin a dialog with a message, and return its id when Kafka has accepted the command.

    Raises:
        NotAccepted: Kafka did not confirm the command. It may still take effect; with the same id it takes effect only once.
        LocalError: something does not fit. Nothing was written.
    """
    dialog = client.begin_dialog(
        opening.to, opening.contract, id=opening.id, lifetime=opening.lifetime, to_group=opening.to_group
    )
    with dialog:
        _say(dialog, said)
    return dialog.id


def speak(client: Client, handle: str, said: Said) -> None:
    """Send a message on a dialog that has begun, and return when Kafka has accepted the command. It raises the errors of ``begin``."""
    with client.dialog(handle) as dialog:
        _say(dialog, said)


def _say(dialog: Any, said: Said) -> None:
    dialog.send(said.body, type=said.declared.name, key=said.key or None)
    if said.end:
        dialog.end()


class Listener:
    """Waits for the reply on a dialog that a service is about to begin. Make it before the dialog begins.

    Args:
        kafka: the cluster and namespace.
        service: the service that begins the dialog. Its workers get the reply.
        dialog_id: the id of the dialog.
        periods: the periods of the namespace.

    Raises:
        LogError: the queue cannot be read.
    """

    def __init__(self, kafka: Kafka, service: Service[Any], dialog_id: str, periods: Periods) -> None:
        self._kafka, self._name = kafka, read_handle(dialog_id)
        self._topic = service_topic(kafka.namespace, service.name, QUEUE)
        self._reader = Reader(service, kafka, periods=periods)
        ends = self._ends()
        self._place = self._topic, partition_of(self._name.key.encode(), len(ends))
        self._begin = ends[self._place]

    def wait(self, seconds: float) -> Answer:
        """Wait for the reply, or for the end of the dialog.

        Raises:
            RequestTimeout: neither came in time. The text says how the dialog stands.
            LogError: Kafka cannot be reached, or a topic cannot be read.
        """
        deadline = time.monotonic() + seconds
        with self._reader as reader:
            left = timedelta(seconds=max(0.0, deadline - time.monotonic()))
            view = reader.wait(self._name.text, timeout=left, until=_is_answered).result()
        messages, error = self._heard() if view.received.accepted or view.is_over else ({}, None)
        is_open = view.status is Status.OPEN
        if messages:
            return Answer(messages[min(messages)], None, "", is_open)
        if view.refused:
            return Answer(None, None, f"the workers refused the command: {view.refused[-1].text}", is_open)
        if error := error or view.error:
            return Answer(None, error, f"the dialog ended with an error: {error}", is_open)
        return Answer(None, None, "the peer ended the dialog without a reply", is_open)

    def _ends(self) -> dict[tuple[str, int], int]:
        return dict(Ends(self._kafka, [self._topic]).decided())

    def _heard(self) -> tuple[dict[int, Reply], PeerError | None]:
        """Return the messages of the peer by their numbers, and its error: a side that is over does not keep the text of an error."""
        messages: dict[int, Reply] = {}
        error: PeerError | None = None
        reader = BoundedReader(self._kafka, *self._place, self._begin, self._ends()[self._place], READ)
        try:
            while not reader.done:
                for record in cast("list[Record]", reader.read_records(BATCH)):
                    it = self._of_peer(record)
                    if it is not None and it.kind is Kind.MESSAGE:
                        messages.setdefault(it.seq, Reply(it.message_type, it.body, it.content_type))
                    elif it is not None and it.kind is Kind.ERROR:
                        error = error or PeerError(it.code, it.description)
        finally:
            reader.close()
        return messages, error

    def _of_peer(self, record: Record) -> Envelope | None:
        value = record.value() or b""
        if self._name.conversation not in value:
            return None
        try:
            envelope = decode(value)
        except UndecodableRecord:
            return None
        prefix = envelope.prefix
        return envelope if prefix.conversation_id == self._name.conversation and not prefix.from_initiator else None


def _is_answered(view: DialogView[Any]) -> bool:
    return bool(view.received.accepted or view.is_over or view.refused)


def shown(reply: Reply, contract: Contract) -> Any:
    """Return the body of a reply as plain data: decoded if its type has an Avro schema, else its bytes. Bytes that do not fit stay bytes."""
    declared = contract.by_target.get(reply.type)
    if declared is None or isinstance(declared.body, type | str | None):
        return reply.data
    try:
        return codec_of(declared).decode(reply.data)
    except InvalidBody:
        return reply.data
