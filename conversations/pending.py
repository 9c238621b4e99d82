"""The future answer to a request. Threads get it with ``result()``, coroutines with ``await``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any, Generic, TypeVar

from conversations.errors import PeerError, RequestTimeout
from conversations.hosts import Host
from conversations.protocol.effects import Failure
from conversations.protocol.identifiers import read_handle

R_co = TypeVar("R_co", covariant=True)
Append = Callable[[], concurrent.futures.Future[None] | None]
"""A function that writes the request to Kafka."""


class Pending(Generic[R_co]):
    """The future answer to a request. Threads get it with ``result()``, coroutines with ``await``."""

    def __init__(
        self, dialog_id: str, append: Append, names: set[str], timeout: timedelta, host: Host, to: str
    ) -> None:
        self.dialog_id = dialog_id
        self._append = append
        self._names = names
        self._to = to
        self._deadline = time.monotonic() + timeout.total_seconds()
        self._host = host
        self._future: concurrent.futures.Future[R_co] = concurrent.futures.Future()
        self._confirmed = self._taken = self._acknowledged = False

    def start(self) -> None:
        """Write the request. ``Client.request`` calls this once."""
        self._host.watch(read_handle(self.dialog_id).conversation, self)
        appended = self._append()
        if appended is not None:
            appended.add_done_callback(self._written)

    def _written(self, appended: concurrent.futures.Future[None]) -> None:
        error = appended.exception()
        self._confirmed = error is None
        if error is not None and not self._future.done():
            self._future.set_exception(error)

    def wants(self, message_type: str) -> bool:
        """Return True if a message of this type is the answer."""
        return message_type in self._names

    def message(self, message_type: str, body: Any) -> None:
        """Set the result, if the message is the answer. The peer has committed it; if it has a handler, the handler's step is committed."""
        if self.wants(message_type) and not self._future.done():
            self._future.set_result(body)

    def taken(self) -> None:
        """Note that the owner of the dialog has sent the request."""
        self._taken = True

    def acknowledged(self) -> None:
        """Note that the peer has accepted the request."""
        self._acknowledged = True

    def over(self, failure: Failure | None) -> None:
        """Set an error as the result if there is no answer yet. The dialog or the worker has ended."""
        if not self._future.done():
            code, text = failure or (0, "the dialog ended without an answer")
            self._future.set_exception(PeerError(code, text))

    def result(self) -> R_co:
        """Wait for the answer.

        Raises:
            PeerError: the dialog ended without an answer; or the worker in this process failed.
            RequestTimeout: no answer came in time; ``acknowledged`` is True if the peer has accepted the request.
            NotAccepted: Kafka refused the request.
            UnknownService: the catalog does not name the service (8490).
        """
        try:
            return self._future.result(max(0.0, self._deadline - time.monotonic()))
        except concurrent.futures.TimeoutError:
            raise self._late() from None
        finally:
            self._forget()

    def __await__(self) -> Generator[Any, None, R_co]:
        return self._wait().__await__()

    async def _wait(self) -> R_co:
        try:
            async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
                return await asyncio.wrap_future(self._future)
        except TimeoutError:
            raise self._late() from None
        finally:
            self._forget()

    def _late(self) -> RequestTimeout:
        if self._acknowledged or self._taken:
            status = ""
        elif self._confirmed:
            status = f"the worker of this side has not taken the request up, so {self._to} does not have it yet"
        else:
            status = f"Kafka has not confirmed the request, so {self._to} does not have it yet"
        return RequestTimeout(self.dialog_id, self._acknowledged, self._to, status)

    def _forget(self) -> None:
        self._host.forget(read_handle(self.dialog_id).conversation)
