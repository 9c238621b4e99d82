"""The side of a dialog that a command is about: its id, the choice of a side, and the errors of such a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from conversations.config import Kafka
from conversations.errors import LocalError
from conversations.protocol.identifiers import read_handle
from conversations_ops.cli import one_dialog
from conversations_ops.cli.catching_up import read_model
from conversations_ops.cli.changes import refusals
from conversations_ops.cli.output import failures, show_error
from conversations_ops.console.exit_codes import Exit
from conversations_ops.operate.dialogs import STATES, Side
from conversations_ops.read_model.dialogs import known_sides

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Id of the dialog: `dialogs list`, `dialog.id` and every letter and event have it."
    ),
]

SideName = Annotated[
    str, typer.Option("--side", metavar="SIDE", help="initiator or target: needed if one service has both sides.")
]
Key = Annotated[
    str,
    typer.Option("--key", help="Idempotency key: however often you send on this dialog with it, one message is sent."),
]


def id_of(text: str) -> bytes:
    """Return the conversation id in an argument.

    Raises:
        typer.BadParameter: the text is not the id of a dialog.
    """
    try:
        return read_handle(text)[0]
    except LocalError as error:
        raise typer.BadParameter(str(error)) from None


def id_or_none(text: str) -> bytes | None:
    """Return the conversation id in an argument; None if the argument is none, and so the name of a service."""
    try:
        return read_handle(text)[0]
    except LocalError:
        return None


def chosen(sides: Sequence[Side], service: str, side: str) -> Side:
    """Return the side that is meant. An operator need not name it, if only one side is open.

    Raises:
        typer.BadParameter: several sides may be meant, or no side is.
    """
    if side not in ("", "initiator", "target"):
        raise typer.BadParameter(f"--side {side}: initiator or target")
    found = [it for it in sides if service in ("", it.service) and side in ("", one_dialog.word(it))]
    both = ", ".join(f"{it.service} ({one_dialog.word(it)}, {STATES[it.state]})" for it in sides)
    if not found:
        raise LookupError(f"this dialog has no such side; it has {both}")
    still = [it for it in found if it.closed is None] or found
    if len(still) > 1:
        raise typer.BadParameter(f"both sides are open, {both}: name one with --service, or with --side")
    return still[0]


def sides_of(kafka: Kafka, conversation: bytes, service: str = "") -> list[Side]:
    """Return the known sides of a dialog from the read model; see ``known_sides``."""
    with read_model(kafka) as file:
        return known_sides(kafka, file, conversation, service)


@contextmanager
def answering(as_json: bool) -> Iterator[None]:
    """If the block fails in an expected way, print the error and exit with its code."""
    with failures(as_json=as_json), refusals("the owner of the dialog", as_json=as_json):
        try:
            yield
        except (LookupError, LocalError) as error:
            kind = "NotPossible" if isinstance(error, LocalError) else "NoSuchDialog"
            show_error(str(error), kind, as_json=as_json)
            raise typer.Exit(Exit.USAGE) from error
