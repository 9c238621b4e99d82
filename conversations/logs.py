"""The conversation id in log lines."""

from __future__ import annotations

import logging
from contextvars import Context, ContextVar
from typing import Protocol


class Named(Protocol):
    """The part of a handler's dialog that logging uses."""

    @property
    def id(self) -> str: ...


_handled: ContextVar[Named | None] = ContextVar("conversation", default=None)

handling = _handled.set
"""Set the dialog whose handler runs in this thread or task from now on; None if no handler runs.

A call takes only 50 ns, because it does not make the text of the id.
"""


def handled_in(context: Context) -> Named | None:
    """Return the dialog whose handler runs in a context, None if no handler runs there."""
    return context.get(_handled)


def conversation_id() -> str:
    """Return the id of the conversation whose handler runs in this thread or task; "" outside of handlers."""
    dialog = _handled.get()
    return "" if dialog is None else dialog.id


class ConversationFilter(logging.Filter):
    """A filter that gives each log record an attribute ``conversation``. It is the id of the conversation; "" outside of handlers.

    Add the filter to a logging *handler*, and write ``%(conversation)s`` in the format of this handler. The command ``conversations run``
    does both. A thread that a handler starts does not have the id. Tasks that a handler starts, and ``asyncio.to_thread``, have it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Set ``conversation`` if the record does not have it. Every record passes the filter."""
        if not hasattr(record, "conversation"):
            record.conversation = conversation_id()
        return True
