"""Feeds: the records of a plain topic begin dialogs of a service.

A **feed** is a plain topic and a function that turns each of its records into the first messages of a new dialog. The function has no effects:
what it returns is appended to the commands topic of the service, as the command of a client would be. The offset of the record is committed in
the same transaction. So each record begins one dialog, whatever fails.
"""

from __future__ import annotations

import inspect
import logging
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Self, TypeVar, get_args

from conversations.bodies import codec_of, said
from conversations.errors import BodyTooLarge, DeclarationError, LocalError
from conversations.headers import read_headers
from conversations.ports import Produced, Record
from conversations.protocol.admission import (
    body_too_large,
    check_key,
    check_to_group,
    chosen_lifetime,
    command_too_large,
)
from conversations.protocol.command import Begin, Command, End, Operation, Send, encode_command
from conversations.protocol.contract import Contract, as_contracts
from conversations.protocol.limits import COMMAND_BYTES, OPERATIONS
from conversations.protocol.plain_records import PlainRecord, Source, copies, time_of
from conversations.protocol.topics import COMMANDS, check_name, check_plain, partition_of, service_topic
from conversations.tracing import headers_of, trace_of

log = logging.getLogger("conversations.feeds")

Start = Literal["earliest", "latest"]
F = TypeVar("F", bound=Callable[[PlainRecord], object])
TOLD_EVERY = 100
"""After the first refused record of a feed, only one in this many is a line in the log. Each is a dead letter and an event."""
STACK_LINES = 6


class NewDialog:
    """The dialog that a record begins, and what it sends. The function of a feed returns it.

    ``NewDialog(Placed(id=7), group="customer-4")`` sends one message. ``send`` adds a message whose type must be named, and ``end`` ends the
    side of the service after its messages.

    Args:
        bodies: bodies of the messages, in order. The class of a body decides its message type.
        group: key of the conversation group of the dialog at this service; by default the dialog gets a group of its own.
        to_group: key of the group at the target, if the contract has ``group_named_by``.
        lifetime: lifetime of the dialog, instead of the contract's. If the contract sets a lifetime, it is the longest.
    """

    def __init__(
        self,
        *bodies: object,
        group: str | None = None,
        to_group: str | None = None,
        lifetime: timedelta | None = None,
    ) -> None:
        self.group, self.to_group, self.lifetime = group, to_group, lifetime
        self.messages: list[tuple[object, str | None]] = [(body, None) for body in bodies]
        self.ends = False

    def send(self, body: object, /, *, type: str | None = None) -> Self:  # noqa: A002 - `type` is the word of this domain
        """Add a message. ``type`` is the name of its message type, if several types have the body's class."""
        self.messages.append((body, type))
        return self

    def end(self) -> Self:
        """End the side of the service after its messages."""
        self.ends = True
        return self


@dataclass(frozen=True, slots=True)
class Feed:
    """One declared feed: see ``Service.from_topic``."""

    topic: str
    to: str
    contract: Contract
    start: Start
    function: Callable[[PlainRecord], object]
    name: str
    """Name of the function."""


@dataclass(slots=True)
class FeedCounts:
    """Counts of one feed in one process since it started. Each counts records whose transaction is committed."""

    begun: int = 0
    """Records that began a dialog."""
    skipped: int = 0
    """Records for which the function returned None."""
    refused: int = 0
    """Records that became dead letters, because they could not be turned into messages."""

    def add(self, other: FeedCounts) -> None:
        """Add the counts of a committed transaction."""
        self.begun += other.begun
        self.skipped += other.skipped
        self.refused += other.refused


def add_feed(service: str, feeds: dict[str, Feed], topic: str, feed: Feed) -> None:
    """Add the feed of a topic to the feeds of a service.

    Raises:
        DeclarationError: the topic has a feed already.
    """
    if topic in feeds:
        raise DeclarationError(
            f"service {service!r} has a function for records of {topic} already: {feeds[topic].name}"
        )
    feeds[topic] = feed


