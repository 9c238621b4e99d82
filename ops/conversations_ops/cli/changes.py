"""Options of all commands that change something (reason, dry run, wait), and the display of refusals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from conversations_ops.cli.output import show_error
from conversations_ops.console.exit_codes import Exit
from conversations_ops.printable import one_line

Reason = Annotated[
    str,
    typer.Option(
        help="Why you do this. Every change needs a reason. The events topic shows it with your name.",
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the effect, but change nothing.")]
Wait = Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the answer of the service's workers.")]


def check_reason(reason: str, *, dry_run: bool = False) -> None:
    """Check that a change has a reason.

    Raises:
        typer.BadParameter: the reason is missing, and this is no dry run.
    """
    if not reason and not dry_run:
        raise typer.BadParameter("a reason is missing: --reason TEXT. The events topic shows it with your name")


def announce(effect: str, *, as_json: bool) -> None:
    """Say on stderr what a change will do, before it is asked for. ``effect`` begins with a verb: ``turn the queue on``."""
    if not as_json:
        typer.echo(one_line(f"will {effect}"), err=True)


@contextmanager
def refusals(who: str, *, as_json: bool) -> Iterator[None]:
    """If the block raises ``Refused``, print the refusal and exit with code 1. ``who`` is the owner that refused."""
    from conversations_ops.operate.commands import Refused

    try:
        yield
    except Refused as error:
        show_error(f"refused by {who}: {error}", "Refused", as_json=as_json)
        raise typer.Exit(Exit.HUMAN) from error
