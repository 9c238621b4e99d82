"""Inputs of an audit, and their end offsets. The ends are chosen so that services at work cause no false alarm.

Topics are read one after the other while services work. So the audit asks for the ends of topics three times:

1. The ends of queues, dead letters and events. Records before these ends are **early**.
2. The ends of state topics. The state is read up to these ends.
3. The ends of queues, dead letters and events again. These topics are read up to these ends.

A step is one transaction. So the rows of all early records are in the state that the audit reads. And the records of all these rows
are in the queues, dead letters and events that the audit reads. Each check uses one of these two facts:

* A check that looks for the rows of a record or a letter judges only early records and letters.
* A check that looks for the records or letters of a row searches all records and letters that are read.

All transactions before each end are decided: committed or aborted. The markers of one transaction reach its partitions one after
the other. So in the steps 2 and 3 the audit waits until all transactions that are in the log at that moment are decided.

A record of a queue can be judged as accepted or lost only if it is before the position in the row of its partition. Later
records are in flight. Rows are compared only with rows of the same partition, because the ends of two partitions may be at different
moments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.errors import LogError
from conversations.kafka.offsets import Ends, Offsets, Place
from conversations.protocol.topics import DEAD_LETTER, QUEUE, STATE, events_topic, service_topic
from spark_jobs.audit.state import watched
from spark_jobs.errors import SourceError
from spark_jobs.reading.clusters import Part
from spark_jobs.reading.envelopes import decode, judge, writer_schemas
from spark_jobs.reading.integrity import undamaged
from spark_jobs.reading.letters import letters_of
from spark_jobs.reading.rows import history_of
from spark_jobs.reading.wire import Moment, Wire, millis_of

EXTENT = "service string, kind string, topic string, partition int, start long, before long, end long, oldest long"
_FIRST_FEW = 10_000
"""Number of offsets at the beginning of a partition that are searched for the oldest record.

It is more than 1, because markers and aborted records use offsets too.
"""
EVENT = (
    "event string, service string, partition int, topic string, offset long, letters array<string>, conversation string, "
    "numbers array<long>, number long, action string, command string"
)


@dataclass(frozen=True)
class Rules:
    """The catalog's entries of the audited services."""

    namespace: str
    services: tuple[str, ...]
    wrong: frozenset[str]
    """Texts of ``sent_by`` for forbidden messages. Only the other side may send a message of this type."""
    partitions: Mapping[str, int]
    """Number of partitions of each topic of a service. Senders use this number, even if one of the topics has more partitions."""


@dataclass(frozen=True)
class Inputs:
    """The data that an audit reads about some services."""

    records: DataFrame
    """Records of their queues, from ``envelopes.judge``."""
    rows: DataFrame
    """Rows of their state, from ``audit.state.watched``."""
    letters: DataFrame
    """Their dead letters, from ``letters.letters_of``."""
    events: DataFrame
    """Records of the events topic, from ``events_of``."""
    extents: DataFrame
    """Begin and end of each partition, with the columns of ``EXTENT``.

    A partition is read from ``start`` to ``end``. Its records before ``before`` are early. If the beginning of a queue's
    partition is gone, ``oldest`` is the log time (microseconds since 1970) of its first record that is left; else it is null.
    """
    rules: Rules
    writers: Mapping[bytes, str]
    """Schemas of envelopes, from ``envelopes.writer_schemas``."""
    events_cut: bool = False
    """True if the beginning of the events topic is gone."""


def rules_of(namespace: str, services: Mapping[str, Mapping[str, object]]) -> Rules:
    """Make the rules from the services' entries in the catalog."""
    wrong = set()
    for name, entry in services.items():
        for field, from_initiator in (("accepts", True), ("initiates", False)):
            said = entry.get(field)
            for contract, types in said.items() if isinstance(said, Mapping) else ():
                own, other = ("initiator", "target") if from_initiator else ("target", "initiator")
                theirs = {*types.get(other, ())} - {*types.get(own, ())} - {*types.get("any", ())}
                wrong |= {sent_by(name, contract, kind, from_initiator=from_initiator) for kind in theirs}
    counts = {name: count for name, entry in services.items() if isinstance(count := entry.get("partitions"), int)}
    return Rules(namespace, tuple(sorted(services)), frozenset(wrong), counts)


