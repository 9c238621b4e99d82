"""Dialogs of a client. Each write is a block, whose end writes all its requests as one command."""

from __future__ import annotations

import asyncio
import concurrent.futures
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, Self

from conversations.bodies import codec_of
from conversations.command_counts import CommandCounts
from conversations.config import Limits
from conversations.errors import (
    BodyTooLarge,
    DialogEnded,
    LocalError,
    NotAccepted,
    NotInContract,
    WrongDirection,
)
from conversations.ports import CommandSink
from conversations.protocol import admission, codes
from conversations.protocol.codes import LocalCode
from conversations.protocol.command import (
    Begin,
    Command,
    End,
    EndWithError,
    Operation,
    Reuse,
    Send,
    SetTimer,
    records_of,
)
from conversations.protocol.contract import Contract
from conversations.protocol.identifiers import Handle, uuid_text
from conversations.protocol.limits import COMMAND_BYTES, DESCRIPTION_LIMIT, OPERATIONS, sendable
from conversations.protocol.times import later
from conversations.tracing import Tracing, Written, headers_of


def now() -> int:
    """Return the time of this machine in microseconds since 1970."""
    return time.time_ns() // 1_000


class Writer(Protocol):
    """The client of a dialog: it knows the service, and writes the commands."""

    service_name: str
    timeout: timedelta
    limits: Limits
    counts: CommandCounts
    tracing: Tracing | None

    @property
    def commands_topic(self) -> str:
        """Name of the topic for its commands."""

    def contracts(self, *, initiates: bool) -> Sequence[Contract]:
        """Return the contracts that the service initiates, or those that it accepts."""

    def sink(self) -> CommandSink:
        """Return the connection for commands."""


