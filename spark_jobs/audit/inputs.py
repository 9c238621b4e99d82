"""What an audit reads, and up to where, so that a service at work gives no false alarm.

Topics are read one after the other while services go on, so their ends are asked for three times. First those of queues,
dead letters and events: what is before them is **early**. Then those of the state. Then those of queues, dead letters and
events again, up to which they are read. A step is one transaction, so what is early has its rows in the state that is
read, and what the state says has its records in what is read. Each check looks in one of these two directions:

* what the wire or a letter implies for the state is asked of early records only;
* what the state implies for the wire and for letters is looked for among all.

Each end is taken where everything before it is decided, behind what the one before it had in the log: markers of one
transaction reach their partitions one after the other. Of a partition's queue only what lies before the position in its
row can be judged as accepted or lost; everything else is in flight. Rows of one partition are compared with each other,
never with those of another, whose end may be of a moment before or after.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations.errors import LogError
from conversations.kafka.offsets import Ends, Offsets, Place
from conversations.protocol.topics import DEAD_LETTER, QUEUE, STATE, events_topic, service_topic
from spark_jobs.audit.state import watched
from spark_jobs.errors import SourceError
from spark_jobs.reading.envelopes import decode, judge, writer_schemas
from spark_jobs.reading.letters import letters_of
from spark_jobs.reading.rows import history_of
from spark_jobs.reading.wire import Moment, Wire, millis_of

EXTENT = "service string, kind string, topic string, partition int, start long, before long, end long, oldest long"
_FIRST_FEW = 10_000
"""Offsets at the beginning of a partition among which its oldest record is looked for: markers and aborted records have some too."""
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
    """Message types that only the other side may send, as ``sent_by`` writes them."""
    partitions: Mapping[str, int]
    """How many each topic of a service has: who sends to it counts on that, also when one of them has grown."""


@dataclass(frozen=True)
class Inputs:
    """What there is of some services."""

    records: DataFrame
    """Records of their queues as ``envelopes.judge`` gives them."""
    rows: DataFrame
    """Rows of their state, as ``audit.state.watched`` gives them."""
    letters: DataFrame
    """As ``letters.letters_of`` gives them."""
    events: DataFrame
    """Of the events topic, each with ``early``."""
    extents: DataFrame
    """Where each partition begins and ends, see ``EXTENT``: it is read from ``start`` to ``end``, early up to ``before``.

    ``oldest`` is the log time (microseconds since 1970) of the first record that is left of a queue whose beginning is
    gone, else null.
    """
    rules: Rules
    writers: Mapping[bytes, str]
    """Schemas of envelopes, as ``envelopes.writer_schemas`` gives them."""
    events_cut: bool = False
    """The beginning of the events topic is gone."""


def rules_of(namespace: str, services: Mapping[str, Mapping[str, object]]) -> Rules:
    """Take the rules from the services' entries in the catalog."""
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
    """Write down the receiver's name, the contract, the type and the side of the sender, as ``Rules.wrong`` has them."""
    return "\n".join((receiver, contract, message_type, "true" if from_initiator else "false"))


def read_inputs(spark: SparkSession, wire: Wire, services: Iterable[str], since: Moment | None = None) -> Inputs:
    """Read the topics of services as they are now; of their queues only records of ``since`` or later.

    Raises:
        SourceError: the catalog does not know a service, a topic is missing, or a transaction stays open.
    """
    known = sorted(services)
    if not known:
        raise SourceError(f"namespace {wire.kafka.namespace!r} has no services: run 'conversations apply'")
    topics = {kind: _topics(wire, known, kind) for kind in (QUEUE, DEAD_LETTER, STATE)}
    events = events_topic(wire.kafka.namespace)
    try:
        growing = Ends(wire.kafka, [*topics[QUEUE], *topics[DEAD_LETTER], events])
        starts, before = growing.first(), growing.decided()
        state = Ends(wire.kafka, topics[STATE])
        state_ends = state.decided_by_now()
        ends = growing.decided_by_now()
        if since is not None:
            times = Ends(wire.kafka, topics[QUEUE]).since(millis_of(since))
            starts |= {place: min(max(offset, starts[place]), ends[place]) for place, offset in times.items()}
    except LogError as error:
        raise SourceError(str(error)) from error
    writers = writer_schemas(wire.catalog.schemas)

    def read(names: Iterable[str]) -> DataFrame:
        return _between(spark, wire, list(names), starts, ends)

    rows = _between(spark, wire, list(topics[STATE]), state.first(), state_ends)
    queues = {topic: (name, wire.partitions(name)) for topic, name in topics[QUEUE].items()}
    owners = topics[QUEUE] | topics[DEAD_LETTER] | {events: ""}
    oldest = _oldest(spark, wire, list(topics[QUEUE]), starts, ends)
    return Inputs(
        judge(decode(read(topics[QUEUE]), writers), queues),
        watched(history_of(rows, topics[STATE])),
        letters_of(decode(read(topics[DEAD_LETTER]), writers), topics[DEAD_LETTER]),
        events_of(read([events]), before.get((events, 0), 0)),
        spark.createDataFrame(_extents(owners, starts, before, ends, oldest), EXTENT),
        rules_of(wire.kafka.namespace, {name: wire.catalog.services[name] for name in known}),
        writers,
        events_cut=any(starts[place] > 0 for place in starts if place[0] == events),
    )


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
    """Look up the log time of the first record of each partition whose beginning is gone."""
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


def _extents(
    owners: Mapping[str, str], starts: Offsets, before: Offsets, ends: Offsets, oldest: Mapping[Place, int]
) -> list[tuple[object, ...]]:
    return [
        (
            owners[topic], topic.rpartition(".")[2], topic, partition,
            starts[topic, partition], before[topic, partition], ends[topic, partition], oldest.get((topic, partition)),
        )
        for topic, partition in ends
    ]  # fmt: skip


def events_of(records: DataFrame, before: int) -> DataFrame:
    """Read what workers report, as ``EVENT`` has it; ``early``: it stands before this offset."""
    text = F.try_validate_utf8(F.col("value").cast("string"))
    said = F.from_json(text, EVENT)
    return records.select(said.alias("said"), (F.col("offset") < before).alias("early")).select("said.*", "early")
