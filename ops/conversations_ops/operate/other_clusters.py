"""The other clusters to which a namespace has routes."""

from __future__ import annotations

from collections.abc import Mapping

from conversations.config import Kafka
from conversations.errors import DeclarationError
from conversations.kafka.catalog import Catalog


def other_cluster(catalog: Catalog, namespace: str, name: str, settings: Mapping[str, object]) -> Kafka:
    """Return another cluster, by the name that the catalog of ``namespace`` gives it. ``settings`` are those of librdkafka for it.

    Raises:
        DeclarationError: the catalog names no such cluster.
    """
    found = catalog.clusters.get(name)
    if found is None:
        known = ", ".join(sorted(catalog.clusters)) or "none"
        raise DeclarationError(
            f"the namespace {namespace!r} has no route to a cluster {name!r:.80}; it has {known}. Add one: conversations route add"
        )
    return Kafka(found.bootstrap, namespace=found.namespace, settings=dict(settings))