class ClientBlock:
    """A block of a client, in which messages are sent. The end of the block writes all its requests as one command."""

    def __init__(
        self, client: Writer, name: Handle, contract: Contract | None, begin: Begin | Reuse | None = None
    ) -> None:
        self._client = client
        self._name = name
        self._contract = contract
        self._operations: list[Operation] = [] if begin is None else [begin]
        self._idempotency_key = ""
        self._ended = False
        self._inside = False
        self._before: tuple[list[Operation], bool] = (self._operations.copy(), False)
        """The requests in front of the block, and whether the dialog had ended. A block that fails leaves them as they were."""
        self._perhaps: tuple[list[Operation], str] = ([], "")
        """The requests and the key of the block that begins the dialog, if it was perhaps written."""
        self.to = ""
        """The service that the catalog must name; empty if the block begins no dialog, or its dialog may wait for the service."""

    def send(self, body: object, /, *, type: str | None = None, key: str | None = None) -> None:  # noqa: A002 - `type` is the word of this domain
        """Note a message to send.

        Args:
            body: the body. The message type decides its kind: a model, a mapping for an Avro schema, bytes, or None.
            type: name of the message type. Needed if several message types have the body's class.
            key: idempotency key of the block. If several blocks of a dialog have the same key, only the first block takes effect. A key is
                remembered for the period ``command_life``.

        Raises:
            DialogEnded, NotInContract, WrongDirection, InvalidBody, BodyTooLarge: the message is not noted.
            LocalError: the block has another key, or no block is open.
        """
        self._check_open(codes.SEND_REFUSED)
        if key is not None and self._idempotency_key not in {"", key}:
            raise LocalError(
                f"a block has one key, and this one has key={self._idempotency_key!r:.80}: send the message in a block of its own"
            )
        message_type = self._outgoing(body, type)
        codec = codec_of(message_type)
        data = codec.encode(body)
        limits = self._client.limits
        is_pooled = bool(self._operations) and isinstance(self._operations[0], Reuse)
        limit = limits.record_body if is_pooled else limits.body_bytes
        if len(data) > limit:
            raise admission.body_too_large(len(data), limit)
        if key is not None:
            self._idempotency_key = key
        self._operations.append(Send(message_type.name, codec.content_type, data))

    def _outgoing(self, body: object, name: str | None) -> Any:
        initiator = self._name.initiator
        if self._contract is not None:
            return self._contract.outgoing(body, name, initiator)
        # The client does not know the contract of the dialog. So the message must be one that this side may send under some contract.
        found, wrong = {}, None
        for contract in self._client.contracts(initiates=initiator):
            try:
                fitting = contract.outgoing(body, name, initiator)
            except WrongDirection as error:
                wrong = error
            except NotInContract:
                continue
            else:
                found[fitting.name] = fitting
        if len(found) == 1:
            return found.popitem()[1]
        if wrong is not None and not found:
            raise wrong
        verb = "initiates" if initiator else "accepts"
        why = f"{len(found)} message types of" if found else "no message type of"
        raise NotInContract(
            f"{why} the contracts that service {self._client.service_name!r} {verb} fit {body!r:.80}; "
            "name one with type=, and make the client with the Service object"
        )

    def _check_open(self, code: LocalCode) -> None:
        if not self._inside:
            raise LocalError(
                "a client's write is a block: use the verbs inside `with dialog:` or `async with dialog:`; "
                "the end of the block sends the requests"
            )
        if self._ended:
            raise DialogEnded(f"the dialog was ended in this block ({code.number})", code=code)

    # -- leaving the block --------------------------------------------------------------------------

    def append(self) -> concurrent.futures.Future[None] | None:
        """Write the noted requests as one command. The future ends when Kafka has it; None if there are no requests.

        Raises:
            BodyTooLarge: the requests do not fit into one command (8459). Nothing was written.
        """
        block = (self._operations, self._idempotency_key)
        if self._perhaps[0] and block != self._perhaps:
            raise LocalError(
                "the block before, which begins the dialog, was not confirmed and may take effect: repeat it first, or begin another dialog"
            )
        operations, self._operations = self._operations, []
        if not operations or isinstance(operations[-1], Reuse):
            return None
        if len(operations) > OPERATIONS:
            raise BodyTooLarge(
                f"the block makes {len(operations)} requests; at most {OPERATIONS} fit into one command (8459)"
            )
        command = Command(
            secrets.token_bytes(16), self._name.conversation, self._name.initiator, self._name.key, self._idempotency_key,
            self._client.service_name, now(), tuple(operations),
        )  # fmt: skip
        limit = self._client.limits.body_bytes + COMMAND_BYTES
        size = sum(len(it.body) for it in operations if isinstance(it, Send))
        if size > limit:
            raise BodyTooLarge(
                f"the messages of the block have {size} bytes; at most {limit} fit into one command (8459)"
            )
        values = records_of(command)
        tracing = self._client.tracing
        if tracing is None:
            future = self._client.sink().append_async(self._name.key.encode(), values, to=self.to)
        else:
            future = self._append_traced(values, tracing, operations)
        if isinstance(operations[0], Begin):
            self._perhaps = block
        future.add_done_callback(self._client.counts.ended)
        return future

    def _append_traced(
        self, values: Sequence[bytes], tracing: Tracing, operations: Sequence[Operation]
    ) -> concurrent.futures.Future[None]:
        """Append the command in a span that lasts until Kafka has it."""
        span = tracing.writing(
            Written(
                self._client.service_name, self._client.commands_topic, uuid_text(self._name.conversation), isinstance(operations[0], Begin),
                sum(isinstance(it, Send) for it in operations),
            )
        )  # fmt: skip
        span.begin()
        try:
            future = self._client.sink().append_async(
                self._name.key.encode(), values, headers_of(span.trace) or None, to=self.to
            )
        except BaseException as error:
            span.end(error)
            raise
        span.leave()
        future.add_done_callback(lambda done: span.end(None if done.cancelled() else done.exception()))
        return future

    def _begin_block(self) -> None:
        self._inside, self._idempotency_key = True, ""
        self._before = (self._operations.copy(), self._ended)

    def _give_up(self) -> None:
        """Take back the requests of a block that was not written, or perhaps not. A repetition begins the dialog too, which takes effect once."""
        self._operations, self._ended = self._before[0].copy(), self._before[1]

    @contextmanager
    def _confirming(self) -> Iterator[None]:
        """Take the requests of the block back if they are not confirmed.

        Raises:
            NotAccepted: Kafka did not confirm the command in time.
        """
        try:
            yield
        except BaseException as failure:
            self._give_up()
            if isinstance(failure, TimeoutError):
                raise self.unconfirmed() from None
            raise
        self._perhaps = ([], "")

    def __enter__(self) -> Self:
        self._begin_block()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the requests of the block and wait until Kafka has them.

        Raises:
            NotAccepted: Kafka did not confirm the command in time.
            UnknownService: the catalog does not name the service with which the block begins a dialog (8490). Nothing was written.
            BodyTooLarge: the requests do not fit into one command (8459). Nothing was written.
        """
        self._inside = False
        if kind is not None:
            self._give_up()
            return
        with self._confirming():
            future = self.append()
            if future is not None:
                future.result(self._client.timeout.total_seconds())

    async def __aenter__(self) -> Self:
        self._begin_block()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the requests of the block as ``__exit__`` does, but without blocking the event loop."""
        self._inside = False
        if kind is not None:
            self._give_up()
            return
        with self._confirming():
            future = self.append()
            if future is not None:
                async with asyncio.timeout(self._client.timeout.total_seconds()):
                    await asyncio.wrap_future(future)

    def unconfirmed(self) -> NotAccepted:
        """Return the error for requests that Kafka did not confirm in time. It tells how to repeat them without a second effect."""
        if self._idempotency_key:
            again = f"repeat the block with the same key={self._idempotency_key!r:.80}: it takes effect only once"
        else:
            again = "a repetition of the block could take effect a second time; blocks with send(..., key=KEY) can be repeated"
        return self._unconfirmed(again)

    def _unconfirmed(self, again: str) -> NotAccepted:
        waited = self._client.timeout.total_seconds()
        return NotAccepted(
            f"dialog {self._name.text}: not confirmed within {waited:g} s. The requests may still take effect: {again}"
        )