def declared_feed(
    service: str, initiates: Mapping[str, Contract], given: tuple[str, str, Contract, object], function: object
) -> Feed:
    """Return the feed for a function. ``given`` are the arguments of ``Service.from_topic``.

    Raises:
        DeclarationError: the function takes other arguments or is ``async def``, the service does not initiate the contract, a name is not
            valid, or ``start`` is neither "earliest" nor "latest".
    """
    topic, to, contract, start = given
    name = getattr(function, "__qualname__", repr(function))
    if not callable(function) or isinstance(function, type):
        raise DeclarationError(f"@from_topic is for a function, not {name}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise DeclarationError(
            f"{name} turns a record into messages, and waits for nothing: write it as `def`, with return"
        )
    try:
        inspect.signature(function).bind("record")
    except TypeError as error:
        raise DeclarationError(f"{name} must take (record): {error}") from error
    except ValueError:  # a builtin without a signature
        pass
    as_contracts("contract", [contract])
    if initiates.get(contract.name) is not contract:
        raise DeclarationError(
            f"{name}: service {service!r} does not initiate contract {contract.name!r}: add it to initiates=[...]"
        )
    if contract.shares_groups and not contract.may_name_group(service):
        raise DeclarationError(
            f"{name}: contract {contract.name!r} does not let service {service!r} name the group at the target: add it to group_named_by=[...]"
        )
    if start not in get_args(Start):
        raise DeclarationError(
            f'{name}: say where the first start begins: start="earliest" for all records that {topic} has, '
            f'start="latest" for those that come later, not {start!r:.80}'
        )
    chosen: Start = "earliest" if start == "earliest" else "latest"
    return Feed(check_plain(topic, "from_topic"), check_name("service", to), contract, chosen, function, name)


