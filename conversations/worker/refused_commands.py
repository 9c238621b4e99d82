"""Warnings of refused commands. A flood of them gives only a few lines; each command is also a dead letter and an event."""

from __future__ import annotations

import logging

from conversations.durations import SECOND
from conversations.errors import LocalError
from conversations.protocol.command import Command
from conversations.protocol.identifiers import Handle, uuid_text
from conversations.worker.log_clock import LogClock

log = logging.getLogger("conversations.worker")

MOST = 5
"""Maximum number of warnings of one partition within ``WITHIN``."""
WITHIN = 60 * SECOND
TEXT_LIMIT = 500
"""Maximum number of characters of a dialog's id, and of a reason. Both contain words from outside."""


class RefusedCommands:
    """Logs why commands of one partition are refused, without a line for each command of a flood."""

    def __init__(self, service: str, number: int, clock: LogClock) -> None:
        self._service, self._number = service, number
        self._clock = clock
        self._began = clock.steady()
        self._told = 0

    def warn(self, command: Command, error: LocalError) -> None:
        """Log that a command is refused, unless too many refusals were logged lately."""
        now = self._clock.steady()
        if now - self._began >= WITHIN:
            self._began, self._told = now, 0
        if self._told >= MOST:
            return
        self._told += 1
        log.warning(
            "service %s refuses a command about dialog %r: %s%s",
            self._service, Handle(command.conversation_id, command.key, command.from_initiator).text[:TEXT_LIMIT], str(error)[:TEXT_LIMIT],
            "; more refusals within the next minute are not logged, but are events and dead letters" if self._told == MOST else "",
            extra={"conversation": uuid_text(command.conversation_id), "service": self._service, "partition": self._number},
        )  # fmt: skip