class ClientDialog(ClientBlock):
    """A dialog, for use by a client in a block.

    The end of the block writes all its requests as one command. So the requests take effect together. If a block only begins a dialog, the
    other service learns of the dialog with the first message of a later block.
    """

    @property
    def id(self) -> str:
        """Id for ``Client.dialog``, valid in every process.

        It is the conversation id. If the service accepted the dialog, ``:target`` follows. If the group has another key than the
        conversation id, ``@`` and this key follow.
        """
        return self._name.text

    def end(self) -> None:
        """Note the request to end this side.

        Raises:
            DialogEnded: an earlier request of this block ended the dialog (8427).
        """
        self._check_open(codes.END_REFUSED)
        self._ended = True
        self._operations.append(End())

    def end_with_error(self, code: int, description: str) -> None:
        """Note the request to end this side with an error. The messages that this block has noted are dropped.

        Raises:
            DialogEnded: an earlier request of this block ended the dialog (8427).
            LocalError: the code is not positive (8419), or the description is missing (8422).
        """
        self._check_open(codes.END_REFUSED)
        admission.check_error(code, description)
        self._ended = True
        self._operations = [operation for operation in self._operations if isinstance(operation, Begin)]
        self._operations.append(EndWithError(code, sendable(description, DESCRIPTION_LIMIT)))

    def set_timer(self, after: timedelta, *, name: str = "") -> None:
        """Note the request to set a timer of the dialog. The time begins when the owner of the dialog carries out the command.

        Args:
            after: the time from then.
            name: name of the timer, as in ``Dialog.set_timer``. A second request with the same name replaces the time.

        Raises:
            DialogEnded: an earlier request of this block ended the dialog (8458).
            LocalError: the name is not valid. Or the block begins the dialog, and the timer is not due before the end of its lifetime (8410). In
                other blocks, the owner of the dialog refuses the command. It also refuses a command that sets more than 16 timers with names.
        """
        self._check_open(codes.TIMER_REFUSED)
        admission.check_timer_name(name)
        due = later(0, admission.micros(after, "a timer"))
        begun = self._operations[0] if self._operations else None
        if isinstance(begun, Begin) and begun.lifetime > 0:
            admission.check_timer_time(due, begun.lifetime)
        self._operations.append(SetTimer(due, name))

    def cancel_timer(self, *, name: str = "") -> None:
        """Note the request to cancel the dialog's timer of this name.

        Raises:
            LocalError: no timer can have this name.
        """
        self._check_open(codes.TIMER_REFUSED)
        admission.check_timer_name(name)
        self._operations.append(SetTimer(-1, name))

    def unconfirmed(self) -> NotAccepted:
        """Return the error for requests that Kafka did not confirm in time. It tells how to repeat them without a second effect."""
        if not self._perhaps[0]:
            return super().unconfirmed()
        return self._unconfirmed(
            "repeat the block with the same dialog object, or "
            f"begin it again with the same id={uuid_text(self._name.conversation)!r}, in a block with the same requests: they take effect only "
            "once. Draw the id before the block, with client.new_id()"
        )
