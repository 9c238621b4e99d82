"""The option ``--cluster``: other clusters that a command looks at, too."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import typer

from conversations.config import Kafka
from conversations.kafka.catalog import read_catalog
from conversations_ops.cli.kafka_options import Options, complete
from conversations_ops.operate.other_clusters import other_cluster
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


def complete_at(context: typer.Context, line: str, cluster: str, others: Mapping[str, There]) -> str:
    """Add options to a printed command, so that it runs as it is: those of the command line, or those for another cluster."""
    if not cluster or not line.startswith("conversations "):
        return complete(context, line)
    there = others[cluster]
    words = [f"--bootstrap={there.kafka.bootstrap}", f"--namespace={there.kafka.namespace}"]
    if there.file or context.ensure_object(Options).file:  # the shell may name a file, and that one is for this cluster
        words.append(f"--settings={there.file}")
    return f"{line} {shlex.join(words)}"
