"""Clients, which speak for a service outside its handlers: in web servers, scripts and tests.

A client appends commands to the commands topic of its own service. The worker that owns the dialog carries them out: it numbers the
messages and transmits them. Every write is a block, ``with`` or ``async with``. The verbs in the block only note requests. The end of the
block writes all requests as one command. A block that ends with an exception writes nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta
from typing import Any, Self, TypeVar, overload

from conversations.client_dialog import ClientBlock, ClientDialog, now
from conversations.command_counts import CommandCounts
from conversations.config import Kafka, Limits, Periods, check_kafka
from conversations.errors import LocalError, NotInContract, NoWorkerHere
from conversations.group_state import GroupState, read_state
from conversations.hosts import find
from conversations.many_dialogs import Begun, Opening, begin_all
from conversations.new_ids import checked, draw, draw_for
from conversations.pending import Pending
from conversations.pool import Pool, check_usable
from conversations.ports import CommandSink, StateReader
from conversations.protocol import admission
from conversations.protocol.command import Begin, pool_id
from conversations.protocol.contract import Contract, as_message_type
from conversations.protocol.endpoint import NEVER
from conversations.protocol.identifiers import Handle, read_handle
from conversations.protocol.topics import COMMANDS, service_topic
from conversations.reader import Reader
from conversations.service import Service
from conversations.tracing import Traceable

M = TypeVar("M")
N = TypeVar("N")
S = TypeVar("S")

DEFAULT_TIMEOUT = timedelta(seconds=30)


class Client(Traceable, AbstractContextManager["Client"], AbstractAsyncContextManager["Client"]):
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
        self.trace_with(self._service.tracing if self._service is not None else None)
        self.counts = CommandCounts()
        """Counts of the commands of this client."""

    @property
    def commands_topic(self) -> str:
        """Name of the topic for its commands."""
        return service_topic(self._kafka.namespace, self.service_name, COMMANDS)

    def _check_usable(self) -> None:
        """Check that the client can be used now. A client on Kafka can always be used. Called before each use of the client."""

    @property
    def address(self) -> str:
        """Bootstrap address and namespace; the key by which the client finds a worker in its process."""
        return f"{self._kafka.bootstrap}/{self._kafka.namespace}"

    def sink(self) -> CommandSink:
        """Return the connection for commands; connect on first use."""
        self._check_usable()
        sink = self._sinks.get(self.service_name)
        if sink is None:
            from conversations.kafka.commands import CommandProducer

            # ``setdefault`` is atomic, so two threads that connect at the same time use the same connection.
            sink = self._sinks.setdefault(self.service_name, CommandProducer(self._kafka, self.service_name))
        return sink

    def contracts(self, *, initiates: bool) -> list[Contract]:
        """Return the contracts that the service initiates, or those that it accepts.

        If it is known to initiate none, return the contracts of the dialogs that this client began.
        """
        service = self._service
        if not initiates:
            return [] if service is None else list(service.accepts.values())
        declared = [] if service is None else list(service.initiates.values())
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
            lifetime: lifetime of this dialog, instead of the contract's lifetime. If the contract sets a lifetime, it is the longest.
            to_group: key of the conversation group at the target. Needed if the contract has ``group_named_by``, else forbidden.
            wait_for_service: if True, the messages of the dialog wait until the catalog names the service.

        Raises:
            UnknownContract: the service does not initiate the contract (8425).
            LocalError: the id is not a UUIDv7, the lifetime is not positive or longer than the contract's, ``to`` or ``group`` is not a valid name or key,
                ``contract`` is not a ``Contract``, or ``to_group`` does not fit the contract (8494).
        """
        self._check_may_begin(to, contract)
        if group is not None:
            admission.check_key(group)
        admission.check_to_group(contract, self.service_name, to_group)
        conversation = draw() if id is None else checked(id)
        self._used[contract.name] = contract
        time = now()
        until = admission.expiry(time, lifetime, contract, self._periods.lifetime)
        begin = Begin(to, contract.name, -1 if until >= NEVER else until - time, to_group or "")
        dialog = ClientDialog(self, Handle(conversation.bytes, group or str(conversation)), contract, begin)
        dialog.to = "" if wait_for_service else to
        return dialog

    def _check_may_begin(self, to: str, contract: Contract) -> None:
        self._check_usable()
        admission.check_service(to)
        admission.check_contract(contract)
        if not self._initiates(contract):
            mend = "name it in initiates=[...] of the service, or of local(...)"
            raise admission.not_initiated(self.service_name, contract.name, mend)

    def _initiates(self, contract: Contract) -> bool:
        """Return False if the service is known not to initiate a contract."""
        return self._service is None or self._service.initiates.get(contract.name) is contract

    def begin_dialogs(
        self, to: str, contract: Contract, openings: Iterable[Opening | tuple[str, object]], *, lifetime: timedelta | None = None,
        wait_for_service: bool = False,
    ) -> list[Begun]:  # fmt: skip
        """Begin many dialogs with one message each, and return the result for each, in order.

        Each dialog has a command of its own, as with ``begin_dialog``. The commands are under way together, at most 1,000 at a time, so that
        thousands take about as long as a few. One that fails does not hinder the others. A repetition with the same ids is harmless. The list
        of results is the only thing that grows with the number of openings.

        The method waits for Kafka. In ``async`` code, use ``await asyncio.to_thread(client.begin_dialogs, ...)``.

        Args:
            to: name of the other service.
            contract: the contract of the dialogs. The service must initiate it.
            openings: pairs of an id from ``new_id`` and a body, or objects of class ``Opening``. A generator is read step by step.
            lifetime: lifetime of these dialogs, instead of the contract's lifetime. If the contract sets a lifetime, it is the longest.
            wait_for_service: if True, the messages of the dialogs wait until the catalog names the service.

        Raises:
            UnknownService: the catalog does not name the service (8490). Nothing was written.
            UnknownContract: the service does not initiate the contract (8425). Nothing was written.
            LocalError: ``to`` is not a valid name, ``contract`` is not a ``Contract``, or an opening is not a pair of an id and a body. The
                dialogs before such an opening have begun.
        """
        self._check_may_begin(to, contract)

        def begin(opening: Opening) -> ClientDialog:
            return self.begin_dialog(
                to, contract, id=opening.id, group=opening.group, lifetime=lifetime, to_group=opening.to_group,
                wait_for_service=wait_for_service,
            )  # fmt: skip

        return begin_all(begin, openings, self.timeout.total_seconds())

    def dialog(self, id: str) -> ClientDialog:  # noqa: A002 - the word users know
        """Return an existing dialog of the service, as a block: a dialog that the service began, or that it accepted.

        ``id`` is ``Dialog.handle`` in a handler of the service, or ``ClientDialog.id``. It is the conversation id, followed by ``:target`` if
        the service accepted the dialog, and by ``@GROUP`` if the key of the group is not the conversation id.

        The client does not know whether the dialog exists. If it never existed or is over, the end of the block raises nothing. The worker
        refuses the requests: with a warning in its log, the event ``COMMAND_REFUSED`` and a dead letter.

        Raises:
            LocalError: ``id`` is not the id of a dialog (8426).
        """
        self._check_usable()
        name = read_handle(id)
        admission.check_key(name.key)
        return ClientDialog(self, name, None)

    def pooled(self, pool: Pool, key: str) -> ClientBlock:
        """Return a block that sends for a key of a pool: ``with client.pooled(DEVICES, key=device) as dialog: dialog.send(Push(text))``.

        The messages go on the one long dialog of the key, after those that were sent for the key before, whoever sent them. The block can only
        send: the owner of the key begins the dialog, replaces it, and ends it. The end of the block checks that the catalog names the service of
        the pool.

        Args:
            pool: the pool; the service initiates its contract.
            key: any text; each key has a dialog of its own.

        Raises:
            UnknownContract: the service does not initiate the contract of the pool (8425).
            LocalError: ``pool`` is no ``Pool``, or the key is no text, is empty, or is too long (8414).
        """
        self._check_usable()
        check_usable(pool, self._initiates, self.service_name, key)
        group = pool.group(key)
        block = ClientBlock(self, Handle(pool_id(group), group), pool.contract, pool.reuse(key))
        block.to = pool.to
        return block

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

    def reader(self, service: Service[S]) -> Reader[S]:
        """Return a reader for the dialogs of a service: ``client.reader(orders).dialog(handle)``. In ``local`` it reads from memory."""
        return Reader(service, self._kafka, periods=self._periods)

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
        wait = admission.micros(timeout, "timeout")
        lives = admission.request_lifetime(contract, wait, self._periods.request_lifetime)
        dialog = self.begin_dialog(to, contract, id=draw_for(host), lifetime=lives, to_group=to_group)
        dialog.__enter__()  # ``Pending`` writes the block and waits for the answer, so ``__exit__`` is never called
        dialog.send(body)
        pending: Pending[Any] = Pending(dialog.id, dialog.append, names, timeout, host, to)
        pending.start()
        return pending
