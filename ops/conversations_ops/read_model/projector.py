"""Brings the file of the read model up to date with the state topics, the dead-letter topics, the events, the operators topic and the metrics of a namespace."""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from conversations.config import Kafka
from conversations.durations import SECOND
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import Extent, Place, extents_of
from conversations.ports import Record
from conversations.protocol.topics import (
    DEAD_LETTER,
    STATE,
    events_topic,
    metrics_topic,
    operators_topic,
    service_topic,
)
from conversations_ops.operate.state import PATIENCE, services
from conversations_ops.read_model.derived import derive
from conversations_ops.read_model.file import File, ReadModelFailed, delete, path_of
from conversations_ops.read_model.written import EVENTS, METRICS, OPERATORS, Source, forget, trim, write
from conversations_ops.settings.given import periods

SIDES = 5_000
"""Number of sides that are derived in one transaction."""
Told = Callable[[int, int], None]
"""Is told the number of records that are read, and the number of all records to read."""


class Overtaken(ReadModelFailed):
    """Another process has thrown the rows of the file away while this process was reading. The reading begins again, once."""


class _Topics(NamedTuple):
    """The topics of a namespace that the read model follows, and their present extents."""

    sources: Mapping[str, Source]
    """Service and kind by topic."""
    extents: Mapping[Place, Extent]


@contextmanager
def current(kafka: Kafka, told: Told, directory: Path | None = None) -> Iterator[File]:
    """Bring the file of a namespace up to date, and give it to the block. A damaged file is thrown away and made anew.

    The file has everything that was committed when the call began. ``told`` is called while records are read. ``directory`` is by default a
    part of the cache directory.

    Raises:
        DeclarationError: there is no such namespace.
        LogError: a topic cannot be read, or the file cannot be written.
    """
    path = path_of(kafka, directory)
    file = _caught_up(kafka, path, told)
    with file:
        yield file


def _caught_up(kafka: Kafka, path: Path, told: Told) -> File:
    for again in (True, False):
        try:
            file = File(path)
            try:
                _catch_up(kafka, file, told)
            except BaseException:
                file.close()
                raise
        except Overtaken:
            if not again:
                raise
        except sqlite3.DatabaseError:
            if not again:
                raise
            delete(path)
        else:
            return file
    raise AssertionError("the second attempt returns or raises")


def _catch_up(kafka: Kafka, file: File, told: Told) -> None:
    topics = _topics(kafka)
    with file.transaction() as connection:
        _forget(connection, topics)
        begin = _begin(connection, topics)
    ends = {place: extent.end for place, extent in topics.extents.items()}
    total, done = sum(ends[place] - offset for place, offset in begin.items()), 0
    at = dict(begin)
    if total:
        with Follower(kafka, list(topics.sources), begin) as follower:
            for records in follower.parts_to(ends, PATIENCE):
                with file.transaction() as connection:
                    _append(connection, topics, records, at)
                done += len(records)
                told(min(done, total), total)
    with file.transaction() as connection:
        for place, offset in at.items():
            _arrive(connection, place, offset, ends[place])
    _derive_all(file, kafka.namespace)
    told(total, total)


def _topics(kafka: Kafka) -> _Topics:
    names, namespace = services(kafka), kafka.namespace
    sources = {
        service_topic(namespace, name, kind): Source(name, kind) for name in names for kind in (STATE, DEAD_LETTER)
    }
    sources[events_topic(namespace)] = Source("", EVENTS)
    sources[operators_topic(namespace)] = Source("", OPERATORS)
    sources[metrics_topic(namespace)] = Source("", METRICS)
    # Spark makes the metrics topic, and a namespace that an older release has applied has no operators topic.
    extents = extents_of(kafka, sources, may_lack={operators_topic(namespace), metrics_topic(namespace)})
    there = {topic for topic, _ in extents}
    return _Topics({topic: source for topic, source in sources.items() if topic in there}, extents)


def _forget(connection: sqlite3.Connection, topics: _Topics) -> None:
    """Throw away the rows of topics that are gone, that were created again, or that were not read for too long."""
    oldest = time.time() - periods().deletes_kept / SECOND / 2
    found = list(connection.execute("SELECT topic, partition, service, kind, topic_id, next, read_at FROM places"))
    for topic, partition, service, kind, topic_id, offset, read_at in found:
        extent = topics.extents.get((topic, partition))
        if extent is not None and extent.topic_id == topic_id and offset <= extent.end and oldest <= read_at:
            trim(connection, kind, (service, partition), extent.first)
            continue
        connection.execute("DELETE FROM places WHERE topic = ? AND partition = ?", (topic, partition))
        forget(connection, kind, (service, partition))


def _begin(connection: sqlite3.Connection, topics: _Topics) -> dict[Place, int]:
    """Return the next offset of each partition, and store the first offsets of new partitions."""
    stored = {
        (topic, number): offset
        for topic, number, offset in connection.execute("SELECT topic, partition, next FROM places")
    }
    now = int(time.time())
    for place, extent in topics.extents.items():
        if place not in stored:
            row = (*place, *topics.sources[place[0]], extent.topic_id, extent.first, now)
            connection.execute("INSERT INTO places VALUES (?,?,?,?,?,?,?)", row)
    return {place: max(stored.get(place, extent.first), extent.first) for place, extent in topics.extents.items()}


def _append(connection: sqlite3.Connection, topics: _Topics, records: Sequence[Record], at: dict[Place, int]) -> None:
    """Append records that begin at the offsets ``at``, and move these offsets.

    Raises:
        Overtaken: the file has an earlier offset, so that there would be a hole.
    """
    parts: dict[Place, list[Record]] = defaultdict(list)
    for record in records:
        parts[record.topic() or "", record.partition() or 0].append(record)
    for place, part in parts.items():
        if (stored := _stored(connection, place)) < at[place]:
            raise _overtaken(place)
        new = [it for it in part if (it.offset() or 0) >= stored]
        at[place] = (part[-1].offset() or 0) + 1
        if new:
            write(connection, topics.sources[place[0]], place[1], new)
            connection.execute("UPDATE places SET next = ? WHERE topic = ? AND partition = ?", (at[place], *place))


def _arrive(connection: sqlite3.Connection, place: Place, offset: int, end: int) -> None:
    """Store that a partition is read to its end. There may be markers of transactions between the last record and the end.

    Raises:
        Overtaken: the file has an earlier offset than this process has read.
    """
    if _stored(connection, place) < offset:
        raise _overtaken(place)
    connection.execute(
        "UPDATE places SET next = max(next, ?), read_at = ? WHERE topic = ? AND partition = ?",
        (end, int(time.time()), *place),
    )


def _stored(connection: sqlite3.Connection, place: Place) -> int:
    found = connection.execute("SELECT next FROM places WHERE topic = ? AND partition = ?", place).fetchone()
    return -1 if found is None else int(found[0])


def _overtaken(place: Place) -> Overtaken:
    return Overtaken(
        f"another process makes the read model anew, from {place[0]} partition {place[1]}: run the command again"
    )


def _derive_all(file: File, namespace: str) -> None:
    while True:
        with file.transaction() as connection:
            if not derive(connection, namespace, SIDES):
                return
