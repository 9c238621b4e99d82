"""Routes: the services that live on another cluster, and where this cluster is."""

from __future__ import annotations

import json
from typing import NamedTuple

from conversations.protocol.limits import NAME

MOST_PARTITIONS = 10_000
"""Largest partition count of a transmission topic that is believed."""


class Cluster(NamedTuple):
    """Another cluster, as the catalog names it."""

    name: str
    bootstrap: str
    """Addresses of one or more of its brokers, with commas between them."""
    namespace: str
    """The namespace of its services."""
    partitions: int
    """Partition count of the transmission topic to it."""

    def record(self) -> bytes:
        """Return the value of the catalog's record."""
        fields = {"bootstrap": self.bootstrap, "namespace": self.namespace, "partitions": self.partitions}
        return json.dumps(fields, sort_keys=True).encode()


def cluster_of(name: str, value: bytes) -> Cluster:
    """Read a record of the catalog.

    Raises:
        ValueError: it is no record of a cluster.
    """
    fields = json.loads(value)
    if not isinstance(fields, dict) or not NAME.fullmatch(name):
        raise ValueError("a cluster has a name and an object of fields")
    bootstrap, namespace, partitions = (fields.get(it) for it in ("bootstrap", "namespace", "partitions"))
    if not isinstance(bootstrap, str) or not bootstrap:
        raise ValueError("a cluster has the addresses of brokers")
    if not isinstance(namespace, str) or not NAME.fullmatch(namespace):
        raise ValueError("a cluster has a namespace")
    if type(partitions) is not int or not 0 < partitions <= MOST_PARTITIONS:
        raise ValueError(f"a transmission topic has from 1 to {MOST_PARTITIONS} partitions")
    return Cluster(name, bootstrap, namespace, partitions)


def route_record(cluster: str) -> bytes:
    """Return the value of the catalog's record of a route."""
    return json.dumps({"cluster": cluster}).encode()


def route_of(value: bytes) -> str:
    """Read a record of a route, and return the name of its cluster.

    Raises:
        ValueError: it is no record of a route.
    """
    fields = json.loads(value)
    cluster = fields.get("cluster") if isinstance(fields, dict) else None
    if not isinstance(cluster, str) or not NAME.fullmatch(cluster):
        raise ValueError("a route names a cluster")
    return cluster