class Turning:
    """Turns the records of one feed into records of the service's commands topic.

    Args:
        feed: the feed.
        source: the topic and the service.
        partitions: partition count of the service.
        body_limit: largest body of a message, in bytes.
        failed: called with the exception of a function that fails.
    """

    def __init__(
        self,
        feed: Feed,
        source: Source,
        partitions: int,
        body_limit: int,
        failed: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        self._feed, self._source = feed, source
        self._partitions, self._limit = partitions, body_limit
        self._topic = service_topic(source.namespace, source.service, COMMANDS)
        self._failed = failed
        self._refused = 0

    def turn(self, records: Sequence[Record], now: int) -> tuple[list[Produced], FeedCounts]:
        """Return what is appended for some records, and the counts. ``now`` is the time of the commands, in microseconds since 1970."""
        outs: list[Produced] = []
        counts = FeedCounts()
        for record in records:
            headers = read_headers(record)
            plain = PlainRecord(
                topic=record.topic(), partition=record.partition(), offset=record.offset(), key=record.key(), value=record.value(),
                headers=tuple(headers or ()), timestamp=time_of(*record.timestamp()),
            )  # fmt: skip
            try:
                if headers is None:
                    raise LocalError("the headers of the record cannot be read: a name is not UTF-8")
                begun = self._begin(plain, now)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - a function may raise anything, and its record must not be lost
                counts.refused += 1
                outs += self._refuse(plain, error)
                continue
            if begun is None:
                counts.skipped += 1
            else:
                counts.begun += 1
                outs.append(begun)
        return outs, counts

    def _begin(self, record: PlainRecord, now: int) -> Produced | None:
        feed = self._feed
        returned = feed.function(record)
        if returned is None:
            return None
        if inspect.isawaitable(returned):
            with suppress(AttributeError):
                returned.close()  # type: ignore[attr-defined]  # otherwise Python warns that the coroutine was never awaited
            raise TypeError(
                f"{feed.name} returned something to await: it turns a record into messages, and waits for nothing"
            )
        dialog = returned if isinstance(returned, NewDialog) else NewDialog(returned)
        conversation = self._source.id_of(record.partition, record.offset)
        key = str(conversation) if dialog.group is None else dialog.group
        check_key(key)
        # The same record gives the same content, also in another process. So a second command of this id has no effect.
        command = Command(
            conversation.bytes, conversation.bytes, True, key, "", self._source.service, now, self._operations(dialog)
        )
        value = encode_command(command)
        if len(value) > COMMAND_BYTES:
            raise command_too_large("the messages have", len(value))
        headers = headers_of(trace_of(record.headers)) or None
        return self._topic, partition_of(key.encode(), self._partitions), key.encode(), value, headers

    def _operations(self, dialog: NewDialog) -> tuple[Operation, ...]:
        contract = self._feed.contract
        check_to_group(contract, self._source.service, dialog.to_group)
        lifetime = 0
        if dialog.lifetime is not None:
            lifetime = chosen_lifetime(dialog.lifetime, contract)
        if not dialog.messages:
            raise LocalError(
                "a new dialog sends at least one message; a function returns None for a record that is not for it"
            )
        if len(dialog.messages) > OPERATIONS - 2:
            raise BodyTooLarge(
                f"a record begins a dialog with {len(dialog.messages)} messages; at most {OPERATIONS - 2} fit into one command (8459)"
            )
        begin = Begin(self._feed.to, contract.name, lifetime, dialog.to_group or "")
        sent = [self._send(contract, body, name) for body, name in dialog.messages]
        return (begin, *sent, End()) if dialog.ends else (begin, *sent)

    def _send(self, contract: Contract, body: object, name: str | None) -> Send:
        declared = contract.outgoing(body, name, from_initiator=True)
        codec = codec_of(declared)
        data = codec.encode(body)
        if len(data) > self._limit:
            raise body_too_large(len(data), self._limit)
        return Send(declared.name, codec.content_type, data)

    def _refuse(self, record: PlainRecord, error: BaseException) -> list[Produced]:
        """Return the copies of a record that begins no dialog. The service's worker makes a dead letter of each."""
        self._failed(error)
        feed, place = self._feed, f"{record.topic} partition {record.partition} offset {record.offset}"
        why = f"{feed.name} cannot turn the record of {place} into a message: {type(error).__name__}: {said(error)}"
        if self._refused % TOLD_EVERY == 0:
            log.warning(
                "service %s: %.500s; it becomes a dead letter", self._source.service, why, extra={"service": self._source.service}
            )  # fmt: skip
        self._refused += 1
        with suppress(Exception):  # the reason without a stack is better than no reason
            why += "\n" + "".join(traceback.format_tb(error.__traceback__)[-STACK_LINES:])
        name = str(self._source.id_of(record.partition, record.offset)).encode()
        partition = partition_of(name, self._partitions)
        return [(self._topic, partition, None, value, headers) for value, headers in copies(record, why)]


class Feeder:
    """Reads the topic of one feed, in a thread of its own, until ``stop``. Subclasses read from Kafka or from memory."""

    def __init__(self, service: str, feed: Feed) -> None:
        self.service, self.feed = service, feed
        self.counts = FeedCounts()
        self.trouble = ""
        """What the feed waits for; empty while it reads."""
        self.stopping = threading.Event()

    def check(self) -> None:
        """Check, before the worker starts, that the topic can be read.

        Raises:
            LogError: the topic is missing, or the right to read it is.
        """

    def run(self) -> None:
        """Read until ``stop``."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ask ``run`` to end after its transaction. Any thread, and any signal handler, may call this method."""
        self.stopping.set()

    def condition(self) -> dict[str, Any]:
        """Return the condition of the feed, as plain data for the health page."""
        counts = self.counts
        return {
            "topic": self.feed.topic, "begun": counts.begun, "skipped": counts.skipped, "refused": counts.refused, "trouble": self.trouble,
        }  # fmt: skip
