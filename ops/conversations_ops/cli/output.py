"""Output of all commands: text for people, or one JSON object for programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from conversations.errors import DeclarationError, LogError, StateUpgradeError
from conversations_ops.broker import BrokerError
from conversations_ops.console.exit_codes import code_of
from conversations_ops.printable import json_line, lines, unstyled

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def show(data: Mapping[str, object], text: str, *, as_json: bool) -> None:
    """Print a result: ``data`` as one line of JSON, or ``text``.

    ``text`` may have several lines. The caller puts words from outside through ``one_line``, so that they cannot add lines.
    """
    typer.echo(json_line(data) if as_json else unstyled(text))


@contextlib.contextmanager
def failures(*, as_json: bool) -> Iterator[None]:
    """If the block raises an expected error, print the error as ``show_error`` does, and exit with its code."""
    try:
        yield
    except (BrokerError, DeclarationError, LogError, StateUpgradeError) as error:
        show_error(str(error), _kind(error), as_json=as_json)
        raise typer.Exit(code_of(error)) from error


def _kind(error: Exception) -> str:
    """Name the kind of an error in JSON. A target that cannot be found is a wrong declaration, as for `conversations run`."""
    return "DeclarationError" if isinstance(error, DeclarationError) else type(error).__name__


def show_error(text: str, kind: str, *, as_json: bool) -> None:
    """Print why a command failed: with ``as_json`` as JSON on stdout, else as text on stderr."""
    if as_json:
        typer.echo(json_line({"error": text, "kind": kind}))
    else:
        typer.secho(f"error: {lines(text)}", err=True, fg=typer.colors.RED)
