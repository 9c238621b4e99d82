"""Readers, which tell outside of handlers how dialogs of a service stand."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta
from typing import Any, Generic, Self

from typing_extensions import TypeVar

from conversations.config import Kafka, Periods, check_kafka
from conversations.dialog_view import DialogView, Found, Status, can_still_begin, find
from conversations.errors import LocalError, RequestTimeout
from conversations.ports import TableReader
from conversations.protocol import admission
from conversations.protocol.identifiers import Handle, read_handle, uuid_text
from conversations.service import Service

S = TypeVar("S", default=dict[str, Any])

SOONEST, LATEST = 0.05, 1.0
"""Shortest and longest pause between two readings of ``Reader.wait``, in seconds."""


class Reader(AbstractContextManager["Reader[S]"], AbstractAsyncContextManager["Reader[S]"], Generic[S]):
    """A reader tells how dialogs of one service stand. It is thread-safe. Making a reader does no I/O.

    It reads only what is committed, up to the end of the topics at the time of the question. So a view is never ahead of the truth.

    The first question about a partition of the service reads the whole partition of the state topic, and keeps some hundred bytes for each
    dialog in memory, and the states of the groups. It also looks at the last 10,000 letters of the partition. Each later question reads only
    what is new. The reader needs the right to read the state and dead-letter topics.

    Args:
        service: the service. Its class decodes the state.
        kafka: the cluster.
        periods: the periods of the namespace. The workers must have the same periods.

    Raises:
        LocalError: ``service`` is no ``Service``.
        DeclarationError: ``kafka`` is not a ``Kafka``.
    """

    def __init__(self, service: Service[S], kafka: Kafka, *, periods: Periods | None = None) -> None:
        check_kafka(kafka)
        if not isinstance(service, Service):
            raise LocalError(f"a reader takes the Service object, whose class decodes the state, not {service!r:.80}")
        self._service, self._periods = service, periods or Periods()
        self._connect: Callable[[], TableReader] = lambda: _on_kafka(kafka, service.name, self._periods)
        self._tables: dict[int, TableReader] = {}

    @classmethod
    def over(cls, service: Service[S], tables: TableReader, periods: Periods | None = None) -> Self:
        """Make a reader that reads from ``tables`` instead of Kafka. For services in memory."""
        reader = cls(service, Kafka("memory"), periods=periods)
        reader._connect = lambda: tables
        return reader

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Forget all rows."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Forget all rows as ``__exit__`` does, but without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Forget all rows. The next question reads them again."""
        for tables in list(self._tables.values()):
            tables.close()
        self._tables.clear()

    def dialog(self, handle: str) -> DialogView[S]:
        """Tell how a dialog stands now. The method waits for Kafka. In ``async`` code, use ``await asyncio.to_thread(reader.dialog, handle)``.

        A dialog that was never seen is ``FORGOTTEN`` once it cannot begin any more: ``periods.command_life`` (a day) after its id was drawn. A
        dialog whose rows are deleted is ``FORGOTTEN`` at once if a client began it; else a day after its id was drawn, and ``NOT_SEEN_YET``
        before.

        Args:
            handle: ``ClientDialog.id``, or ``Dialog.handle`` in a handler of the service. It says which side is meant.

        Raises:
            LocalError: ``handle`` is not the id of a dialog (8426).
            DeclarationError: the catalog does not name the service.
            LogError: Kafka cannot be reached, or the rows cannot be read.
            UndecodableRecord: a newer release wrote a row.
        """
        name = read_handle(handle)
        admission.check_key(name.key)
        tables = self._reader()
        found, as_of = tables.look(name.key, lambda table: find(table, name, self._service.name))
        refused = tables.refused(name.key, uuid_text(name.conversation), initiator=name.initiator)
        return DialogView(name, self._aged(found, name, as_of), self._service.state, as_of, refused)

    def wait(
        self, handle: str, *, timeout: timedelta, until: Callable[[DialogView[S]], bool] | None = None
    ) -> Waiting[S]:
        """Wait until a dialog is over. Threads get the view with ``result()``, coroutines with ``await``.

        Args:
            handle: as for ``dialog``.
            timeout: how long to wait.
            until: wait until this function returns True for the view, instead of the end of the dialog.

        Raises:
            LocalError: ``handle`` is not the id of a dialog (8426), or ``timeout`` is not a timedelta.
        """
        read_handle(handle)
        admission.micros(timeout, "timeout")
        return Waiting(self, handle, timeout, until or _is_over)

    def _reader(self) -> TableReader:
        name = os.getpid()  # after a fork, the child needs connections of its own
        tables = self._tables.get(name)
        return self._tables.setdefault(name, self._connect()) if tables is None else tables

    def _aged(self, found: Found, name: Handle, as_of: int) -> Found:
        """Return the facts about a dialog; it is forgotten if it was never seen and cannot begin any more."""
        life = self._periods.command_life + self._periods.clock_ahead
        if found.status is Status.NOT_SEEN_YET and not can_still_begin(name, as_of, life):
            return Found(Status.FORGOTTEN)
        return found


class Waiting(Generic[S]):
    """A view to come. Threads get it with ``result()``, coroutines with ``await``."""

    def __init__(
        self, reader: Reader[S], handle: str, timeout: timedelta, until: Callable[[DialogView[S]], bool]
    ) -> None:
        self._reader, self._handle, self._until = reader, handle, until
        self._deadline = time.monotonic() + timeout.total_seconds()

    def result(self) -> DialogView[S]:
        """Wait for the view.

        Raises:
            RequestTimeout: the time is over. The text says how the dialog stands, and ``acknowledged`` is True if the peer has all messages.
            LogError, DeclarationError: ``Reader.dialog`` raises them.
        """
        pause = SOONEST
        while True:
            view = self._reader.dialog(self._handle)
            if self._until(view):
                return view
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise self._late(view)
            time.sleep(min(pause, left))
            pause = min(2 * pause, LATEST)

    def __await__(self) -> Generator[Any, None, DialogView[S]]:
        return self._wait().__await__()

    async def _wait(self) -> DialogView[S]:
        pause = SOONEST
        while True:
            view = await asyncio.to_thread(self._reader.dialog, self._handle)
            if self._until(view):
                return view
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise self._late(view)
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, LATEST)

    def _late(self, view: DialogView[S]) -> RequestTimeout:
        sent = view.sent
        has_all = sent.sequenced > 0 and sent.acknowledged == sent.sequenced
        return RequestTimeout(self._handle, has_all, view.peer or "the peer", view.told())


def _is_over(view: DialogView[Any]) -> bool:
    return view.is_over


def _on_kafka(kafka: Kafka, service: str, periods: Periods) -> TableReader:
    from conversations.kafka.group_states import StateTables

    return StateTables(kafka, service, periods)
