"""Declares the options for the Kafka cluster and for settings. All commands share this declaration.

The options may follow `conversations`, or the name of a command that uses Kafka. `Group` and `Command` move them from the
parameters into the context, and `kafka_of` reads them there. While a command runs, the variable CONVERSATIONS_SETTINGS has
the path of the `--settings` file. So every process that the command starts finds the file.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.protocol.topics import DEFAULT_NAMESPACE
from conversations_ops.cli.output import show_error
from conversations_ops.console.exit_codes import Exit
from conversations_ops.settings.file import VARIABLE as FILE
from conversations_ops.settings.given import Given, given

VARIABLE = "CONVERSATIONS_BOOTSTRAP"
_PANEL = "Which Kafka"
_COMMAND_LINE = "COMMANDLINE"
"""Click's name for the command line as the source of a parameter."""


USAGE_ERROR: type[typer.BadParameter] = typer.BadParameter.__mro__[1]
"""Class of all errors about a command line. Typer has no public name for it."""


@dataclass
class Options:
    """The options read so far, from the command line and the environment."""

    bootstrap: str = ""
    namespace: str = DEFAULT_NAMESPACE
    file: str = ""
    """Path of the settings file; empty if there is none."""
    settings: list[str] = field(default_factory=list)
    """Values of ``--setting``, each NAME=VALUE."""
    told: set[str] = field(default_factory=set)
    """Names of the options that the command line gave. The environment and the defaults do not replace the values of these options."""


def _declared(
    bootstrap: Annotated[
        str,
        typer.Option(
            envvar=VARIABLE,
            metavar="HOST:PORT",
            help="Addresses of one or more brokers, with commas between them.",
            rich_help_panel=_PANEL,
        ),
    ] = "",
    namespace: Annotated[
        str,
        typer.Option(envvar="CONVERSATIONS_NAMESPACE", help="First part of all topic names.", rich_help_panel=_PANEL),
    ] = DEFAULT_NAMESPACE,
    setting: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE",
            help="A setting of the product, e.g. worker.step=2s, or of librdkafka (TLS, SASL, ...). May be repeated. Passwords belong in FILE.",
            rich_help_panel=_PANEL,
        ),
    ] = [],  # noqa: B006 - Typer declares parameters in defaults, and copies them
    file: Annotated[
        str,
        typer.Option(
            "--settings",
            metavar="FILE",
            envvar=FILE,
            help="File of NAME=VALUE lines; --setting overrides it. `conversations settings` lists all names.",
            rich_help_panel=_PANEL,
        ),
    ] = "",
) -> None:
    """Declare the options. Typer builds the options from this signature."""


def _options() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_declared)
    return list(typer.main.get_command(app).params)


@contextlib.contextmanager
def _kept(context: typer.Context) -> Iterator[None]:
    """Move the options from the parameters of a command into the context. The last value on the command line takes effect."""
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
    """A command that uses Kafka. The options of this module may follow the name of the command."""

    def __init__(self, name: str | None, *, params: Sequence[Any] | None = None, **declared: Any) -> None:
        own, shared = list(params or ()), _options()
        if twice := {it.name for it in own} & {it.name for it in shared}:
            raise ValueError(f"{name} declares options of every command: {', '.join(sorted(twice))}")
        super().__init__(name, params=[*own, *shared], **declared)

    def invoke(self, ctx: Any) -> Any:
        """Move the options into the context, and run the command without them."""
        with _kept(ctx):
            return super().invoke(ctx)


class Group(TyperGroup):
    """The top level of the command line. The options of this module may come before the name of a command."""

    def __init__(self, *, params: Sequence[Any] | None = None, **declared: Any) -> None:
        super().__init__(params=[*(params or ()), *_options()], **declared)

    def invoke(self, ctx: Any) -> Any:
        """Move the options into the context, and call the command. With ``--json``, a wrong usage of the command is JSON, too."""
        as_json = "--json" in (*getattr(ctx, "protected_args", ()), *ctx.args)
        try:
            with _kept(ctx):
                return super().invoke(ctx)
        except USAGE_ERROR as error:
            if not as_json:
                raise
            show_error(error.format_message(), "UsageError", as_json=True)
            raise typer.Exit(Exit.USAGE) from error


def arguments_of(context: typer.Context) -> list[str]:
    """Return the options of the command line as arguments for another program. The other program reads the environment itself."""
    options = context.ensure_object(Options)
    named = [f"--{name}={getattr(options, name)}" for name in sorted(options.told - {"file"})]
    return [*named, *(f"--setting={setting}" for setting in options.settings)]


_SECRET = re.compile("password|secret|token|jaas|key|pem", re.IGNORECASE)


def complete(context: typer.Context, line: str) -> str:
    """Add the options of the command line to a printed command, so that it runs as it is. The shell has the environment already.

    A value that may be a secret is replaced with ``VALUE``. Another program's command stays as it is.
    """
    options = context.ensure_object(Options)
    if not line.startswith("conversations "):
        return line
    words = arguments_of(context)
    words += [f"--settings={options.file}"] if "file" in options.told else []
    shown = [_without_secret(word) for word in words]
    return f"{line} {shlex.join(shown)}" if shown else line


def _without_secret(word: str) -> str:
    option, _, rest = word.partition("=")
    name = rest.partition("=")[0]
    return f"{option}={name}=VALUE" if option == "--setting" and _SECRET.search(name) else word


def settings_of(context: typer.Context) -> Given:
    """Return the settings of the file and of the options in the context of a command.

    Raises:
        typer.BadParameter: a setting is unknown, a value is not valid, or the file cannot be read.
    """
    try:
        found = given(context.ensure_object(Options).settings)
        found.check_clients()
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from None
    return found


def namespace_of(context: typer.Context) -> str:
    """Return the namespace of the command line, for commands that need no Kafka."""
    return context.ensure_object(Options).namespace


def kafka_of(context: typer.Context, settings: Given | None = None) -> Kafka:
    """Return the Kafka cluster of the options in the context of a command.

    Args:
        context: the context of the command.
        settings: the result of ``settings_of``, for a command that uses settings of the product. Without this argument,
            settings of the product may be only in the file, not after ``--setting``.

    Raises:
        typer.BadParameter: there is no address; a setting is wrong (see ``settings_of``); or ``settings`` is not given, and
            ``--setting`` has a setting of the product.
    """
    options = context.ensure_object(Options)
    if not options.bootstrap:
        raise typer.BadParameter(
            f"the address of Kafka is missing: give --bootstrap HOST:PORT, or set {VARIABLE}. "
            "To start a Kafka on this machine: conversations broker start"
        )
    try:
        settings = settings or settings_of(context).without_options()
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from None
    return Kafka(options.bootstrap, namespace=options.namespace, settings=settings.of_clients())
