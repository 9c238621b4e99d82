"""The partitions that Kafka assigned to a worker, from the restore of their state until they are gone.

A partition is in one of three states:

    assigned --> restoring --opened--> open --revoked, lost, broken, set aside--> gone
                  ^    |                 |
                  '----'                 '--its local copy is damaged, or our own code failed: restoring again
             Kafka was unreachable

While a partition is being restored, the worker reads none of its records. When the partition is open, the worker reads from the
positions in the partition's row. The object of a partition that is gone is never used again. If Kafka assigns the partition again, a new
object is made.

A partition is **set aside** if a person must act. For example, its topics were re-created, or its rows cannot be decoded. An event reports
the partition, and the other partitions go on.

The **backlog** contains records that were read and are not yet routed. There are two reasons for it: a step has a budget, and a commit that
opens a partition may also poll Kafka. When a partition is gone, its records leave the backlog.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from conversations.errors import DestinationFailed, Fenced, InputLost, Interrupted, KafkaUnreachable, LogError
from conversations.ports import Record, Stores
from conversations.protocol import rows
from conversations.protocol.events import PartitionSetAside
from conversations.protocol.partition_row import decode_partition
from conversations.scheduler import Scheduler
from conversations.worker.context import Context
from conversations.worker.growing import Growing
from conversations.worker.partition import Partition
from conversations.worker.residents import most_of
from conversations.worker.restoring import Restoring

log = logging.getLogger("conversations.worker")


class Assignment:
    """The partitions of one worker, and their records that were read and not yet routed."""

    __slots__ = (
        "_context",
        "_growing",
        "_opened",
        "_restoring",
        "_scheduler",
        "_stores",
        "aside",
        "backlog",
        "partitions",
    )

    def __init__(self, context: Context, stores: Stores, scheduler: Scheduler) -> None:
        self._context = context
        self._stores = stores
        self._scheduler = scheduler
        self._growing = Growing(context.settings.limits.body_bytes)
        self.partitions: dict[int, Partition] = {}
        """Open partitions by number."""
        self._restoring: dict[int, Restoring] = {}
        self._opened: dict[int, int] = {}
        """Partitions that were opened since the last log line about opened partitions, with the number of restored rows."""
        self.backlog: list[Record] = []
        self.aside: dict[int, str] = {}
        """Partitions that are assigned to this worker and are set aside, each with the reason."""

    @property
    def restoring(self) -> int:
        """Number of partitions that are being restored."""
        return len(self._restoring)

    @property
    def is_complete(self) -> bool:
        """True if at least one partition is open, and none is being restored."""
        return bool(self.partitions) and not self._restoring

    def has(self, number: int) -> bool:
        """Return True if a partition is open, or is being restored."""
        return number in self.partitions or number in self._restoring

    # -- records that are not yet routed ------------------------------------------------------------------------

    def keep(self, records: Iterable[Record]) -> None:
        """Append records that were read to the backlog."""
        self.backlog += records

    def put_back(self, records: Iterable[Record]) -> None:
        """Put records back in front of the backlog. Drop records of gone partitions: they are read again from the committed position."""
        self.backlog = [*(it for it in records if it.partition() in self.partitions), *self.backlog]

    def take_backlog(self) -> list[Record]:
        """Return the backlog and empty it."""
        records, self.backlog = self.backlog, []
        return records

    # -- coming -------------------------------------------------------------------------------------------------

    def restore(self, numbers: Iterable[int]) -> None:
        """Begin to restore partitions. Their records are read only after their state is restored."""
        for number in numbers:
            self._restoring[number] = Restoring(number, self._context, self._stores, self._scheduler, self._growing)

    def advance(self) -> list[Partition]:
        """Continue all restores; return the partitions that this call opened."""
        opened = [number for number, restoring in list(self._restoring.items()) if self._restored(number, restoring)]
        if self._opened and not self._restoring:
            self._tell_opened()
        return [self.partitions[number] for number in opened]

    def _tell_opened(self) -> None:
        """Log one line for all partitions that were opened since the last such line."""
        numbers = ", ".join(map(str, sorted(self._opened)))
        what = f"partition {numbers}" if len(self._opened) == 1 else f"partitions {numbers}"
        open_ = "is open" if len(self._opened) == 1 else "are open"
        log.info("%s of %s %s, %d rows restored", what, self._context.name, open_, sum(self._opened.values()))
        self._opened = {}

    def _restored(self, number: int, restoring: Restoring) -> bool:
        """Continue one restore; return True if the partition was opened."""
        try:
            if (partition := restoring.advance()) is None:
                return False
            self._context.connection.open(number, restoring.positions)
        except KafkaUnreachable as error:
            log.warning("partition %d of %s is restored again, later: %s", number, self._context.name, error)
            restoring.begin_again()
            return False
        except InputLost as loss:
            del self._restoring[number]
            restoring.stop()
            self._context.connection.drop(number)
            self.aside[number] = loss.why
            if restoring.partition is not None:
                tell_aside(restoring.partition, loss.why, restoring.committed)
            return False
        del self._restoring[number]
        self.partitions[number] = partition
        self._opened[number] = restoring.rows
        self._context.counts.traffic.count_restore(restoring.rows)
        return True

    def make_room(self, chosen: Iterable[Partition], committed: Collection[Partition]) -> None:
        """Remove idle endpoints from memory, after the commit of the partitions ``committed`` among ``chosen``. All partitions have equal room."""
        with self._context.lock:
            room = most_of(self._context.settings.limits) // max(1, len(self.partitions))
            for partition in chosen:
                partition.make_room(room, committed=partition in committed)

    # -- going --------------------------------------------------------------------------------------------------

    def owned(self, numbers: Sequence[int]) -> list[Partition]:
        """Return the partitions among ``numbers`` that are open."""
        return [self.partitions[number] for number in numbers if number in self.partitions]

    def forget(self, numbers: Sequence[int]) -> None:
        """Forget partitions and their records in the backlog."""
        gone = set(numbers)
        self.backlog = [record for record in self.backlog if record.partition() not in gone]
        with self._context.lock:
            for number in numbers:
                self.aside.pop(number, None)
                restoring = self._restoring.pop(number, None)
                if restoring is not None:
                    restoring.stop()
                partition = self.partitions.pop(number, None)
                if partition is not None:
                    partition.stop()

    def forget_all(self) -> list[int]:
        """Forget all partitions; return the numbers of the partitions that were open, being restored or set aside."""
        numbers = [*self.partitions, *self._restoring, *self.aside]
        self.forget(numbers)
        self.backlog.clear()
        return numbers

    def leave_out(self, aside: Mapping[int, str], anew: Iterable[int]) -> None:
        """Set partitions aside, each with its reason, and build others anew, because their step cannot be committed."""
        for number, why in aside.items():
            self._context.connection.drop(number)
            self.set_aside(self.partitions[number], why)
        for number in anew:
            self.build_anew(number)

    def build_anew(self, number: int) -> None:
        """Forget a partition and restore it from its committed rows."""
        self._context.counts.traffic.count_built_anew()
        self._context.connection.drop(number)
        self.forget([number])
        self.restore([number])

    def set_aside(self, partition: Partition, why: str) -> None:
        """Stop a partition until a person acts, and report it. Its committed rows stay as they are."""
        with self._context.lock:
            self.partitions.pop(partition.number, None)
            self.aside[partition.number] = why
            position = _written_to(partition)
            partition.stop()
        tell_aside(partition, why, position)


def tell_aside(partition: Partition, why: str, position: int) -> None:
    """Report a partition that was set aside, with an event.

    The transaction of the event also commits ``position`` as the group's offset, for one reason only: with an offset, Kafka refuses the
    commit if the partition belongs to another worker. The partition's row is not written.
    """
    log.error("partition %d of %s is set aside: %s", partition.number, partition.context.name, why)
    record = partition.letters.event_record(PartitionSetAside(why))
    try:
        partition.context.connection.commit([record], {partition.number: position})
    except (Fenced, Interrupted, DestinationFailed) as error:
        log.warning("the event could not be published: %s", error)


def _written_to(partition: Partition) -> int:
    """Return the queue offset in the partition's committed row; the partition's store must be open.

    The row in memory may be ahead of the committed row, so its offset must not be committed for the group. Otherwise the next restore would
    find a row that is older than the group's offset, and would conclude that rows are lost.
    """
    try:
        row = partition.outbox.store.get(rows.PARTITION)
        return 0 if row is None else decode_partition(row).queue
    except (ValueError, LogError):
        return 0
