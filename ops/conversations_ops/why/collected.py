"""Collects the facts about a dialog from the read model, and asks Kafka for what the read model does not have."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from conversations.config import Kafka
from conversations.kafka.acls import ANYBODY, writers
from conversations.kafka.catalog import read_catalog
from conversations.kafka.log_times import open_transactions
from conversations.kafka.offsets import since
from conversations.kafka.ownership import owned_partitions
from conversations.protocol.events import PartitionSetAside
from conversations.protocol.topics import QUEUE, STATE, service_topic
from conversations_ops.operate.dialogs import Side, not_known
from conversations_ops.operate.open_transactions import LONG
from conversations_ops.read_model.dialogs import both_sides
from conversations_ops.read_model.events import Wanted, events
from conversations_ops.read_model.file import File
from conversations_ops.read_model.letters import letters_of
from conversations_ops.read_model.queues import queues
from conversations_ops.read_model.transmissions import transmissions_of, unacknowledged
from conversations_ops.why.facts import Facts, Unacknowledged, Way
from conversations_ops.why.unread import unread_records
from conversations_ops.why.ways import ways_to

MOST = 10_000
"""Number of events of a service that are read."""


def facts_of(kafka: Kafka, file: File, conversation: bytes) -> Facts:
    """Collect what is known about a dialog.

    Args:
        kafka: the cluster and namespace.
        file: the read model, up to date.
        conversation: the id of the dialog.

    Raises:
        LookupError: no service has a side of this dialog.
        LogError: a topic or a group cannot be read.
    """
    sides = both_sides(file, kafka.namespace, conversation)
    if not sides:
        raise not_known(conversation)
    first = _first_of_pool(kafka, file, sides)
    return replace(_of_dialog(kafka, file, sides), ahead=None if first is None else _of_dialog(kafka, file, first))


def _of_dialog(kafka: Kafka, file: File, sides: Sequence[Side]) -> Facts:
    catalog = read_catalog(kafka)
    known = frozenset(catalog.services)
    letters = [it for it in letters_of(file, sides[0].name) if it.is_last]
    names = sorted({it.service for it in sides} | {it.peer for it in sides} & known)
    lacking = {place: users for it in sides for place, users in _lacking(kafka, it, known)}
    ways = ways_to(kafka, file, catalog, {it.peer for it in sides})
    waits = _unacknowledged_of(file, kafka.namespace, sides, ways)
    return _facts(
        kafka, file, names, sides=sides, services=known, letters=letters, lacking=lacking, ways=ways, unacknowledged=waits
    )  # fmt: skip


def _unacknowledged_of(
    file: File, namespace: str, sides: Sequence[Side], ways: Mapping[str, Way]
) -> dict[tuple[str, str], Unacknowledged]:
    """Return what the peers of a dialog on other clusters have not acknowledged."""
    if not ways:
        return {}
    listed = transmissions_of(file, namespace, sides[0].conversation, "", 1)
    times = {} if listed is None else {it.service: it.next_try for it in listed.first}
    return {
        (it.service, it.peer): Unacknowledged(it.sent - it.acknowledged, times.get(it.service))
        for it in sides
        if it.closed is None and it.peer in ways and it.sent > it.acknowledged
    }


def _first_of_pool(kafka: Kafka, file: File, sides: Sequence[Side]) -> Sequence[Side] | None:
    """Return the sides of the dialog for which all dialogs before this one in its pool wait; None if it waits for none."""
    first = None
    for _ in range(MOST):
        before = next((it.before for it in sides if it.before), "")
        found = both_sides(file, kafka.namespace, UUID(before).bytes) if before else []
        if not found:
            break
        first = sides = found
    return first


def _lacking(kafka: Kafka, it: Side, known: Collection[str]) -> Iterator[tuple[tuple[str, str], Sequence[str]]]:
    """Yield the users that run a service and may not write to a queue that takes none of its records.

    Only workers may write to the state of their service, so whoever may is the user of a worker.
    """
    if it.closed is not None or not it.waits.delayed.records or it.peer not in known:
        return
    state, queue = service_topic(kafka.namespace, it.service, STATE), service_topic(kafka.namespace, it.peer, QUEUE)
    found = writers(kafka, [state, queue])
    if found is not None and ANYBODY not in found[queue] and (users := found[state] - found[queue] - {ANYBODY}):
        yield (it.service, it.peer), sorted(users)


def facts_of_service(kafka: Kafka, file: File, service: str) -> Facts:
    """Collect what is known about the partitions of a service.

    Raises:
        LookupError: the namespace has no such service.
        LogError: a topic or a group cannot be read.
    """
    catalog = read_catalog(kafka)
    known = frozenset(catalog.services)
    if service not in known:
        raise LookupError(
            f"the namespace {kafka.namespace!r} has no service {service!r}; it has {', '.join(sorted(known)) or 'none'}"
        )
    ways = ways_to(kafka, file, catalog, catalog.routes)
    return _facts(
        kafka,
        file,
        [service],
        sides=(),
        services=known,
        letters=(),
        lacking={},
        ways=ways,
        unacknowledged={
            (service, peer): Unacknowledged(*found)
            for peer in ways
            if (found := unacknowledged(file, service, peer))[0]
        },
    )


def _facts(kafka: Kafka, file: File, names: Sequence[str], **of_dialog: Any) -> Facts:
    now = time.time_ns() // 1_000
    places = {(it.service, it.partition): it for service in names for it in queues(file, service)}
    return Facts(
        kafka,
        queues=places,
        owned={service: owned_partitions(kafka, service) for service in names},
        unread={
            (service, number): count
            for service in names
            for number, count in unread_records(kafka, file, service).items()
        },
        aside={place: told for service in names for place, told in _aside(kafka, file, service).items()},
        transactions={place: at for place, at in _transactions(kafka, places).items() if now - at >= LONG},
        now=now,
        **of_dialog,
    )


def _aside(kafka: Kafka, file: File, service: str) -> dict[tuple[str, int], tuple[int, str]]:
    """Return the partitions that are set aside: after the event, their owner has written no row of the partition."""
    last: dict[int, tuple[int, str]] = {}
    for it in events(file, Wanted(service=service, name=PartitionSetAside.NAME), MOST):
        last.setdefault(int(it.told.fields["partition"]), (it.told.at, str(it.told.fields["why"])))
    state = service_topic(kafka.namespace, service, STATE)
    written = {number for number, (at, _) in last.items() if since(kafka, [(state, number)], at // 1_000 + 1)}
    return {(service, number): told for number, told in last.items() if number not in written}


def _transactions(kafka: Kafka, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    topics = {(service_topic(kafka.namespace, service, QUEUE), number): (service, number) for service, number in places}
    return {topics[place]: at for place, at in open_transactions(kafka, list(topics)).items()}
