"""The unreliable wire of a chaos run: repeats, misroutes and spoils records of queues and commands with a plain producer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.follow import Follower
from conversations.kafka.offsets import Place
from conversations.ports import Headers, Record
from tests.chaos.plan import Injected

DUPLICATES, MISROUTED, CORRUPT = "duplicates", "misrouted", "corrupt"
SHARES = {DUPLICATES: 0.01, MISROUTED: 0.001, CORRUPT: 0.001}
"""Of all records, how many are the model of an injected one."""
LATER = 0.5
"""Share of the duplicates that come long after what they repeat, most of them when the dialog is over."""
CONFIRMED_WITHIN = 60.0


class Raw(NamedTuple):
    """What is put on the wire."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None


class Wire:
    """Reads what was committed and injects records modelled on it, in a thread of its own."""

    def __init__(
        self, kafka: Kafka, topics: Sequence[str], partitions: int, random: Random, injected: Injected
    ) -> None:
        self._kafka, self._topics, self._partitions = kafka, topics, partitions
        self._random, self._injected = random, injected
        self._producer: Any = Producer(
            {"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True, "log_level": 2}
        )
        self._later: list[Raw] = []
        self._spoilt: set[tuple[object, ...]] = set()
        """What was misrouted or corrupted: not to be the model of something else."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self.last: dict[Place, int] = {}
        """The last record seen in each partition."""
        self.failure: BaseException | None = None
        self._finished = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Inject while the block runs."""
        self._thread.start()
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        """Stop reading."""
        self._stopping.set()
        self._thread.join()

    def finish(self) -> None:
        """Inject the late duplicates, and from now on only read.

        Raises:
            LogError: Kafka did not take all records.
        """
        self._finished = True
        for raw in list(self._later):
            self._inject(DUPLICATES, raw)
        if self._producer.flush(CONFIRMED_WITHIN):
            raise LogError(f"injected records were not confirmed within {CONFIRMED_WITHIN:g} s")
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            with Follower(self._kafka, self._topics) as follower:
                while not self._stopping.is_set():
                    for record in follower.poll(0.1):
                        self.last[record.topic(), record.partition()] = record.offset()
                        if not self._finished:
                            self._consider(record)
                    self._producer.poll(0)
        except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
            self.failure = error

    def _consider(self, record: Record) -> None:
        chance = self._random.random()
        raw = Raw(record.topic(), record.partition(), record.key(), record.value(), record.headers())
        if _identity(raw) in self._spoilt:
            return
        if chance < SHARES[DUPLICATES]:
            if self._random.random() < LATER:
                self._later.append(raw)
            else:
                self._inject(DUPLICATES, raw)
        elif chance < SHARES[DUPLICATES] + SHARES[MISROUTED]:
            other = (raw.partition + self._random.randrange(1, self._partitions)) % self._partitions
            self._inject(MISROUTED, raw._replace(partition=other))
        elif chance < sum(SHARES.values()) and raw.value is not None:
            self._inject(CORRUPT, spoil(raw, self._random))

    def _inject(self, kind: str, raw: Raw) -> None:
        if kind != DUPLICATES:
            self._spoilt.add(_identity(raw))

        def confirmed(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._injected.add(kind, (raw.topic, raw.partition), message.offset() or 0)
            else:
                self.failure = LogError(f"an injected record was not taken: {error}")

        while True:
            try:
                self._producer.produce(raw.topic, raw.value, raw.key, raw.partition, confirmed, headers=raw.headers)
                return
            except BufferError:
                self._producer.poll(0.05)


def _identity(raw: Raw) -> tuple[object, ...]:
    return raw.topic, raw.partition, raw.key, hash(raw.value), hash(tuple(raw.headers or ()))


# -- spoiling ------------------------------------------------------------------------------------------------------


def _truncated(raw: Raw, random: Random) -> Raw:
    value = raw.value or b""
    return raw._replace(value=value[: random.choice((0, 1, 10, 26, len(value) // 2, len(value) - 1))])


def _garbage(raw: Raw, random: Random) -> Raw:
    return raw._replace(value=random.randbytes(random.randint(1, 300)))


def _garbage_behind_a_genuine_beginning(raw: Raw, random: Random) -> Raw:
    value = raw.value or b""
    return raw._replace(value=value[:10] + random.randbytes(len(value)))


def _without_value(raw: Raw, random: Random) -> Raw:
    return raw._replace(value=None)


def _without_key(raw: Raw, random: Random) -> Raw:
    return raw._replace(key=None)


def _with_another_key(raw: Raw, random: Random) -> Raw:
    return raw._replace(key=random.choice((b"", b"\xff\xfe", b"somebody else's")))


Spoil = Callable[[Raw, Random], Raw]
ANY: tuple[Spoil, ...] = (
    _truncated, _garbage, _garbage_behind_a_genuine_beginning, _without_value, _without_key, _with_another_key,
)  # fmt: skip


def spoil(raw: Raw, random: Random) -> Raw:
    """Make a record nobody may believe."""
    return random.choice(ANY)(raw, random)
