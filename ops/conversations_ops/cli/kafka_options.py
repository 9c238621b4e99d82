"""Options that say which Kafka, declared once: behind `conversations`, and behind the name of each command that uses Kafka.

`Group` and `Command` take the options off the command line and keep them in the context; `kafka_of` reads the context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.protocol.topics import DEFAULT_NAMESPACE
from conversations_ops.settings_file import VARIABLE as FILE
from conversations_ops.settings_file import settings_of_file

VARIABLE = "CONVERSATIONS_BOOTSTRAP"
_PANEL = "Which Kafka"
_COMMAND_LINE = "COMMANDLINE"
"""Name of the parameter source, as Click has it."""


@dataclass
class Given:
    """What the command line and the environment say so far."""

    bootstrap: str = ""
    namespace: str = DEFAULT_NAMESPACE
    settings: list[str] = field(default_factory=list)
    told: set[str] = field(default_factory=set)
    """Options of the command line: the environment, which each level reads again, does not change them."""


def _declared(
    bootstrap: Annotated[
        str,
        typer.Option(
            envvar=VARIABLE,
            metavar="HOST:PORT",
            help="Address of some brokers, with commas between them.",
            rich_help_panel=_PANEL,
        ),
    ] = "",
    namespace: Annotated[
        str,
        typer.Option(
            envvar="CONVERSATIONS_NAMESPACE", help="First part of every topic's name.", rich_help_panel=_PANEL
        ),
    ] = DEFAULT_NAMESPACE,
    setting: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE",
            help=f"A setting for librdkafka (TLS, SASL, ...); may be repeated. Passwords: NAME=VALUE lines in a file that {FILE} names.",
            rich_help_panel=_PANEL,
        ),
    ] = [],  # noqa: B006 - Typer declares parameters in defaults, and copies them
) -> None:
    """Declare the options; Typer makes them from this signature."""


def _options() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_declared)
    return list(typer.main.get_command(app).params)


def _keep(context: typer.Context) -> None:
    """Move the options from the parameters of a command into the context; the command line's last word counts."""
    given = context.ensure_object(Given)
    for name in ("bootstrap", "namespace"):
        value, source = context.params.pop(name), context.get_parameter_source(name)
        told = source is not None and source.name == _COMMAND_LINE
        if told or name not in given.told:
            setattr(given, name, value)
        given.told |= {name} if told else set()
    given.settings += context.params.pop("setting") or ()


class Command(TyperCommand):
    """A command that uses Kafka: it takes the options behind its name."""

    def __init__(self, name: str | None, *, params: Sequence[Any] | None = None, **declared: Any) -> None:
        super().__init__(name, params=[*(params or ()), *_options()], **declared)

    def invoke(self, ctx: Any) -> Any:
        """Keep the options, and run the command without them."""
        _keep(ctx)
        return super().invoke(ctx)


class Group(TyperGroup):
    """The top of the command line: it takes the options in front of the command's name."""

    def __init__(self, *, params: Sequence[Any] | None = None, **declared: Any) -> None:
        super().__init__(params=[*(params or ()), *_options()], **declared)

    def invoke(self, ctx: Any) -> Any:
        """Keep the options, and go on to the command."""
        _keep(ctx)
        return super().invoke(ctx)


def arguments_of(context: typer.Context) -> list[str]:
    """Write the options of the command line down again, for a program that reads the environment itself."""
    given = context.ensure_object(Given)
    named = [f"--{name}={getattr(given, name)}" for name in sorted(given.told)]
    return [*named, *(f"--setting={setting}" for setting in given.settings)]


def kafka_of(context: typer.Context) -> Kafka:
    """Make the address of a Kafka from the options in the context of a command.

    Raises:
        typer.BadParameter: no address, a setting is not NAME=VALUE, or the file of settings cannot be read.
    """
    given = context.ensure_object(Given)
    if not given.bootstrap:
        raise typer.BadParameter(
            f"say which Kafka: --bootstrap HOST:PORT, or {VARIABLE} in the environment. "
            "For one on this machine: conversations broker start"
        )
    pairs = [setting.partition("=") for setting in given.settings]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise typer.BadParameter(f"--setting {name!r} is not NAME=VALUE, for instance security.protocol=SSL")
    try:
        from_file = settings_of_file()
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from None
    return Kafka(
        given.bootstrap, namespace=given.namespace, settings=from_file | {name: value for name, _, value in pairs}
    )
