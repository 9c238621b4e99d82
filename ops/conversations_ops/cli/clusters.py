"""The option ``--cluster``: other clusters that a command looks at, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from conversations.config import Kafka
from conversations.kafka.catalog import read_catalog
from conversations_ops.operate.other_clusters import other_cluster
from conversations_ops.settings.given import settings_by_cluster

AlsoAt = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster", metavar="NAME[=FILE]",
        help="Also look at another cluster, as `route add` named it. FILE has NAME=VALUE lines for it: login, TLS. May be repeated.",
    ),
]  # fmt: skip


def clusters_of(kafka: Kafka, given: Sequence[str]) -> dict[str, Kafka]:
    """Return each cluster of the option, by its name.

    Raises:
        DeclarationError: the catalog names no such cluster, or a file of settings cannot be read.
        LogError: the catalog cannot be read.
    """
    if not given:
        return {}
    catalog = read_catalog(kafka)
    found = settings_by_cluster(given)
    return {name: other_cluster(catalog, kafka.namespace, name, settings) for name, settings in found.items()}
