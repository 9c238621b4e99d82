"""Which conversation a log line belongs to."""

from __future__ import annotations

import logging
from contextvars import Context, ContextVar
from typing import Protocol


class Named(Protocol):
    """What handlers know as their dialog."""

    @property
    def id(self) -> str: ...


_handled: ContextVar[Named | None] = ContextVar("conversation", default=None)

handling = _handled.set
"""Set the dialog whose handler runs in this thread or task from now on; None: no handler. Costs some 50 ns: the id is not rendered."""


def handled_in(context: Context) -> Named | None:
    """Whose handler runs in a context; None: nobody's."""
    return context.get(_handled)


def conversation_id() -> str:
    """Id of the conversation whose handler runs in this thread or task; "" outside of handlers."""
    dialog = _handled.get()
    return "" if dialog is None else dialog.id


class ConversationFilter(logging.Filter):
    """Gives each log record a ``conversation``: the id of the one being handled, "" outside of handlers.

    Add it to a logging *handler*, and write ``%(conversation)s`` in its format. ``conversations run`` has done so. Threads
    started by a handler do not know the conversation; ``asyncio.to_thread`` and tasks do.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record; one that names its conversation already keeps that."""
        if not hasattr(record, "conversation"):
            record.conversation = conversation_id()
        return True
