"""What every command that changes something shares: saying why, trying it out, and being refused by an owner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from conversations_ops.cli.output import show_error
from conversations_ops.console.exit_codes import Exit

Reason = Annotated[str, typer.Option(help="Why; goes to the events with your name.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")]
Wait = Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the owners of what is changed.")]


def check_reason(reason: str, *, dry_run: bool = False) -> None:
    """Refuse a change nobody says why of.

    Raises:
        typer.BadParameter: there is no reason, and it is no dry run.
    """
    if not reason and not dry_run:
        raise typer.BadParameter("say why: --reason TEXT. It goes to the events, with your name")


@contextmanager
def refusals(who: str, *, as_json: bool) -> Iterator[None]:
    """Turn the refusal of an owner, called ``who``, into a message and its exit code."""
    from conversations_ops.operate.commands import Refused

    try:
        yield
    except Refused as error:
        show_error(f"refused by {who}: {error}", "Refused", as_json=as_json)
        raise typer.Exit(Exit.HUMAN) from error
