"""A broker in memory whose deliveries, transactions and members fail by chance. It checks the writer of each commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from conversations.config import Periods
from conversations.errors import UndecodableRecord
from conversations.memory.broker import MemoryBroker
from conversations.memory.group import Member
from conversations.memory.record import MemoryRecord
from conversations.memory.transactions import Transaction
from conversations.ports import Clock, Out, Produced
from conversations.protocol.envelope import decode
from conversations.protocol.seals import NotAuthentic
from conversations.protocol.topics import (
    DEAD_LETTER,
    QUEUE,
    STATE,
    service_topic,
    transmission_topic,
)
from conversations.sealing import Seals
from conversations.testing.faults import Chance
from conversations.testing.ledger import Handled, Ledger

FAR = "far"
"""Name of each of the two clusters, seen from the other one."""
DECIDED = 0.2
"""Chance, in each round, that a hanging transaction is decided. Also the chance that the session of a dead member times out."""


def _never(_: Out) -> bool:
    return False


class StepTransaction(Transaction):
    """A worker's transaction, with the facts that the ledger gets when the transaction is committed."""

    __slots__ = ("commit", "handled", "late", "member", "sent", "slot", "stopped")

    def __init__(self, service: str, member: Member, slot: str) -> None:
        super().__init__(service)
        self.member = member
        self.slot = slot
        self.late: list[Out] = []
        """Records of this transaction that arrive after its commit."""
        self.stopped: list[Out] = []
        """Records of this transaction that arrive after its commit, and not before ``resume``."""
        self.handled: Sequence[Handled] = ()
        self.sent: Sequence[Produced] = ()
        """All records of this transaction, in the order in which the worker sent them."""
        self.commit = False
        """Outcome of this transaction if it hangs. True: it is committed, because the coordinator got the commit. False: it is aborted."""


