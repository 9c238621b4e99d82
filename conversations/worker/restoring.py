"""Restoring: the state of a partition is copied from its topic, until the partition can be opened."""

from __future__ import annotations

import logging
import time

from conversations.backoff import Backoff
from conversations.durations import SECOND
from conversations.errors import CopyDamaged, InputLost, KafkaUnreachable, StaleAnswer
from conversations.ports import Positions, Restore, Restored, Stores
from conversations.protocol import events
from conversations.protocol.partition_row import PartitionRow
from conversations.scheduler import Scheduler
from conversations.worker import intake
from conversations.worker.context import Context
from conversations.worker.growing import Growing
from conversations.worker.membership import OUTAGE
from conversations.worker.partition import Partition

log = logging.getLogger("conversations.worker")

SLICE = 5_000
"""Maximum number of rows that one step copies for a partition."""


class Restoring:
    """A partition whose state is being copied. If Kafka cannot be reached, the copying begins again later."""

    def __init__(self, number: int, context: Context, stores: Stores, scheduler: Scheduler, growing: Growing) -> None:
        self._number, self._context, self._stores, self._scheduler = number, context, stores, scheduler
        self._growing = growing
        self.partition: Partition | None = None
        """None until Kafka has answered for the first time."""
        self._restore: Restore | None = None
        self._copied = False
        self._damage = ""
        self._outage = Backoff(*OUTAGE)
        self._not_before = 0.0
        self._stale_since = 0.0
        self.positions = Positions(None, None)
        """Positions to read from when the partition is open."""
        self.committed = 0
        """The consumer group's queue offset."""
        self.rows = 0
        """Number of rows that were copied."""

    def advance(self) -> Partition | None:
        """Copy some rows. Return the partition if all its rows are copied and it is open now, else None.

        Raises:
            KafkaUnreachable, StaleAnswer: no broker answered, or the answer lacks committed rows. The caller must call ``begin_again``.
            InputLost: a human must look at the partition. Also raised if answers stay stale for ``Periods.stale_after``.
            LogError: the state cannot be read.
            DeclarationError: the code does not fit the open dialogs.
        """
        if time.monotonic() < self._not_before:
            return None
        try:
            return self._advanced()
        except StaleAnswer as answer:
            self._note_stale(answer)
            raise
        except KafkaUnreachable:
            self._stale_since = 0.0
            raise
        except CopyDamaged as damage:
            log.warning("%s", damage)
            self.begin_again()
            return None

    def _advanced(self) -> Partition | None:
        partition, restore = self._begun()
        part = restore.advance(SLICE)
        if part.rows or part.done:
            self._copy(partition, restore, part)
        if not part.done:
            return None
        restore.close()
        self.committed = restore.committed or 0
        row = partition.restored_row()
        self._check_fresh(row, restore)
        with self._context.lock:
            self.positions = partition.open(row, restore.committed)
            intake.restore_waiting(partition)
            if self._damage:
                name = self._context.name
                log.error("partition %d of %s was restored from its topic alone: %s", self._number, name, self._damage)
                partition.outbox.produce(partition.letters.event_record(events.CopyDamaged(self._damage)))
        return partition

    def _check_fresh(self, row: PartitionRow | None, restore: Restore) -> None:
        """Refuse rows that are older than the group's committed offset. A leader that is cut off from its cluster may return such rows."""
        if row is None or not restore.with_row:
            return
        if row.queue < self.committed:
            raise StaleAnswer(
                f"the restored state of partition {self._number} of {self._context.name} ends at queue offset {row.queue}, but offset "
                f"{self.committed} is committed: a broker that is cut off from the others has answered"
            )

    def _note_stale(self, error: StaleAnswer) -> None:
        """Raise ``InputLost`` if all answers have been stale for ``Periods.stale_after``.

        Clients leave a leader that is cut off from its cluster within a minute. If answers stay stale for longer, rows are lost.
        """
        now = time.monotonic()
        self._stale_since = self._stale_since or now
        if now - self._stale_since >= self._context.periods.stale_after / SECOND:
            self.committed = self._restore.committed or 0 if self._restore is not None else 0
            raise InputLost(
                self._number, f"acknowledged records are lost, or old ones were put back: {error}"
            ) from error

    def _begun(self) -> tuple[Partition, Restore]:
        if self.partition is None or self._restore is None:
            state_id = self._context.connection.topic_ids()[self._context.topics.state]
            store = self._stores.open(self._number, state_id)
            self._damage = store.damage or self._damage
            self.partition = Partition(self._number, self._context, store, self._scheduler, self._growing)
            self._restore = self._context.connection.restore(self._number, store.checkpoint())
            self._copied = False
        return self.partition, self._restore

    def _copy(self, partition: Partition, restore: Restore, part: Restored) -> None:
        """Write rows into the store. If reading began at the start of the topic, first delete the old rows of the store."""
        if not self._copied and restore.from_start:
            partition.outbox.store.clear()
        self._copied = True
        self.rows += len(part.rows)
        partition.outbox.store.apply(part.rows, part.next_offset)

    def begin_again(self) -> None:
        """Stop, and begin the restore again after a wait."""
        self.stop()
        self.partition = self._restore = None
        self._not_before = time.monotonic() + self._outage.again()

    def stop(self) -> None:
        """Stop reading and close the store."""
        if self._restore is not None:
            self._restore.close()
        if self.partition is not None:
            self.partition.stop()
