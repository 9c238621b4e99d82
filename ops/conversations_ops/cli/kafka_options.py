"""Options that say which Kafka, the same for every command."""

from __future__ import annotations

from typing import Annotated

import typer

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.protocol.topics import DEFAULT_NAMESPACE
from conversations_ops.settings_file import VARIABLE as FILE
from conversations_ops.settings_file import settings_of_file

VARIABLE = "CONVERSATIONS_BOOTSTRAP"

Bootstrap = Annotated[
    str, typer.Option(envvar=VARIABLE, metavar="HOST:PORT", help="Address of some brokers, with commas between them.")
]
Namespace = Annotated[str, typer.Option(envvar="CONVERSATIONS_NAMESPACE", help="First part of every topic's name.")]
Settings = Annotated[
    list[str],
    typer.Option(
        "--setting",
        metavar="NAME=VALUE",
        help=f"A setting for librdkafka (TLS, SASL, ...); may be repeated. Passwords: NAME=VALUE lines in a file that {FILE} names.",
    ),
]
NO_NAMESPACE = DEFAULT_NAMESPACE


def kafka_of(bootstrap: str, namespace: str, settings: list[str]) -> Kafka:
    """Make the address of a Kafka from a command's options.

    Raises:
        typer.BadParameter: no address, a setting is not NAME=VALUE, or the file of settings cannot be read.
    """
    if not bootstrap:
        raise typer.BadParameter(
            f"say which Kafka: --bootstrap HOST:PORT, or {VARIABLE} in the environment. "
            "For one on this machine: conversations broker start"
        )
    pairs = [setting.partition("=") for setting in settings]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise typer.BadParameter(f"--setting {name!r} is not NAME=VALUE, for instance security.protocol=SSL")
    try:
        given = settings_of_file()
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from None
    return Kafka(bootstrap, namespace=namespace, settings=given | {name: value for name, _, value in pairs})
