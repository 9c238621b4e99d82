"""Options that say which Kafka, and settings, declared once: behind `conversations`, and behind the name of each command that uses Kafka.

`Group` and `Command` take the options off the command line and keep them in the context; `kafka_of` reads the context.
The file of `--settings` stands in the environment meanwhile, where everything that the command starts finds it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.protocol.topics import DEFAULT_NAMESPACE
from conversations_ops.settings.file import VARIABLE as FILE
from conversations_ops.settings.given import Given, given

VARIABLE = "CONVERSATIONS_BOOTSTRAP"
_PANEL = "Which Kafka"
_COMMAND_LINE = "COMMANDLINE"
"""Name of the parameter source, as Click has it."""


@dataclass
class Options:
    """The options of the command line and the environment so far."""

    bootstrap: str = ""
    namespace: str = DEFAULT_NAMESPACE
    file: str = ""
    """Of settings."""
    settings: list[str] = field(default_factory=list)
    """Each NAME=VALUE."""
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
            help="A setting, e.g. worker.step=2s, or one for librdkafka (TLS, SASL, ...); may be repeated. Passwords: in the file.",
            rich_help_panel=_PANEL,
        ),
    ] = [],  # noqa: B006 - Typer declares parameters in defaults, and copies them
    file: Annotated[
        str,
        typer.Option(
            "--settings",
            metavar="FILE",
            envvar=FILE,
            help="A file of NAME=VALUE lines; --setting counts more. All names: conversations settings.",
            rich_help_panel=_PANEL,
        ),
    ] = "",
) -> None:
    """Declare the options; Typer makes them from this signature."""


def _options() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_declared)
    return list(typer.main.get_command(app).params)


@contextlib.contextmanager
def _kept(context: typer.Context) -> Iterator[None]:
    """Move the options from the parameters of a command into the context; the command line's last word counts."""
    options = context.ensure_object(Options)
    for name in ("bootstrap", "namespace", "file"):
        value, source = context.params.pop(name), context.get_parameter_source(name)
        told = source is not None and source.name == _COMMAND_LINE
        if told or name not in options.told:
            setattr(options, name, value)
        options.told |= {name} if told else set()
    options.settings += context.params.pop("setting") or ()
    before = os.environ.get(FILE)
    os.environ[FILE] = options.file
    try:
        yield
    finally:
        if before is None:
            del os.environ[FILE]
        else:
            os.environ[FILE] = before


class Command(TyperCommand):
    """A command that uses Kafka: it takes the options behind its name."""

    def __init__(self, name: str | None, *, params: Sequence[Any] | None = None, **declared: Any) -> None:
        own, shared = list(params or ()), _options()
        if twice := {it.name for it in own} & {it.name for it in shared}:
            raise ValueError(f"{name} declares options of every command: {', '.join(sorted(twice))}")
        super().__init__(name, params=[*own, *shared], **declared)

    def invoke(self, ctx: Any) -> Any:
        """Keep the options, and run the command without them."""
        with _kept(ctx):
            return super().invoke(ctx)


class Group(TyperGroup):
    """The top of the command line: it takes the options in front of the command's name."""

    def __init__(self, *, params: Sequence[Any] | None = None, **declared: Any) -> None:
        super().__init__(params=[*(params or ()), *_options()], **declared)

    def invoke(self, ctx: Any) -> Any:
        """Keep the options, and go on to the command."""
        with _kept(ctx):
            return super().invoke(ctx)


def arguments_of(context: typer.Context) -> list[str]:
    """Write the options of the command line down again, for a program that reads the environment itself."""
    options = context.ensure_object(Options)
    named = [f"--{name}={getattr(options, name)}" for name in sorted(options.told - {"file"})]
    return [*named, *(f"--setting={setting}" for setting in options.settings)]


def settings_of(context: typer.Context) -> Given:
    """Return the settings of the file and of the options in the context of a command.

    Raises:
        typer.BadParameter: a setting is unknown, its value is none, or the file cannot be read.
    """
    try:
        found = given(context.ensure_object(Options).settings)
        found.check_clients()
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from None
    return found


def kafka_of(context: typer.Context, settings: Given | None = None) -> Kafka:
    """Make the address of a Kafka from the options in the context of a command.

    Args:
        context: of the command.
        settings: as ``settings_of`` returned them, of a command that uses the product's settings; others take them from the file alone.

    Raises:
        typer.BadParameter: no address, or as ``settings_of``; or an option is a setting of the product that this command does not use.
    """
    options = context.ensure_object(Options)
    if not options.bootstrap:
        raise typer.BadParameter(
            f"say which Kafka: --bootstrap HOST:PORT, or {VARIABLE} in the environment. "
            "For one on this machine: conversations broker start"
        )
    try:
        settings = settings or settings_of(context).without_options()
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from None
    return Kafka(options.bootstrap, namespace=options.namespace, settings=settings.of_clients())
