"""What the end of a command or a job means to a script."""

from __future__ import annotations

from enum import IntEnum

from conversations.errors import DeclarationError, KafkaUnreachable, LoginRefused


class Exit(IntEnum):
    """What the end of a command or a job means to a script."""

    FINE = 0
    HUMAN = 1
    """A person must look at something, or it failed."""
    USAGE = 2
    """The command line or a declaration makes no sense."""
    UNREACHABLE = 3
    """Kafka does not answer."""
    INTERRUPTED = 130
    """Ctrl-C."""


EXIT_CODES = "Exit codes: 0 fine, 1 needs a person, 2 wrong usage, 3 Kafka unreachable."


def code_of(error: Exception) -> Exit:
    """Exit code for an expected error."""
    if isinstance(error, DeclarationError):
        return Exit.USAGE
    unreachable = isinstance(error, KafkaUnreachable) and not isinstance(error, LoginRefused)
    return Exit.UNREACHABLE if unreachable else Exit.HUMAN
