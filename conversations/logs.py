"""The fields of log lines about a dialog: its conversation, its service and partition, and the message."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import Context, ContextVar
from typing import Protocol


class Named(Protocol):
    """The part of a handler's dialog that logging uses."""

    @property
    def id(self) -> str: ...

    @property
    def log_fields(self) -> Mapping[str, object]: ...


FIELDS = ("conversation", "service", "partition", "message_type", "message_number", "attempt")
"""The fields that the filter gives to each log record. A field that is not known is empty."""
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
    """A filter that gives each log record the fields of the dialog whose handler logs: ``FIELDS``. Outside of handlers they are "".

    Add the filter to a logging *handler*, and write, for example, ``%(conversation)s`` in the format of this handler. The command
    ``conversations run`` does both. Tasks that a handler starts, and ``asyncio.to_thread``, have the fields, too. A thread that a handler starts
    does not have them: log there with ``extra=dialog.log_fields``.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Set the fields that the record does not have. Every record passes the filter."""
        has = vars(record)
        dialog = None if "conversation" in has else _handled.get()
        found: Mapping[str, object] = {} if dialog is None else dialog.log_fields
        for name in FIELDS:
            if name not in has:
                has[name] = found.get(name, "")
        return True
