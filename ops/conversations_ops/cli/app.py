"""The top level of the command line. Each group of commands has its own module, and ``command_table`` names it."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, Any

import typer

from conversations_ops.cli.command_table import Commands
from conversations_ops.cli.kafka_options import Group
from conversations_ops.console import log_lines
from conversations_ops.console.exit_codes import EXIT_CODES, Exit
from conversations_ops.printable import unstyled


class Top(Group):
    """The top level of the command line. Its commands are imported when they are needed."""

    def __init__(self, **declared: Any) -> None:
        super().__init__(**declared)
        commands: Any = Commands()  # Typer only reads it, but declares that it may write
        self.commands = commands


app = typer.Typer(
    name="conversations",
    cls=Top,
    help="Exactly-once, in-order dialogs on Apache Kafka: run services, watch them, and decide about failed messages.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"kafka-dialogs {version('kafka-dialogs')}")
        raise typer.Exit


@app.callback()
def top(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Show warnings on stderr. Runs before every command."""
    log_lines.show_warnings()


def main() -> None:
    """Run the command line. Ctrl-C ends any command with code 130 and no traceback."""
    try:
        app()
    except Exception:  # noqa: BLE001 - a bug; its text may come from outside and try to control the terminal
        sys.stderr.write(unstyled(traceback.format_exc()))
        sys.exit(Exit.HUMAN)


if __name__ == "__main__":
    main()
