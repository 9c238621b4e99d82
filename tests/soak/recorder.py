"""Keeps every committed record of a namespace before its topics forget it, for a checker that wants them all at the end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.chaos.checker import reader
from tests.chaos.checker.records import Log, Place, Record

BATCH = 5_000
ENDING = 90.0
"""Seconds the last records may take."""


class Recorder:
    """Reads topics in a thread of its own from before their first record."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self._bootstrap = bootstrap
        self._places = reader._places(self._asking(), topics)
        self._consumer: Any = Consumer({
            "bootstrap.servers": bootstrap, "group.id": f"recorder-{uuid4()}", "isolation.level": "read_committed",
            "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error", "log_level": 2,
        })  # fmt: skip
        self._consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in self._places])
        self.records: list[Record] = []
        self.rows: dict[Place, dict[bytes, bytes]] = {}
        """Of every partition of a topic, what each key has now; deleted ones are not there."""
        self._reached = dict.fromkeys(self._places, 0)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self.failure: BaseException | None = None

    def _asking(self) -> Any:
        """Make a client that knows nothing from long ago: an old one may be refused for ever for what it remembers."""
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 2})

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                for message in self._consumer.consume(BATCH, 0.2):
                    self._take(message)
        except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
            self.failure = error

    def _take(self, message: Any) -> None:
        error, place = message.error(), (message.topic(), message.partition())
        if error is None:
            record = reader.record_of(message)
            self.records.append(record)
            self._reached[place] = record.offset + 1
            rows = self.rows.setdefault(place, {})
            if record.value is None:
                rows.pop(record.key or b"", None)
            else:
                rows[record.key or b""] = record.value
        elif error.code() == KafkaError._PARTITION_EOF:
            self._reached[place] = max(self._reached[place], message.offset())
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise RuntimeError(f"{place} was cut before it was recorded: {error}")

    def state_keys(self) -> Iterator[bytes]:
        """Yield the keys of all rows that state topics have now."""
        return (key for (topic, _), rows in list(self.rows.items()) if topic.endswith(".state") for key in list(rows))

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Record while the block runs."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._thread.join()
            self._consumer.close()

    def log(self) -> Log:
        """Wait until everything that is there is recorded, and return it; the writers must be at rest.

        Raises:
            RuntimeError: a record was deleted before it was read, or the end is not reached in time.
        """
        ends, stable = (
            reader._ends(self._bootstrap, self._places, level) for level in ("read_uncommitted", "read_committed")
        )
        deadline = monotonic() + ENDING
        while any(self._reached[place] < end for place, end in stable.items()):
            if self.failure is not None or monotonic() > deadline:
                raise RuntimeError(f"the end was not recorded within {ENDING:g} s: {self.failure!r}")
            self._stopping.wait(0.05)
        return Log(list(self.records), ends, stable)
