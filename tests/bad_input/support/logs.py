"""A log into which tests write bad records, and from which they read the outcome: in memory or on Kafka, with one interface."""

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from conversations.errors import UndecodableRecord
from conversations.memory.record import MemoryRecord
from conversations.ports import Out, Record
from conversations.protocol import letters, rows
from conversations.protocol.envelope import Envelope, decode
from conversations.protocol.topics import DEAD_LETTER, QUEUE, STATE, events_topic, service_topic
from conversations.testing import Simulation
from tests.bad_input.support.forging import Forged


@dataclass
class Letter:
    """One dead letter, joined from its parts."""

    reason: str
    code: int
    value: bytes | None
    key: bytes | None
    headers: dict[str, bytes]
    parts: int = 1


Source = tuple[str, int]
"""The record that a letter keeps: kind of its topic (queue or commands), and its offset in partition 0."""


class Place(ABC):
    """One namespace with the services ``web`` and ``shop``."""

    namespace: str

    @abstractmethod
    def now(self) -> int:
        """Return the time, in microseconds since 1970."""

    @abstractmethod
    def throw(self, service: str, kind: str, records: Sequence[Forged]) -> list[int]:
        """Append records outside any transaction; return their offsets."""

    @abstractmethod
    def read(self, topic: str) -> list[Record]:
        """Return the committed records of a topic, in order in each partition."""

    def topic(self, service: str, kind: str) -> str:
        return service_topic(self.namespace, service, kind)

    def letters(self, service: str) -> dict[Source, list[Letter]]:
        """Return the dead letters of a service for records of partition 0, by the record that they keep."""
        found: dict[Source, list[Letter]] = defaultdict(list)
        for record in self.read(self.topic(service, DEAD_LETTER)):
            headers = dict(record.headers() or ())
            source = headers[letters.SOURCE_TOPIC].decode().rsplit(".", 1)[1], int(headers[letters.SOURCE_OFFSET])
            assert len(record.value() or b"") < 1_600_000
            number = headers.get(letters.PART, b"1/1").split(b"/")[0]
            if number == b"1":
                code = int(headers.get(letters.CODE, b"0"))
                letter = Letter(headers[letters.REASON].decode(), code, b"", b"", headers, 0)
                found[source].append(letter)
            _take_part(found[source][-1], record, headers)
        return dict(found)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return all events with this name."""
        events = [json.loads(record.value() or b"") for record in self.read(events_topic(self.namespace))]
        return [event for event in events if event["event"] == name]

    def sent(self, service: str) -> list[Envelope]:
        """Return all envelopes in a service's queue that can be decoded."""
        return list(self._decoded(self.topic(service, QUEUE)))

    def _decoded(self, topic: str) -> Iterator[Envelope]:
        for record in self.read(topic):
            try:
                yield decode(record.value() or b"")
            except UndecodableRecord:
                continue

    def states(self, service: str) -> dict[str, Any]:
        """Return the last state of each conversation group, by the group's key. Groups that were deleted since are included."""
        found: dict[str, Any] = {}
        for record in self.read(self.topic(service, STATE)):
            key, value = record.key() or b"", record.value()
            if key.startswith(rows.GROUP) and value is not None and (state := rows.decode_group(value).state):
                found[key.split(b"\0", 1)[1].decode()] = json.loads(state)
        return found


def _take_part(letter: Letter, record: Record, headers: dict[str, bytes]) -> None:
    letter.parts += 1
    if letters.PART not in headers:
        letter.value, letter.key = record.value(), record.key()
    elif headers[letters.PART_OF] == b"key":
        letter.key = (letter.key or b"") + (record.value() or b"")
    else:
        letter.value = (letter.value or b"") + (record.value() or b"")
        if letter.key == b"":
            letter.key = record.key()


@dataclass
class Memory(Place):
    """The log in memory of a simulation."""

    sim: Simulation
    namespace: str = field(init=False)

    def __post_init__(self) -> None:
        self.namespace = self.sim.broker.namespace

    def now(self) -> int:
        return self.sim.clock.now()

    def throw(self, service: str, kind: str, records: Sequence[Forged]) -> list[int]:
        name = self.topic(service, kind)
        return [self.sim.broker.append(Out(name, r.partition, r.key, r.value, r.headers)) for r in records]

    def read(self, topic: str) -> list[Record]:
        return [r for partition in self.sim.broker.topics[topic] for r in partition if _visible(r)]


def _visible(record: MemoryRecord) -> bool:
    return record.visible
