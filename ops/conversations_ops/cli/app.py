"""The top level of the command line. Each group of commands has its own module."""

from __future__ import annotations

import sys
import traceback
from importlib.metadata import version
from typing import Annotated

import typer

from conversations_ops.cli import (
    acl,
    broker,
    codes,
    console,
    dead_letters,
    declarations,
    demo,
    dialogs,
    doctor,
    events,
    forward,
    groups,
    journal,
    queue,
    redrive,
    routes,
    saying,
    sending,
    settings,
    spark,
    status,
    timers,
    transmission,
    users,
    versions,
    why,
)
from conversations_ops.cli import run as running
from conversations_ops.cli.kafka_options import Group
from conversations_ops.console import log_lines
from conversations_ops.console.exit_codes import EXIT_CODES, Exit
from conversations_ops.printable import unstyled

app = typer.Typer(
    name="conversations",
    cls=Group,
    help="Exactly-once, in-order dialogs on Apache Kafka: run services, watch them, and decide about failed messages.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(running.app)
app.add_typer(declarations.app)
app.add_typer(settings.app)
app.add_typer(acl.app)
app.add_typer(codes.app)
app.add_typer(versions.app)
app.add_typer(broker.app, name="broker")
app.add_typer(status.app)
app.add_typer(why.app)
app.add_typer(timers.app)
app.add_typer(sending.app)
app.add_typer(console.app)
app.add_typer(users.app, name="users")
app.add_typer(doctor.app)
app.add_typer(dead_letters.app, name="dead-letters")
dead_letters.app.add_typer(groups.app)
app.add_typer(dead_letters.retries, name="retries")
app.add_typer(dialogs.app, name="dialogs")
dialogs.app.add_typer(saying.app)
app.add_typer(queue.app, name="queue")
app.add_typer(events.app)
app.add_typer(journal.app)
app.add_typer(redrive.app, name="redrive")
app.add_typer(routes.app, name="route")
app.add_typer(forward.app)
app.add_typer(transmission.app, name="transmission")
app.add_typer(spark.app, name="spark")
app.command("demo")(demo.demo)


def show_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
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