class FaultyBroker(MemoryBroker):
    """The broker of one cluster, which may duplicate and re-order records for queues. All clusters of a simulation have one ledger."""

    def __init__(
        self, clock: Clock, chance: Chance, periods: Periods | None = None, ledger: Ledger | None = None
    ) -> None:
        super().__init__(clock)
        self.periods = periods or Periods()
        """Periods of the namespace."""
        self.chance = chance
        self.ledger = ledger or Ledger()
        self.late: list[Out] = []
        """Records that were sent and are not in their queue yet."""
        self.sought: set[str] = set()
        """Services that workers looked up and did not find."""
        self.stop: Callable[[Out], bool] = _never
        """Returns True for a record of a queue that must not arrive before ``resume``. A test may set it."""
        self.stopped: list[Out] = []
        self.forwarded: dict[int, int] = {}
        """For each partition of the other cluster's transmission topic, the offset of the next record that is carried to this cluster."""
        self.seals: Seals | None = None
        """The keys of the services; None if nothing is sealed."""
        self.hanging: list[StepTransaction] = []
        """Open transactions whose producer is dead or has given up on them."""
        self.dead: list[tuple[str, Member]] = []
        """Members whose process died and whose session has not timed out yet."""
        self.opened: dict[tuple[str, int], Member] = {}
        """The last member that opened each partition, by service and partition. Only this member may write the partition's state."""
        self.noise: Counter[str] = Counter()
        """Number of unusable records that were sent to each service."""
        self.noisy: set[tuple[str, int, int]] = set()
        """Topic, partition and offset of each unusable record."""
        self.damaged: set[tuple[str, int, int]] = set()
        """Topic, partition and offset of each record that was damaged between the clusters. It must have no effect at all."""

    # -- the wire -----------------------------------------------------------------------------------------------

    def scatter(self, outs: Sequence[Produced]) -> tuple[list[Produced], list[Out], list[Out]]:
        """Divide the records of a transaction. Return the records that arrive with it, later, and not before ``resume``."""
        queues = {service_topic(self.namespace, service, QUEUE) for service in self.services}
        now: list[Produced] = []
        late: list[Out] = []
        stopped: list[Out] = []
        for produced in outs:
            out = Out(*produced)
            if out.topic not in queues:
                now.append(out)
            elif self.stop(out):
                stopped.append(out)
            elif self.chance.happens(self.chance.faults.reorder):
                late.append(out)
            else:
                now.append(out)
                if self.chance.happens(self.chance.faults.duplicate):
                    late.append(out)
        return now, late, stopped

    def plain(self, record: MemoryRecord) -> bytes:
        """Return the bytes of an envelope in a queue, without its seal.

        Raises:
            UndecodableRecord: the record is no envelope, or nobody has sealed it with the present keys. It is discarded.
        """
        value = record.value() or b""
        if self.seals is None:
            return value
        envelope = decode(value)
        sealer = self.seals.of(envelope.prefix.from_service)
        if sealer is None or envelope.extras is None or envelope.extras.seal is None:
            return value
        try:
            return sealer.open(record.key(), envelope)[1]
        except NotAuthentic as error:
            raise UndecodableRecord(str(error)) from error

    def ruin(self, out: Out) -> None:
        """Append a record that was damaged between the clusters."""
        place = out.topic, out.partition, self.append(out)
        self.damaged.add(place)
        self.noisy.add(place)

    def resume(self) -> None:
        """Let the stopped records arrive, in the order in which they were sent."""
        self.stop = _never
        stopped, self.stopped = self.stopped, []
        for out in stopped:
            self.append(out)

    def release(self, probability: float = 1.0) -> int:
        """Let each late record arrive with this probability, in random order. Return the number that arrived."""
        self.chance.random.shuffle(self.late)
        staying: list[Out] = []
        going: list[Out] = []
        for out in self.late:
            (going if self.chance.random.random() < probability else staying).append(out)
        self.late = staying
        for out in going:
            self.append(out)
        return len(going)

    def disturb(self, service: str, out: Out) -> None:
        """Append an unusable record to a topic of a service."""
        self.noise[service] += 1
        self.noisy.add((out.topic, out.partition, self.append(out)))

    # -- transactions ---------------------------------------------------------------------------------------------

    def finish(self, transaction: Transaction, *, commit: bool) -> dict[int, int]:
        """Decide a transaction. If it commits, check its writer and note its effects in the ledger."""
        if not commit or not isinstance(transaction, StepTransaction):
            return super().finish(transaction, commit=commit)
        self._check_writer(transaction)
        self.ledger.speak(out.value for out in map(Out._make, transaction.sent) if out.topic.endswith(f".{QUEUE}"))
        ends = super().finish(transaction, commit=True)
        transmission = transmission_topic(self.namespace, FAR)
        wanted = f".{QUEUE}", f".{DEAD_LETTER}", transmission
        records = [record for record in transaction.records if record.topic().endswith(wanted)]
        for record in records:
            if record.topic() == transmission:
                self.ledger.may_repeat(record.value())
        self.ledger.commit(transaction.service, transaction.handled, records)
        sent = {id(record.value()) for record in records}
        for out in transaction.late:
            if id(out.value) not in sent:  # not a second copy of a record that has arrived
                self.ledger.say(out.value)
        self.late += transaction.late
        # A transaction that hung may be committed after ``resume``.
        (self.late if self.stop is _never else self.stopped).extend(transaction.stopped)
        return ends

    def _check_writer(self, transaction: StepTransaction) -> None:
        state = service_topic(self.namespace, transaction.service, STATE)
        for partition in {record.partition() for record in transaction.records if record.topic() == state}:
            if self.opened.get((transaction.service, partition), transaction.member) is not transaction.member:
                raise AssertionError(
                    f"invariant 1 (one writer): state of partition {partition} of {transaction.service} is committed by a "
                    f"member that did not take it up last"
                )

    def end_of(self, slot: str) -> None:
        """Decide the hanging transactions of a slot, as Kafka does when a producer begins with the same transactional id."""
        self._decide([transaction for transaction in self.hanging if transaction.slot == slot])

    def pass_time_limits(self, probability: float = 1.0) -> int:
        """Decide hanging transactions and remove dead members, as time-outs do, each with this probability. Return the total number."""
        chosen = [t for t in self.hanging if self.chance.random.random() < probability]
        self._decide(chosen)
        buried = [entry for entry in self.dead if self.chance.random.random() < probability]
        for entry in buried:
            self.dead.remove(entry)
            self.groups[entry[0]].release(entry[1])
        return len(chosen) + len(buried)

    def _decide(self, transactions: list[StepTransaction]) -> None:
        for transaction in transactions:
            self.hanging.remove(transaction)
            self.finish(transaction, commit=transaction.commit)
