"""The partitions that Kafka gave a worker, from the first row that is restored until another worker has them.

A partition is in one of three states:

    assigned --> restoring --opened--> open --revoked, lost, broken, set aside--> gone
                  ^    |                 |
                  '----'                 '--its copy is damaged, or our own code failed in it: restoring again
             Kafka was away

While a partition is restored no record of it flows. Once it is open, records flow from the positions that its own row names. A
partition that is gone is never taken up again: if it comes back, it comes back as a new object.

A partition that a human must look at is **set aside**: its topics were made anew, or its rows cannot be understood. It is reported as an
event, and the others go on.

The **backlog** is records that were read and not taken: a step takes on only so much, and opening a partition may poll as well. A
record of the backlog belongs to its partition, and goes with it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from conversations.errors import DestinationFailed, Fenced, InputLost, Interrupted, KafkaUnreachable, LogError
from conversations.lanes import Scheduler
from conversations.ports import Record, Stores
from conversations.protocol import rows
from conversations.protocol.events import PartitionSetAside
from conversations.protocol.partition_row import decode_partition
from conversations.worker.context import Context
from conversations.worker.partition import Partition
from conversations.worker.restoring import Restoring

log = logging.getLogger("conversations.worker")


class Assignment:
    """The partitions of one worker, and their records that were read and not taken."""

    __slots__ = ("_context", "_restoring", "_scheduler", "_stores", "backlog", "partitions")

    def __init__(self, context: Context, stores: Stores, scheduler: Scheduler) -> None:
        self._context = context
        self._stores = stores
        self._scheduler = scheduler
        self.partitions: dict[int, Partition] = {}
        """The open ones."""
        self._restoring: dict[int, Restoring] = {}
        self.backlog: list[Record] = []

    @property
    def restoring(self) -> int:
        """How many partitions wait for their state."""
        return len(self._restoring)

    @property
    def is_complete(self) -> bool:
        """Partitions are open, and none waits for its state."""
        return bool(self.partitions) and not self._restoring

    # -- records that are not taken ---------------------------------------------------------------------------

    def keep(self, records: Iterable[Record]) -> None:
        """Put records that were read behind the backlog."""
        self.backlog += records

    def put_back(self, records: Iterable[Record]) -> None:
        """Keep records in front of the backlog; a partition that is gone is read again from its position."""
        self.backlog = [*(it for it in records if it.partition() in self.partitions), *self.backlog]

    def take_backlog(self) -> list[Record]:
        """Take out everything that was read and not taken."""
        records, self.backlog = self.backlog, []
        return records

    # -- coming -------------------------------------------------------------------------------------------------

    def restore(self, numbers: Iterable[int]) -> None:
        """Restore partitions from now on; their records flow once the state is there."""
        for number in numbers:
            self._restoring[number] = Restoring(number, self._context, self._stores, self._scheduler)

    def advance(self) -> list[Partition]:
        """Go on restoring; return the partitions that were opened."""
        opened = [number for number, restoring in list(self._restoring.items()) if self._restored(number, restoring)]
        return [self.partitions[number] for number in opened]

    def _restored(self, number: int, restoring: Restoring) -> bool:
        """Go on restoring; True when the partition was opened."""
        try:
            if (partition := restoring.advance()) is None:
                return False
            self._context.connection.open(number, restoring.positions)
        except KafkaUnreachable as error:
            log.warning("partition %d of %s is restored again, later: %s", number, self._context.name, error)
            restoring.begin_again()
            return False
        except InputLost as error:
            del self._restoring[number]
            restoring.stop()
            self._context.connection.drop(number)
            if restoring.partition is not None:
                tell_aside(restoring.partition, error.why, restoring.committed)
            return False
        del self._restoring[number]
        self.partitions[number] = partition
        log.info("partition %d of %s is open, %d rows restored", number, self._context.name, restoring.rows)
        return True

    # -- going --------------------------------------------------------------------------------------------------

    def owned(self, numbers: Sequence[int]) -> list[Partition]:
        """Return the open ones of the partitions."""
        return [self.partitions[number] for number in numbers if number in self.partitions]

    def forget(self, numbers: Sequence[int]) -> None:
        """Forget partitions, and their backlog."""
        gone = set(numbers)
        self.backlog = [record for record in self.backlog if record.partition() not in gone]
        with self._context.lock:
            for number in numbers:
                restoring = self._restoring.pop(number, None)
                if restoring is not None:
                    restoring.stop()
                partition = self.partitions.pop(number, None)
                if partition is not None:
                    partition.stop()

    def forget_all(self) -> list[int]:
        """Forget everything; return the partitions that were open, or waited for their state."""
        numbers = [*self.partitions, *self._restoring]
        self.forget(numbers)
        self.backlog.clear()
        return numbers

    def build_anew(self, number: int) -> None:
        """Forget a partition, and restore it from its committed rows."""
        self._context.connection.drop(number)
        self.forget([number])
        self.restore([number])

    def set_aside(self, partition: Partition, why: str) -> None:
        """Stop a partition that a person must look at, and report it; its committed rows stay."""
        with self._context.lock:
            self.partitions.pop(partition.number, None)
            position = _written_to(partition)
            partition.stop()
        tell_aside(partition, why, position)


def tell_aside(partition: Partition, why: str, position: int) -> None:
    """Report a partition that was set aside; the group's offset is only the fence: the partition's row is not touched."""
    log.error("partition %d of %s is set aside: %s", partition.number, partition.context.name, why)
    record = partition.letters.event_record(PartitionSetAside(why))
    try:
        partition.context.connection.commit([record], {partition.number: position})
    except (Fenced, Interrupted, DestinationFailed) as error:
        log.warning("the event could not be published: %s", error)


def _written_to(partition: Partition) -> int:
    """Return the queue offset in the partition's row as it is committed; its store must be open.

    Memory may be ahead of the row. An offset that is ahead of it would say that records are missing.
    """
    try:
        row = partition.outbox.store.get(rows.PARTITION)
        return 0 if row is None else decode_partition(row).queue
    except (ValueError, LogError):
        return 0
