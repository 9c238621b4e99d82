"""A hostile peer that may write to one queue and do nothing else, and that sends many kinds of bad records."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.bad_input import wire
from tests.bad_input.support import raw_headers
from tests.bad_input.support.forging import Forged, Known, stranger
from tests.bad_input.support.services import PARTITIONS
from tests.hostile.support.trading_services import GHOST

PATIENCE = 60.0
"""Most seconds until the broker has accepted or refused all records."""
GROUPS = 3
"""Number of conversation groups per partition that get the dialogs of ``_group``."""
BAD = [row for row in wire.ROWS if not row.established and row not in (*wire.SIZES, *wire.COUNTS)]
LISTS = [row for row in wire.COUNTS if not row.established]
UNREADABLE = "\udcff\udcfe"
BYTES = {"content_type": "application/octet-stream"}

SHARES = {
    "known": 15, "invented": 15, "ghost": 10, "refused": 10, "again": 14, "gap": 10, "bad": 14, "group": 5, "failing": 4,
    "answer": 1, "blob": 1, "list": 0.5, "unreadable": 0.5,
}  # fmt: skip
"""Weight of each kind of record when kinds are drawn. The method ``_<kind>`` makes the records of a kind."""


class Draws:
    """Draws the records of an attacker. The same seed draws the same kinds of records."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        self._row = -1
        self._sent: list[Forged] = []
        self.kinds: Counter[str] = Counter()

    def records(self, count: int) -> Iterator[Forged]:
        """Draw ``count`` kinds, and yield their records: some kinds have more than one record."""
        names, weights = list(SHARES), list(SHARES.values())
        for kind in self.random.choices(names, weights, k=count):
            made: Callable[[Known], list[Forged]] = getattr(self, f"_{kind}")
            partition = self.random.randrange(PARTITIONS)
            records = made(self._stranger(partition))
            if kind != "again":
                records = [replace(it, partition=partition) for it in records]
            self._sent = [*self._sent, *records][-200:]
            self.kinds[kind] += len(records)
            yield from records

    def _stranger(self, partition: int, **fields: Any) -> Known:
        known = stranger(time.time_ns() // 1_000, self.random, partition)
        return replace(known, prefix=replace(known.prefix, **fields))

    def _known(self, k: Known) -> list[Forged]:
        """Return an order in the name of ``web``, which gets the answer."""
        return [k.record(k.message())]

    def _invented(self, k: Known) -> list[Forged]:
        """Return an order in the name of a service that the catalog does not name."""
        return [k.record(k.prefixed(from_service=f"nobody-{self.random.getrandbits(60)}"))]

    def _ghost(self, k: Known) -> list[Forged]:
        """Return an order whose large answer goes to a queue that does not exist."""
        said = k.message(b'{"n": 1, "size": 20000}', prefix=replace(k.prefix, from_service=GHOST))
        return [k.record(said)]

    def _refused(self, k: Known) -> list[Forged]:
        """Return a first message that is refused: contract not accepted, too late, lifetime over, far ahead, or sent by a target."""
        return [
            k.record(
                self.random.choice([
                    k.prefixed(contract="Gossip"), k.prefixed(accept_until=k.now - 1), k.prefixed(expires_at=k.now - 1),
                    k.message(seq=2_000, prefix=replace(k.prefix, contract="Gossip")), k.prefixed(from_initiator=False),
                ])
            )
        ]  # fmt: skip

    def _again(self, k: Known) -> list[Forged]:
        """Return a small record that was sent before."""
        small = [it for it in self._sent if len(it.value or b"") < 10_000 and not _is_unreadable(it)]
        return [self.random.choice(small)] if small else self._known(k)

    def _gap(self, k: Known) -> list[Forged]:
        """Return a dialog's first, third and fourth message; the second never arrives."""
        later = [k.message(bytes(8_000), "Blob", seq=number, **BYTES) for number in (2, 3)]
        return [k.record(it) for it in (k.message(), *later)]

    def _bad(self, k: Known) -> list[Forged]:
        """Return the record of the next row of the table of bad records."""
        self._row = (self._row + 1) % len(BAD)
        return [BAD[self._row].forge(k)]

    def _group(self, k: Known) -> list[Forged]:
        """Return the first message of a dialog in a group with many dialogs."""
        return [replace(k.record(k.message()), key=b"group-%d" % self.random.randrange(GROUPS))]

    def _failing(self, k: Known) -> list[Forged]:
        """Return an order whose handler raises."""
        return [k.record(k.message(b'{"n": -1}'))]

    def _answer(self, k: Known) -> list[Forged]:
        """Return a small order that gets an answer of 800 KB."""
        return [k.record(k.message(b'{"n": 2, "size": 800000}'))]

    def _blob(self, k: Known) -> list[Forged]:
        """Return two records of zeros, which compress well: a body just below or above the limit, and a value that is not an envelope."""
        size = self.random.choice([890_000, 1_500_000])
        return [k.record(k.message(bytes(size), "Blob", **BYTES)), k.raw(bytes(1_800_000))]

    def _list(self, k: Known) -> list[Forged]:
        """Return an acknowledgement with more skipped numbers than are allowed."""
        return [self.random.choice(LISTS).forge(k)]

    def _unreadable(self, k: Known) -> list[Forged]:
        """Return a record with a header whose name is not UTF-8."""
        record = k.record(k.message())
        return [replace(record, headers=[(UNREADABLE, b"x"), *(record.headers or [])])]


def _is_unreadable(record: Forged) -> bool:
    return any(name == UNREADABLE for name, _ in record.headers or ())


class Attacker:
    """Writes to one topic, with a login that has no other rights."""

    def __init__(self, bootstrap: str, login: dict[str, str], topic: str, draws: Draws) -> None:
        self._bootstrap, self._login, self._topic, self.draws = bootstrap, login, topic, draws
        self._producer = Producer({
            "bootstrap.servers": bootstrap, **login, "compression.type": "zstd", "message.max.bytes": 300_000_000,
            "batch.num.messages": 1, "linger.ms": 0,
        })  # fmt: skip
        self.ends: dict[int, int] = {}
        """Offset after its last record, by partition."""
        self.sent = self.refused = 0
        """Numbers of records that the broker accepted, and that it refused."""

    def send(self, record: Forged) -> None:
        """Send one record. After ``flush`` the broker has accepted or refused it."""
        if _is_unreadable(record):
            names = [(name.encode("utf-8", "surrogateescape"), content) for name, content in record.headers or ()]
            raw_headers.produce(
                self._bootstrap,
                (self._topic, record.partition),
                record.key or b"",
                record.value or b"",
                names,
                self._login,
            )
            self.sent += 1
            return
        produce: Any = self._producer.produce
        while True:
            try:
                produce(
                    self._topic, record.value, record.key, record.partition, self._delivered, None, 0, record.headers
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused += 1
            return
        self.sent += 1
        partition, offset = cast("int", message.partition()), cast("int", message.offset())
        self.ends[partition] = max(self.ends.get(partition, 0), offset + 1)

    def flush(self) -> None:
        """Wait until the broker has accepted or refused all records."""
        left = self._producer.flush(PATIENCE)
        assert left == 0, f"{left} records of the attacker were neither accepted nor refused"

    def may_write(self, topic: str) -> bool:
        """Return True if the attacker can write a record to another topic."""
        before = self.refused
        try:
            self._producer.produce(topic, b"x", on_delivery=self._delivered)
        except KafkaException as failure:
            # If librdkafka knows the refusal from the topic's metadata, the call itself fails.
            if failure.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            return False
        self._producer.flush(PATIENCE)
        return self.refused == before
