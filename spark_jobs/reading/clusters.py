"""Several clusters as one: the services of a namespace, and the services that its catalog routes to other clusters.

A dialog between two clusters has one side on each, so a job that looks at whole dialogs reads both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from conversations.errors import DeclarationError
from conversations_ops.operate.other_clusters import other_cluster
from spark_jobs.errors import SourceError
from spark_jobs.reading.wire import Wire, talkers_among

Settings = Mapping[str, object]
"""Settings of librdkafka, for example the login."""


@dataclass(frozen=True)
class Part:
    """Some services of one cluster."""

    wire: Wire
    services: list[str]


@dataclass(frozen=True)
class Clusters:
    """A namespace, and the other clusters that are read with it, by the names that its catalog gives them."""

    home: Wire
    others: Mapping[str, Wire]

    def parts(self, service: str | None, contract: str | None) -> list[Part]:
        """Return the services whose queues have the dialogs of ``service`` under ``contract``, by cluster. See ``Wire.talkers``.

        Raises:
            SourceError: no cluster has the service, the service does not have the contract, or a cluster does not answer.
        """
        wires = dict.fromkeys(self.home.catalog.services, self.home)
        for cluster, wire in self.others.items():
            wires |= {
                name: wire
                for name, at in self.home.catalog.routes.items()
                if at == cluster and name in wire.catalog.services
            }
        if service is not None and service not in wires:
            self.home.partitions(service)
        found = talkers_among({name: wire.catalog.services[name] for name, wire in wires.items()}, service, contract)
        parts = [
            Part(wire, [name for name in found if wires[name] is wire]) for wire in (self.home, *self.others.values())
        ]
        return [part for part in parts if part.services]

    def everywhere(self, service: str | None) -> dict[str, Part]:
        """Return all services of each cluster, or the clusters that have one service, by the name of the cluster; empty for the namespace itself.

        Raises:
            SourceError: no cluster has the service, the namespace has no service, or a cluster does not answer.
        """
        wires = {"": self.home, **self.others}
        if service is not None and not any(service in wire.catalog.services for wire in wires.values()):
            self.home.partitions(service)
        if service is None and not self.home.catalog.services:
            raise SourceError(
                f"namespace {self.home.kafka.namespace!r} has no services: 'conversations apply' makes them"
            )
        parts = {
            name: Part(wire, sorted(it for it in wire.catalog.services if service in (None, it)))
            for name, wire in wires.items()
        }
        return {name: part for name, part in parts.items() if part.services}


def clusters(home: Wire, others: Mapping[str, Settings]) -> Clusters:
    """Return a namespace with other clusters. ``others`` has the settings for each, by its name; its address is in the catalog.

    Raises:
        SourceError: the catalog names no such cluster, or Kafka does not answer.
    """
    try:
        found = {
            name: other_cluster(home.catalog, home.kafka.namespace, name, settings) for name, settings in others.items()
        }
    except DeclarationError as error:
        raise SourceError(str(error)) from error
    return Clusters(home, {name: Wire(kafka, {}) for name, kafka in found.items()})
