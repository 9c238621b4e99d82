"""Clients, which speak for a service outside its handlers: in web servers, scripts and tests.

A client appends commands to the commands topic of its own service. The worker that owns the dialog carries them out: it numbers the
messages and transmits them. Every write is a block, ``with`` or ``async with``. The verbs in the block only note requests. The end of the
block writes all requests as one command. A block that ends with an exception writes nothing.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import secrets
import time
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from conversations.bodies import codec_of
from conversations.config import Kafka, Limits, Periods, check_kafka
from conversations.errors import (
    BodyTooLarge,
    DialogEnded,
    LocalError,
    NotAccepted,
    NotInContract,
    NoWorkerHere,
)
from conversations.group_state import GroupState, read_state
from conversations.hosts import find
from conversations.new_ids import checked, draw, draw_for
from conversations.pending import Pending
from conversations.ports import CommandSink, StateReader
from conversations.protocol import admission, codes
from conversations.protocol.codes import LocalCode
from conversations.protocol.command import Begin, Command, End, EndWithError, Operation, Send, SetTimer, encode_command
from conversations.protocol.contract import Contract, as_message_type
from conversations.protocol.endpoint import NEVER
from conversations.protocol.identifiers import handle, read_handle, uuid_text
from conversations.protocol.limits import COMMAND_BYTES, DESCRIPTION_LIMIT, OPERATIONS, sendable
from conversations.protocol.times import later
from conversations.service import Service

M = TypeVar("M")
N = TypeVar("N")

DEFAULT_TIMEOUT = timedelta(seconds=30)


def _now() -> int:
    return time.time_ns() // 1_000


class ClientDialog(AbstractContextManager["ClientDialog"], AbstractAsyncContextManager["ClientDialog"]):
    """A dialog, for use by a client in a block.

    The end of the block writes all its requests as one command. So the requests take effect together. If a block only begins a dialog, the
    other service learns of the dialog with the first message of a later block.
    """

    def __init__(self, client: Client, conversation: bytes, key: str, contract: Contract | None) -> None:
        self._client = client
        self._conversation = conversation
        self._key = key
        self._contract = contract
        self._operations: list[Operation] = []
        self._idempotency_key = ""
        self._ended = False
        self._inside = False
        self._to = ""
        """The service that the catalog must name; empty if the block begins no dialog, or its dialog may wait for the service."""

    @property
    def id(self) -> str:
        """Id for ``Client.dialog``, valid in every process.

        It is the conversation id, followed by ``@`` and the key of the group if the dialog was begun with ``group=``.
        """
        return handle(self._conversation, self._key)

    def send(self, body: object, /, *, type: str | None = None, key: str | None = None) -> None:  # noqa: A002 - `type` is the word of this domain
        """Note a message to send.

        Args:
            body: the body. The message type decides its kind: a model, a mapping for an Avro schema, bytes, or None.
            type: name of the message type. Needed if several message types have the body's class.
            key: idempotency key. If several blocks of a dialog have the same key, only the first block takes effect. A key is
                remembered for the period ``command_life``.

        Raises:
            DialogEnded, NotInContract, WrongDirection, InvalidBody, BodyTooLarge: the message is not noted.
        """
        self._check_open(codes.SEND_REFUSED)
        message_type = self._outgoing(body, type)
        codec = codec_of(message_type)
        data = codec.encode(body)
        limit = self._client.limits.body_bytes
        if len(data) > limit:
            raise admission.body_too_large(len(data), limit)
        if key is not None:
            self._idempotency_key = key
        self._operations.append(Send(message_type.name, codec.content_type, data))

    def _outgoing(self, body: object, name: str | None) -> Any:
        if self._contract is not None:
            return self._contract.outgoing(body, name, from_initiator=True)
        found = {t.name: t for contract in self._client.contracts() for t in contract.sendable(True).values()}
        if name is None and type(body) is not bytes:
            by_class = {t.body: t.name for t in found.values() if isinstance(t.body, type)}
            name = by_class.get(type(body)) or as_message_type(type(body)).name
        if name in found:
            return found[name]
        raise NotInContract(
            f"no contract that service {self._client.service_name!r} initiates has a message type for {body!r:.80}; "
            "name it with type=, and make the client with the Service object"
        )

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

    def set_timer(self, after: timedelta) -> None:
        """Note the request to set the dialog's timer. The time begins when the owner of the dialog carries out the command.

        Raises:
            DialogEnded: an earlier request of this block ended the dialog (8458).
            LocalError: the block begins the dialog, and the timer is not due before the end of its lifetime (8410). In other blocks, the
                owner of the dialog refuses the command.
        """
        self._check_open(codes.TIMER_REFUSED)
        due = later(0, admission.micros(after, "a timer"))
        begun = self._operations[0] if self._operations else None
        if isinstance(begun, Begin) and begun.lifetime > 0:
            admission.check_timer_time(due, begun.lifetime)
        self._operations.append(SetTimer(due))

    def cancel_timer(self) -> None:
        """Note the request to cancel the dialog's timer."""
        self._check_open(codes.TIMER_REFUSED)
        self._operations.append(SetTimer(-1))

    def _check_open(self, code: LocalCode) -> None:
        if not self._inside:
            raise LocalError(
                "a client's write is a block: use the verbs inside `with dialog:` or `async with dialog:`; "
                "the end of the block sends the requests"
            )
        if self._ended:
            raise DialogEnded(f"the dialog was ended in this block ({code.number})", code=code)

    # -- leaving the block --------------------------------------------------------------------------

    def _append(self) -> concurrent.futures.Future[None] | None:
        operations, self._operations = self._operations, []
        if not operations:
            return None
        if len(operations) > OPERATIONS:
            raise BodyTooLarge(
                f"the block makes {len(operations)} requests; at most {OPERATIONS} fit into one command (8459)"
            )
        command = Command(
            secrets.token_bytes(16), self._conversation, True, self._key, self._idempotency_key,
            self._client.service_name, _now(), tuple(operations),
        )  # fmt: skip
        value = encode_command(command)
        if len(value) > COMMAND_BYTES:
            raise admission.command_too_large("the requests of the block have", len(value))
        sink = self._client._sink()  # noqa: SLF001 - same module
        return sink.append_async(self._key.encode(), value, to=self._to)

    def __enter__(self) -> Self:
        self._inside = True
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
            return
        future = self._append()
        if future is not None:
            try:
                future.result(self._client.timeout.total_seconds())
            except TimeoutError:
                raise self._unconfirmed() from None

    async def __aenter__(self) -> Self:
        self._inside = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the requests of the block as ``__exit__`` does, but without blocking the event loop."""
        self._inside = False
        if kind is not None:
            return
        future = self._append()
        if future is not None:
            try:
                async with asyncio.timeout(self._client.timeout.total_seconds()):
                    await asyncio.wrap_future(future)
            except TimeoutError:
                raise self._unconfirmed() from None

    def _unconfirmed(self) -> NotAccepted:
        """Return the error for requests that Kafka did not confirm in time. It tells how to repeat them without a second effect."""
        if self._contract is not None:
            again = (
                f"begin it again with the same id={uuid_text(self._conversation)!r}, in a block with the same requests: they take effect only "
                "once. Draw the id before the block, with client.new_id()"
            )
        elif self._idempotency_key:
            again = f"repeat the block with the same key={self._idempotency_key!r:.80}: it takes effect only once"
        else:
            again = "a repetition of the block could take effect a second time; blocks with send(..., key=KEY) can be repeated"
        waited = self._client.timeout.total_seconds()
        return NotAccepted(
            f"dialog {self.id}: not confirmed within {waited:g} s. The requests may still take effect: {again}"
        )


class Client(AbstractContextManager["Client"], AbstractAsyncContextManager["Client"]):
    """A client speaks for one service. It is thread-safe. Making a client does no I/O, so a client may be made before a fork.

    Args:
        service: the service, or its name. To send on dialogs that this client did not begin, the client needs the ``Service`` object.
        kafka: the cluster.
        timeout: how long a block waits for Kafka's confirmation.
        periods: the periods of the namespace. The workers must have the same periods.

    Raises:
        DeclarationError: ``kafka`` is not a ``Kafka``.
        LocalError: ``timeout`` is not a timedelta.
    """

    def __init__(
        self,
        service: str | Service[Any],
        kafka: Kafka,
        *,
        timeout: timedelta = DEFAULT_TIMEOUT,
        periods: Periods | None = None,
    ) -> None:
        check_kafka(kafka)
        admission.micros(timeout, "timeout")
        self._service = service if isinstance(service, Service) else None
        self.service_name = service.name if isinstance(service, Service) else service
        self.timeout = timeout
        self._periods = periods or Periods()
        self.limits = Limits()
        self._kafka = kafka
        self._sinks: dict[str, CommandSink] = {}
        self._readers: dict[tuple[str, int], StateReader] = {}
        self._used: dict[str, Contract] = {}

    def _check_usable(self) -> None:
        """Check that the client can be used now. A client on Kafka can always be used. Called before each use of the client."""

    @property
    def address(self) -> str:
        """Bootstrap address and namespace; the key by which the client finds a worker in its process."""
        return f"{self._kafka.bootstrap}/{self._kafka.namespace}"

    def _sink(self) -> CommandSink:
        """Return the connection for commands; connect on first use."""
        self._check_usable()
        sink = self._sinks.get(self.service_name)
        if sink is None:
            from conversations.kafka.commands import CommandProducer

            # ``setdefault`` is atomic, so two threads that connect at the same time use the same connection.
            sink = self._sinks.setdefault(self.service_name, CommandProducer(self._kafka, self.service_name))
        return sink

    def contracts(self) -> list[Contract]:
        """Return the contracts that the service initiates. If none is known, return the contracts of the dialogs that this client began."""
        declared = list(self._service.initiates.values()) if self._service is not None else []
        return declared or list(self._used.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the connection. Each block has already waited for its own write."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close the connection as ``__exit__`` does, but without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Close the connections. The next use of the client opens new connections."""
        self._readers.clear()
        sink = self._sinks.pop(self.service_name, None)
        if sink is not None:
            sink.close()

    @staticmethod
    def new_id() -> str:
        """Draw a conversation id (UUIDv7), for example before a form is served. Two blocks with the same id begin only one dialog."""
        return str(draw())

    def begin_dialog(
        self, to: str, contract: Contract, *, id: str | None = None, group: str | None = None, lifetime: timedelta | None = None,  # noqa: A002 - the word users know
        to_group: str | None = None, wait_for_service: bool = False,
    ) -> ClientDialog:  # fmt: skip
        """Begin a dialog, as a block. The end of the block checks that the catalog names the service ``to``.

        Args:
            to: name of the other service.
            contract: the contract of the dialog. The service must initiate it.
            id: a UUIDv7 from ``new_id``; by default a new id. A second begin with the same id has no effect.
            group: key of the conversation group; by default the dialog gets a group of its own. With a group, the id for ``dialog`` is
                not ``id`` alone: keep ``ClientDialog.id``, which is ``ID@GROUP``.
            lifetime: lifetime of this dialog, instead of the contract's lifetime.
            to_group: key of the conversation group at the target. Needed if the contract has ``group_named_by``, else forbidden.
            wait_for_service: if True, the messages of the dialog wait until the catalog names the service.

        Raises:
            UnknownContract: the service does not initiate the contract (8425).
            LocalError: the id is not a UUIDv7, the lifetime is not positive, ``to`` or ``group`` is not a valid name or key,
                ``contract`` is not a ``Contract``, or ``to_group`` does not fit the contract (8494).
        """
        self._check_usable()
        admission.check_service(to)
        admission.check_contract(contract)
        if group is not None:
            admission.check_key(group)
        if self._service is not None and self._service.initiates.get(contract.name) is not contract:
            mend = "name it in initiates=[...] of the service, or of local(...)"
            raise admission.not_initiated(self.service_name, contract.name, mend)
        admission.check_to_group(contract, self.service_name, to_group)
        conversation = draw() if id is None else checked(id)
        self._used[contract.name] = contract
        dialog = ClientDialog(self, conversation.bytes, group or str(conversation), contract)
        now = _now()
        until = admission.expiry(now, lifetime, contract, self._periods.lifetime)
        begin = Begin(to, contract.name, -1 if until >= NEVER else until - now, to_group or "")
        dialog._operations.append(begin)  # noqa: SLF001 - same module
        dialog._to = "" if wait_for_service else to  # noqa: SLF001 - same module
        return dialog

    def dialog(self, id: str) -> ClientDialog:  # noqa: A002 - the word users know
        """Return an existing dialog, as a block. ``id`` is the ``id`` of its ``ClientDialog``: ``ID@GROUP`` if it was begun with ``group=``.

        The client does not know whether the dialog exists. If it never existed or is over, the end of the block raises nothing. The worker
        refuses the requests: with a warning in its log, the event ``COMMAND_REFUSED`` and a dead letter.

        Raises:
            LocalError: ``id`` is not the id of a dialog (8426).
        """
        self._check_usable()
        conversation, key = read_handle(id)
        admission.check_key(key)
        return ClientDialog(self, conversation, key, None)

    def state(self, service: Service[Any], group: str, *, begun_by: str | None = None) -> GroupState | None:
        """Read the state of a conversation group: ``client.state(accounts, "account-42")``. Return None if the group has no state.

        The result has a copy of the state, and the time of the reading. A change of the copy has no effect.

        The method waits for Kafka. In ``async`` code, use ``await asyncio.to_thread(client.state, accounts, "account-42")``. The first call
        for a partition reads all states of the partition, and keeps them in memory. Each later call reads only the changes.

        Args:
            service: the ``Service`` object of the service that has the group. Its class decodes the state.
            group: key of the group. It is the name that initiators gave with ``to_group``, or the ``group=`` of a client's dialog, or
                ``dialog.group.key`` in a handler.
            begun_by: leave it out for a group that has its name from ``to_group``, and for a group that the service itself began. For any
                other group, give the name of the service that began the group's dialogs with this service.

        Raises:
            LocalError: ``service`` is no ``Service``, or ``group`` is not a valid key.
            DeclarationError: the catalog does not name the service.
            StateUpgradeError: the stored state does not load.
            LogError: Kafka cannot be reached, or the state cannot be read.
        """
        self._check_usable()
        if not isinstance(service, Service):
            raise LocalError(f"state takes the Service object, whose class decodes the state, not {service!r:.80}")
        admission.check_key(group)
        name = service.name, os.getpid()  # after a fork, the child needs connections of its own
        reader = self._readers.get(name)
        if reader is None:
            reader = self._readers.setdefault(name, self.state_reader(service.name))
        return read_state(reader, service.state, group, begun_by)

    def state_reader(self, service: str) -> StateReader:
        """Return a reader for the states of a service."""
        from conversations.kafka.group_states import GroupStates

        return GroupStates(self._kafka, service, self._periods)

    @overload
    def request(
        self,
        to: str,
        contract: Contract,
        body: object,
        *,
        reply: type[M],
        timeout: timedelta,
        to_group: str | None = None,
    ) -> Pending[M]: ...
    @overload
    def request(
        self,
        to: str,
        contract: Contract,
        body: object,
        *,
        reply: tuple[type[M], type[N]],
        timeout: timedelta,
        to_group: str | None = None,
    ) -> Pending[M | N]: ...
    @overload
    def request(
        self,
        to: str,
        contract: Contract,
        body: object,
        *,
        reply: tuple[type[M], ...],
        timeout: timedelta,
        to_group: str | None = None,
    ) -> Pending[M]: ...
    def request(
        self, to: str, contract: Contract, body: object, *, reply: type[Any] | tuple[type[Any], ...], timeout: timedelta,
        to_group: str | None = None,
    ) -> Pending[Any]:  # fmt: skip
        """Begin a dialog with one message, and return its pending answer. The dialog ends when the answer arrives.

        Args:
            to: name of the other service.
            contract: the contract.
            body: the message.
            reply: class of the answer, or a tuple of classes.
            timeout: how long ``result()`` or ``await`` waits.
            to_group: as for ``begin_dialog``.

        Raises:
            NoWorkerHere: no worker of this client's service runs in this process, or the worker owns no partition now.
            LocalError: ``begin_dialog`` or ``send`` refuses an argument, or the target may not send a message type of ``reply``.
        """
        self._check_usable()
        admission.check_contract(contract)
        host = find(self.address, self.service_name)
        if host is None:
            raise NoWorkerHere(
                f"the reply to {self.service_name!r} arrives at its worker, and no worker of it runs in this process: "
                "use local(...), or begin_dialog and a handler"
            )
        classes = reply if isinstance(reply, tuple) else (reply,)
        names = {as_message_type(cls).name for cls in classes}
        if not names <= contract.by_target.keys():
            raise NotInContract(
                f"the target may not send {', '.join(sorted(names - contract.by_target.keys()))} in {contract.name!r}"
            )
        lifetime = max(admission.micros(timeout, "timeout"), self._periods.request_lifetime)
        lives = timedelta(microseconds=lifetime)
        dialog = self.begin_dialog(to, contract, id=draw_for(host), lifetime=lives, to_group=to_group)
        dialog.__enter__()  # ``Pending`` writes the block and waits for the answer, so ``__exit__`` is never called
        dialog.send(body)
        pending: Pending[Any] = Pending(dialog.id, dialog._append, names, timeout, host, to)  # noqa: SLF001 - same module
        pending.start()
        return pending
