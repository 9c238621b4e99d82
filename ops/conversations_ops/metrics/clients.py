"""The metrics of clients, for an application that serves its own metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from conversations import Client
from conversations.command_counts import CommandCounts
from conversations.metrics import APPENDED, NOT_APPENDED
from conversations_ops.metrics.readings import Readings


def of_clients(clients: Iterable[Client]) -> Readings:
    """Return the metrics of some clients. Clients of one service are added up."""
    found, every = Readings(), defaultdict[str, list[CommandCounts]](list)
    for client in clients:
        every[client.service_name].append(client.counts)
    for service, counts in every.items():
        found.add(APPENDED, (service,), sum(it.appended for it in counts))
        found.add(NOT_APPENDED, (service,), sum(it.refused for it in counts))
    return found


def register(*clients: Client, registry: Any = None) -> None:
    """Let prometheus-client serve the metrics of these clients, from its default registry or from another one.

    Raises:
        ExtraMissing: prometheus-client is not installed.
    """
    from conversations_ops.metrics.exposition import register_with

    register_with(lambda: of_clients(clients), registry)
