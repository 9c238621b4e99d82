"""The option ``--cluster``: other clusters that a command looks at, too."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, NamedTuple, TypeVar

import typer

from conversations.config import Kafka
from conversations.errors import DeclarationError, LogError
from conversations.kafka.catalog import read_catalog
from conversations_ops.cli.kafka_options import Options, complete
from conversations_ops.console.exit_codes import code_of
from conversations_ops.operate.other_clusters import other_cluster
from conversations_ops.printable import one_line
from conversations_ops.settings.given import settings_by_cluster

HERE = "here"
"""What tables call the cluster of ``--bootstrap``: its own catalog has no name for it."""

AlsoAt = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster", metavar="NAME[=FILE]",
        help="Also look at another cluster, as `route add` named it. FILE has NAME=VALUE lines for it: login, TLS. May be repeated.",
    ),
]  # fmt: skip


class There(NamedTuple):
    """Another cluster of the option."""

    kafka: Kafka
    file: str
    """The file with its settings; empty if none was given."""


def clusters_of(kafka: Kafka, given: Sequence[str]) -> dict[str, Kafka]:
    """Return each cluster of the option, by its name. See ``there_of``."""
    return {name: it.kafka for name, it in there_of(kafka, given).items()}


def there_of(kafka: Kafka, given: Sequence[str]) -> dict[str, There]:
    """Return each cluster of the option with its file of settings, by its name.

    Raises:
        DeclarationError: the catalog names no such cluster, or a file of settings cannot be read.
        LogError: the catalog cannot be read.
    """
    if not given:
        return {}
    catalog = read_catalog(kafka)
    files = {name: file for name, _, file in (it.partition("=") for it in given)}
    found = settings_by_cluster(given)
    return {
        name: There(other_cluster(catalog, kafka.namespace, name, settings), files[name])
        for name, settings in found.items()
    }


T = TypeVar("T")


def everywhere(
    kafka: Kafka, others: Mapping[str, Kafka], look: Callable[[str, Kafka], T]
) -> tuple[dict[str, T], dict[str, LogError]]:
    """Look at this cluster and at other ones. Return what was found, and why clusters cannot be read, by the names of the clusters.

    This cluster has no name. A cluster that does not know what is asked for is left out.

    Raises:
        LookupError, DeclarationError: no cluster knows what is asked for.
        LogError: this cluster cannot be read.
    """
    found: dict[str, T] = {}
    unread: dict[str, LogError] = {}
    unknown: Exception | None = None
    for name, at in {"": kafka, **others}.items():
        try:
            found[name] = look(name, at)
        except (LookupError, DeclarationError) as error:
            unknown = unknown or error
        except LogError as error:
            if not name:
                raise
            unread[name] = error
    if not found and unknown is not None:
        raise unknown
    return found, unread


def unread_lines(unread: Mapping[str, LogError]) -> list[str]:
    """Say which clusters cannot be read, and why, in one line each."""
    return [one_line(f"{name} cannot be looked at: {why}") for name, why in unread.items()]


def unread_fields(unread: Mapping[str, LogError]) -> dict[str, str]:
    """Return the same for JSON."""
    return {name: str(why) for name, why in unread.items()}


def exit_for(unread: Mapping[str, LogError]) -> None:
    """Exit with the code of the first cluster that cannot be read, if there is one.

    Raises:
        typer.Exit: not everything was seen.
    """
    for error in unread.values():
        raise typer.Exit(code_of(error))


def complete_at(context: typer.Context, line: str, cluster: str, others: Mapping[str, There]) -> str:
    """Add options to a printed command, so that it runs as it is: those of the command line, or those for another cluster."""
    if not cluster or not line.startswith("conversations "):
        return complete(context, line)
    there = others[cluster]
    words = [f"--bootstrap={there.kafka.bootstrap}", f"--namespace={there.kafka.namespace}"]
    if there.file or context.ensure_object(Options).file:  # the shell may name a file, and that one is for this cluster
        words.append(f"--settings={there.file}")
    return f"{line} {shlex.join(words)}"
