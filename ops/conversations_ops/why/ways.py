"""Collects what is known about the ways to other clusters: from the catalog, the group of the forwarders, and their events."""

from __future__ import annotations

from collections.abc import Iterable

from conversations.config import Kafka
from conversations.kafka.catalog import Catalog
from conversations.kafka.ownership import forwarded_partitions
from conversations.protocol.events import ClusterAway, ClusterBack, ForwardingBegan, ForwardingEnded, NotForwarded
from conversations.protocol.letters import TEXT_LIMIT
from conversations_ops.read_model.events import Event, Wanted, events
from conversations_ops.read_model.file import File
from conversations_ops.why.facts import Way

LOOKED_AT = 500
"""Number of the newest events of each name that are looked at."""


def ways_to(kafka: Kafka, file: File, catalog: Catalog, services: Iterable[str]) -> dict[str, Way]:
    """Return the ways to those of the services that live on another cluster. Each cluster is asked about once.

    Raises:
        LogError: the group of the forwarders cannot be described, or the file cannot be read.
    """
    there = {service: it for service in services if (it := catalog.route(service)) is not None}
    if not there:
        return {}
    told = {
        name: _last(file, name)
        for name in (ClusterAway.NAME, ClusterBack.NAME, ForwardingBegan.NAME, ForwardingEnded.NAME)
    }
    found: dict[str, Way] = {}
    for it in there.values():
        if it.name not in found:
            carried = forwarded_partitions(kafka, it.name)
            last = {name: event for name, events in told.items() if (event := events.get(it.name)) is not None}
            found[it.name] = Way(it.name, it.bootstrap, it.partitions, carried, _away(last), _ended(last))
    lacked = _lacked(file)
    return {service: found[it.name]._replace(lacked=lacked.get((it.name, service))) for service, it in there.items()}


def _lacked(file: File) -> dict[tuple[str, str], int]:
    """Return when a forwarder last found that a cluster does not have a service, by cluster and service."""
    found: dict[tuple[str, str], int] = {}
    for it in events(file, Wanted(name=NotForwarded.NAME), LOOKED_AT):
        fields = it.told.fields  # whoever may write events may leave any field out
        found.setdefault((str(fields.get("cluster", "")), str(fields.get("service", ""))), it.told.at)
    return found


def _last(file: File, name: str) -> dict[str, Event]:
    """Return the newest event of this name about each cluster."""
    found: dict[str, Event] = {}
    for it in events(file, Wanted(name=name), LOOKED_AT):
        found.setdefault(str(it.told.fields.get("cluster", "")), it)
    return found


def _away(last: dict[str, Event]) -> tuple[int, str] | None:
    """Return since when the cluster is away, and why. After the event, no forwarder has begun or said that it is back."""
    away = last.get(ClusterAway.NAME)
    if away is None or any(
        name in last and last[name].offset > away.offset for name in (ClusterBack.NAME, ForwardingBegan.NAME)
    ):
        return None
    return away.told.at, str(away.told.fields.get("why", ""))[:TEXT_LIMIT]


def _ended(last: dict[str, Event]) -> int | None:
    began, ended = last.get(ForwardingBegan.NAME), last.get(ForwardingEnded.NAME)
    return None if ended is None or (began is not None and began.offset > ended.offset) else ended.told.at