def sent_by(receiver: str, contract: str, message_type: str, *, from_initiator: bool) -> str:
    """Join the receiver's name, the contract, the message type and the sender's side into one text for ``Rules.wrong``."""
    return "\n".join((receiver, contract, message_type, "true" if from_initiator else "false"))


def read_inputs(spark: SparkSession, parts: Sequence[Part], since: Moment | None = None) -> Inputs:
    """Read the topics of services as they are now. With ``since``, read only queue records of this log time or later.

    If the services live on several clusters, all clusters are asked in each of the three steps. Their topics get the names that they would have
    in the namespace of the first part.

    Raises:
        SourceError: the catalog does not know a service, a topic is missing, or a transaction stays open.
    """
    cuts = [_Cut(part) for part in parts]
    try:
        for cut in cuts:
            cut.begin()
        for cut in cuts:
            cut.look_at_state()
        for cut in cuts:
            cut.end(since)
    except LogError as error:
        raise SourceError(str(error)) from error
    return reduce(_together, (cut.inputs(spark, cuts[0].namespace) for cut in cuts))


class _Cut:
    """The ends of the topics of one cluster, and what is before them."""

    def __init__(self, part: Part) -> None:
        self._wire, self._services = part.wire, sorted(part.services)
        self.namespace = self._wire.kafka.namespace
        self._topics = {kind: _topics(self._wire, self._services, kind) for kind in (QUEUE, DEAD_LETTER, STATE)}
        self._events = events_topic(self.namespace)

    def begin(self) -> None:
        """Do step 1 of the module's docstring."""
        self._growing = Ends(self._wire.kafka, [*self._topics[QUEUE], *self._topics[DEAD_LETTER], self._events])
        self._starts, self._before = self._growing.first(), self._growing.decided()

    def look_at_state(self) -> None:
        """Do step 2."""
        self._state = Ends(self._wire.kafka, self._topics[STATE])
        self._state_ends = self._state.decided_by_now()

    def end(self, since: Moment | None) -> None:
        """Do step 3."""
        self._ends = self._growing.decided_by_now()
        if since is not None:
            times = Ends(self._wire.kafka, self._topics[QUEUE]).since(millis_of(since))
            self._starts |= {it: min(max(offset, self._starts[it]), self._ends[it]) for it, offset in times.items()}

    def inputs(self, spark: SparkSession, home: str) -> Inputs:
        """Return what is to be read, with the names of topics in the namespace ``home``."""
        wire, topics, writers = self._wire, self._topics, writer_schemas(self._wire.catalog.schemas)
        at_home = partial(_at_home, away=self.namespace, home=home)
        queues = {at_home(topic): (name, wire.partitions(name)) for topic, name in topics[QUEUE].items()}
        rows = _between(spark, wire, list(topics[STATE]), self._state.first(), self._state_ends)
        decoded = undamaged(decode(self._read(spark, topics[QUEUE]), writers), wire.catalog.routes)
        letters = letters_of(decode(self._read(spark, topics[DEAD_LETTER]), writers), topics[DEAD_LETTER])
        events = events_of(self._read(spark, [self._events]), self._before.get((self._events, 0), 0))
        return Inputs(
            judge(_renamed(decoded, "topic", self.namespace, home), queues),
            watched(history_of(rows, topics[STATE])),
            _renamed(letters, "source_topic", self.namespace, home),
            _renamed(events, "topic", self.namespace, home),
            spark.createDataFrame([(it[0], it[1], at_home(it[2]), *it[3:]) for it in self._extents(spark)], EXTENT),
            rules_of(home, {name: wire.catalog.services[name] for name in self._services}),
            writers,
            events_cut=any(self._starts[place] > 0 for place in self._starts if place[0] == self._events),
        )

    def _read(self, spark: SparkSession, topics: Iterable[str]) -> DataFrame:
        return _between(spark, self._wire, list(topics), self._starts, self._ends)

    def _extents(self, spark: SparkSession) -> list[tuple[Any, ...]]:
        owners = self._topics[QUEUE] | self._topics[DEAD_LETTER] | {self._events: ""}
        oldest = _oldest(spark, self._wire, list(self._topics[QUEUE]), self._starts, self._ends)
        return [
            (
                owners[topic], topic.rpartition(".")[2], topic, partition, self._starts[topic, partition],
                self._before[topic, partition], self._ends[topic, partition], oldest.get((topic, partition)),
            )
            for topic, partition in self._ends
        ]  # fmt: skip


