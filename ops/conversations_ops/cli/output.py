"""How every command speaks: text for people or one JSON object for programs, and the exit codes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Annotated

import typer

from conversations.errors import DeclarationError, KafkaUnreachable, LogError, LoginRefused, StateUpgradeError
from conversations.kafka.embedded import BrokerError
from conversations_ops.printable import json_line, lines, unstyled


class Exit(IntEnum):
    """What a command's end means to a script."""

    FINE = 0
    HUMAN = 1  # something waits for a person
    USAGE = 2  # the command line or a declaration makes no sense
    UNREACHABLE = 3  # Kafka does not answer


EXIT_CODES = "Exit codes: 0 fine, 1 needs a person, 2 wrong usage, 3 Kafka unreachable."
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def show(data: Mapping[str, object], text: str, *, as_json: bool) -> None:
    """Print a result: ``data`` as one line of JSON, or ``text``, whose lines are ours: what is from outside is in one."""
    typer.echo(json_line(data) if as_json else unstyled(text))


@contextlib.contextmanager
def failures(*, as_json: bool) -> Iterator[None]:
    """Turn expected errors into a message on stderr (JSON on stdout when asked for) and the right exit code."""
    try:
        yield
    except (BrokerError, DeclarationError, LogError, StateUpgradeError) as error:
        show_error(str(error), type(error).__name__, as_json=as_json)
        raise typer.Exit(code_of(error)) from error


def code_of(error: Exception) -> Exit:
    """Exit code for an expected error."""
    if isinstance(error, DeclarationError):
        return Exit.USAGE
    unreachable = isinstance(error, KafkaUnreachable) and not isinstance(error, LoginRefused)
    return Exit.UNREACHABLE if unreachable else Exit.HUMAN


def show_error(text: str, kind: str, *, as_json: bool) -> None:
    """Print why a command failed: JSON on stdout when asked for, else text on stderr."""
    if as_json:
        typer.echo(json_line({"error": text, "kind": kind}))
    else:
        typer.secho(f"error: {lines(text)}", err=True, fg=typer.colors.RED)


def moment(at: int) -> str:
    """Write microseconds since 1970 down, in UTC; a number that is no time we can name stays a number."""
    try:
        return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{at} us"
