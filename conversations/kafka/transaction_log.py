"""Kafka's own log of transactions: who has an open transaction on a topic, and the end of that transaction."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from confluent_kafka import KafkaException

from conversations.config import Kafka
from conversations.kafka.clients import make_producer, translated
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import ends_of, partitions_of, since
from conversations.kafka.retrying import patiently
from conversations.kafka.transactions import SAFE, TRANSACTION_TIMEOUT

TOPIC = "__transaction_state"
"""Topic in which the coordinators of a cluster keep the state of each transactional id."""
BEFORE = 60_000
"""So long before the first record of a transaction, in milliseconds, its entry in the log is looked for. A coordinator notes a partition first."""
PATIENCE = 30.0
"""Seconds for which a call to Kafka is repeated, and for which the log may bring no record."""
_ONGOING = 1
_VERSIONS = (0, 1)
_HEAD = struct.Struct(">hqhib")
T = TypeVar("T")


class Ongoing(NamedTuple):
    """A transaction that has not ended."""

    transactional_id: str
    """The name that the program gives to its producer."""
    partitions: frozenset[tuple[str, int]]
    """The topics and partitions in which it has records."""
    since: int
    """When it began, microseconds since 1970, by the clock of its coordinator."""


def ongoing(kafka: Kafka, places: Sequence[tuple[str, int]], begun: int) -> list[Ongoing]:
    """Return the open transactions on some partitions, by name. A transaction that no coordinator knows is not among them.

    Args:
        kafka: the cluster. This client needs the right to read ``TOPIC``.
        places: topics and partitions.
        begun: when the first of these transactions wrote its first record there, in microseconds since 1970.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the log of transactions cannot be read.
    """
    parts = partitions_of(kafka, [TOPIC])
    begin, ends = since(kafka, parts, begun // 1_000 - BEFORE), ends_of(kafka, parts)
    wanted = {place: ends[place] for place in begin}
    found: dict[str, Ongoing | None] = {}
    with Follower(kafka, [TOPIC], ends | begin) as follower:
        for records in follower.parts_to(wanted, PATIENCE):
            found.update(entry for it in records if (entry := _entry(it.key(), it.value())) is not None)
    return sorted(it for it in found.values() if it is not None and not it.partitions.isdisjoint(places))


def abort(kafka: Kafka, transactional_id: str) -> None:
    """Abort the open transaction of a transactional id in all its partitions. The program that has it cannot commit any more.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the right to write with the transactional id is missing.
    """
    producer = make_producer(kafka, {**SAFE, "transactional.id": transactional_id})
    try:
        patiently(lambda: producer.init_transactions(TRANSACTION_TIMEOUT), PATIENCE)
    except KafkaException as failure:
        raise translated(kafka, f"the transaction of {transactional_id} cannot be aborted", failure) from failure


def _entry(key: bytes | None, value: bytes | None) -> tuple[str, Ongoing | None] | None:
    """Read one record of the log: a transactional id, and its transaction if that is open. Return None for a record of another format."""
    try:
        if key is None or struct.unpack_from(">h", key)[0] != 0:
            return None
        name = key[4 : 4 + struct.unpack_from(">h", key, 2)[0]].decode()
        if value is None:
            return name, None
        version, _, _, _, status = _HEAD.unpack_from(value)
        if version not in _VERSIONS:
            return None
        if status != _ONGOING:
            return name, None
        read = _Compact(value, _HEAD.size) if version else _Classic(value, _HEAD.size)
        return name, Ongoing(name, frozenset(read.partitions()), read.begun() * 1_000)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


class _Classic:
    """Reads fields in Kafka's older format: each length has its own fixed size."""

    def __init__(self, value: bytes, at: int) -> None:
        self.value, self.at = value, at

    def partitions(self) -> Iterable[tuple[str, int]]:
        """Return the partitions of a transaction, from the array of its topics."""
        return [place for places in self._array(self._topic) for place in places]

    def begun(self) -> int:
        """Return the begin of the transaction, in milliseconds since 1970. It follows the partitions and the time of the last change."""
        self._number(">q")
        return self._number(">q")

    def _topic(self) -> list[tuple[str, int]]:
        size = self._text_size()
        name = self.value[self.at : self.at + size].decode()
        self.at += size
        numbers = self._array(lambda: self._number(">i"))
        self._skip_tags()
        return [(name, number) for number in numbers]

    def _array(self, read: Callable[[], T]) -> list[T]:
        size = self._array_size()
        if size > len(self.value):
            raise IndexError(size)
        return [read() for _ in range(size)]

    def _number(self, form: str) -> int:
        (number,) = struct.unpack_from(form, self.value, self.at)
        self.at += struct.calcsize(form)
        return int(number)

    def _text_size(self) -> int:
        return self._number(">h")

    def _array_size(self) -> int:
        return self._number(">i")

    def _skip_tags(self) -> None:
        """Skip fields that only later versions have. This format has none."""


class _Compact(_Classic):
    """Reads fields in Kafka's newer format: a length is an unsigned number in base 128, one more than it counts."""

    def _text_size(self) -> int:
        return self._unsigned() - 1

    def _array_size(self) -> int:
        return self._unsigned() - 1

    def _skip_tags(self) -> None:
        for _ in range(self._unsigned()):
            self._unsigned()
            self.at += self._unsigned()

    def _unsigned(self) -> int:
        number = shift = 0
        while True:
            byte = self.value[self.at]
            self.at += 1
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
