"""The routes of a namespace: for each other cluster, whether a forwarder carries the messages there, what waits, and when it is tried again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.catalog import read_catalog
from conversations.kafka.forwarded import MOST, not_carried
from conversations_ops.read_model.file import File
from conversations_ops.read_model.services import service_names
from conversations_ops.read_model.status import Stall, Status
from conversations_ops.read_model.transmissions import unacknowledged
from conversations_ops.why.cause import Clock
from conversations_ops.why.facts import Way
from conversations_ops.why.ways import ways_to


class Waiting(NamedTuple):
    """What a service has sent to another cluster, and its peers there have not acknowledged."""

    envelopes: int = 0
    next_try: int | None = None
    """Time of the next retransmission, microseconds since 1970; None if it is not known."""


class Route(NamedTuple):
    """The way to one other cluster, and what waits for it."""

    way: Way
    lacked: Mapping[str, int]
    """The services that a forwarder did not find there, and when it looked."""
    waiting: Mapping[str, Waiting]
    """What is not acknowledged, by the service that sent it. Services that wait for nothing are left out."""
    not_carried: int | None
    """Number of envelopes that no forwarder has appended there yet; None if the other cluster was not asked, or did not answer."""
    seen_at: int
    """The time of this look, microseconds since 1970."""

    @property
    def unacknowledged(self) -> int:
        """Number of all envelopes that are not acknowledged."""
        return sum(it.envelopes for it in self.waiting.values())

    @property
    def next_try(self) -> int | None:
        """Time of the next retransmission; None if it is not known."""
        return min((it.next_try for it in self.waiting.values() if it.next_try is not None), default=None)

    def stall(self, waiting: Waiting | None = None) -> Stall | None:
        """Return why nothing goes there, with what one service has sent, or all services; None if it is carried."""
        envelopes, again = waiting or (self.unacknowledged, self.next_try)
        way = self.way
        if not way.is_carried:
            return Stall(way.cluster, False, "", way.ended, envelopes, again, self.seen_at)
        if way.away is None:
            return None
        since, why = way.away
        return Stall(way.cluster, True, why, since, envelopes, again, self.seen_at)


Reach = Callable[[str, Collection[str]], Kafka | None]
"""Returns how to reach the cluster of a name, on which some services live; None if that is not known."""


def routes_of(kafka: Kafka, file: File, reach: Reach, now: int) -> list[Route]:
    """Return the routes of a namespace, one for each other cluster, by the names of the clusters.

    Args:
        kafka: the cluster and namespace.
        file: its read model.
        reach: how to reach another cluster. It is asked how far the forwarders are.
        now: the present time, microseconds since 1970.

    Raises:
        LogError: the catalog or a group cannot be read.
    """
    catalog = read_catalog(kafka)
    ways = ways_to(kafka, file, catalog, sorted(catalog.routes))
    found: dict[str, Route] = {}
    for peer, way in ways.items():
        it = found.get(way.cluster) or Route(way, {}, {}, None, now)
        lacked = {**it.lacked, peer: way.lacked} if way.lacked is not None else it.lacked
        found[way.cluster] = it._replace(lacked=lacked, waiting=_added(file, it.waiting, peer))
    for name, it in found.items():
        there = reach(name, [peer for peer, way in ways.items() if way.cluster == name])
        if there is not None:
            with suppress(LogError):  # the link may be what is down; the rest is worth telling
                found[name] = it._replace(not_carried=not_carried(kafka, name, there))
    return [found[name] for name in sorted(found)]


def _added(file: File, waiting: Mapping[str, Waiting], peer: str) -> dict[str, Waiting]:
    """Add what waits for one more peer of the cluster."""
    found = dict(waiting)
    for service in service_names(file):
        envelopes, again = unacknowledged(file, service, peer)
        if envelopes:
            before = found.get(service, Waiting())
            times = [at for at in (before.next_try, again) if at is not None]
            found[service] = Waiting(before.envelopes + envelopes, min(times, default=None))
    return found


def with_stalls(found: Sequence[Status], routes: Sequence[Route]) -> list[Status]:
    """Add to the status of each service the routes that are down while something of the service waits for them."""
    return [
        it._replace(stalls=tuple(
            stall for route in routes if (waiting := route.waiting.get(it.service)) is not None and (stall := route.stall(waiting)) is not None
        ))
        for it in found
    ]  # fmt: skip


def condition(it: Route, clock: Clock) -> str:
    """Say in a few words whether a route is carried, and which services are not there."""
    way, found = it.way, []
    if not way.is_carried:
        found.append("no forwarder runs" if not way.carried else "some partitions have no forwarder")
        found[0] += "" if way.ended is None else f" since {clock(way.ended)}"
    elif way.away is not None:
        since, why = way.away
        found.append(f"down since {clock(since)}: {why}")
    found += [f"it had no service {name!r} at {clock(at)}" for name, at in sorted(it.lacked.items())]
    return "; ".join(found) or "carried"


def counted_most(count: int | None) -> str:
    """Write a number of envelopes that are not carried; empty if it is not known."""
    if count is None:
        return ""
    return f"{count:,} or more" if count >= MOST else f"{count:,}"