def _together(one: Inputs, other: Inputs) -> Inputs:
    """Return the inputs of two clusters as those of one."""
    rules = Rules(
        one.rules.namespace, tuple(sorted({*one.rules.services, *other.rules.services})), one.rules.wrong | other.rules.wrong,
        {**one.rules.partitions, **other.rules.partitions},
    )  # fmt: skip
    names = ("records", "rows", "letters", "events", "extents")
    united = {name: getattr(one, name).unionByName(getattr(other, name)) for name in names}
    return Inputs(
        **united, rules=rules, writers={**one.writers, **other.writers}, events_cut=one.events_cut or other.events_cut
    )


def _at_home(topic: str, away: str, home: str) -> str:
    return f"{home}.{topic.removeprefix(f'{away}.')}"


def _renamed(found: DataFrame, column: str, away: str, home: str) -> DataFrame:
    """Give topics of the namespace ``away`` the names that they would have in ``home``."""
    topic = F.col(column)
    mine = F.startswith(topic, F.lit(f"{away}."))
    named = F.concat(F.lit(f"{home}."), F.substring(topic, len(away) + 2, 1_000))
    return found if away == home else found.withColumn(column, F.when(mine, named).otherwise(topic))


def _topics(wire: Wire, services: Iterable[str], kind: str) -> dict[str, str]:
    found = {}
    for name in services:
        wire.partitions(name)
        found[service_topic(wire.kafka.namespace, name, kind)] = name
    return found


def _between(spark: SparkSession, wire: Wire, topics: list[str], starts: Offsets, ends: Offsets) -> DataFrame:
    """Read topics between two sets of offsets."""
    return wire.read_offsets(spark, _json(topics, starts), _json(topics, ends), topics)


def _json(topics: Iterable[str], offsets: Offsets) -> str:
    return json.dumps({
        topic: {str(partition): offset for (name, partition), offset in offsets.items() if name == topic}
        for topic in topics
    })  # fmt: skip


def _oldest(spark: SparkSession, wire: Wire, topics: list[str], starts: Offsets, ends: Offsets) -> dict[Place, int]:
    """Return the log time of the oldest record of each partition whose beginning is gone."""
    cut = {place for place, start in starts.items() if start > 0 and place[0] in topics}
    if not cut:
        return {}
    upto = {place: min(starts[place] + (_FIRST_FEW if place in cut else 0), ends[place]) for place in ends}
    first = (
        _between(spark, wire, topics, starts, upto)
        .groupBy("topic", "partition")
        .agg(F.unix_micros(F.min("timestamp")).alias("at"))
    )
    return {(it["topic"], it["partition"]): it["at"] for it in first.collect()}


def events_of(records: DataFrame, before: int) -> DataFrame:
    """Read the reports of workers, with the columns of ``EVENT``. ``early`` is true for events before the offset ``before``."""
    text = F.try_validate_utf8(F.col("value").cast("string"))
    said = F.from_json(text, EVENT)
    return records.select(said.alias("said"), (F.col("offset") < before).alias("early")).select("said.*", "early")
