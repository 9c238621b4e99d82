"""Exit codes of commands and jobs."""

from __future__ import annotations

from enum import IntEnum

from conversations.errors import DeclarationError, KafkaUnreachable, LoginRefused, UnknownNamespace


class Exit(IntEnum):
    """Exit code of a command or a job."""

    FINE = 0
    HUMAN = 1
    """A person must look at something, or the command failed."""
    USAGE = 2
    """The command line, a setting or a declaration is wrong."""
    UNREACHABLE = 3
    """Kafka does not answer."""
    INTERRUPTED = 130
    """Ctrl-C."""


EXIT_CODES = "Exit codes: 0 fine, 1 failed or needs a person, 2 wrong usage, 3 Kafka unreachable."


def code_of(error: Exception) -> Exit:
    """Return the exit code for an expected error."""
    if isinstance(error, DeclarationError | UnknownNamespace):
        return Exit.USAGE
    unreachable = isinstance(error, KafkaUnreachable) and not isinstance(error, LoginRefused)
    return Exit.UNREACHABLE if unreachable else Exit.HUMAN
