"""The task of an item: a handler to call, and the function to call after the handler has finished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conversations.bodies import BodyCodec
from conversations.handlers import Handler
from conversations.protocol.effects import Failure
from conversations.worker.active import Active
from conversations.worker.partition import Partition

Finish = Callable[[Partition, Active], None]


@dataclass(slots=True, eq=False)
class Task:
    """A handler to run for an item, and the function to call after the handler has finished."""

    active: Active
    handler: Handler
    codec: BodyCodec | None = None
    """Decodes the body of the message for each call. Without a codec, the handler gets ``error`` and the dialog, or only the dialog."""
    error: Failure | None = None
    finish: Finish | None = None
    without: bytes = b""
    """``rows.TIMER``, ``rows.ERROR`` or ``rows.SKIPPED`` for a handler that has no message, else empty."""
    skipped: tuple[int, ...] = ()
    """The numbers that the handler of skipped messages gets."""
