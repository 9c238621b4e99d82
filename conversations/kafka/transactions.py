"""Writes one transaction for each step: the offsets that fence the transaction, beside them the records, then the commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from conversations.config import Kafka
from conversations.errors import DestinationFailed, Fenced, InDoubt, Interrupted, LogError, RefusedRecord
from conversations.kafka import rights
from conversations.kafka.bounded_calls import Stuck
from conversations.kafka.clients import make_producer, translated
from conversations.kafka.failures import (
    Word,
    consequence,
    describe,
    is_open,
    is_producer_fenced,
    timed_out,
    too_large,
    too_late,
    word_for,
)
from conversations.kafka.fence import Fence, Group
from conversations.kafka.retrying import patiently
from conversations.kafka.search import Search, Span
from conversations.kafka.writable_topics import Lookup, WritableTopics
from conversations.ports import Produced, nothing

TRANSACTION_TIMEOUT = 10.0
"""Seconds after which the broker aborts a transaction. Until then, a crashed owner's transaction may hide records of *other* senders."""
COMMIT_PATIENCE = 60.0
"""Seconds for which a commit is repeated before it counts as in doubt."""
STALL = 1.0
"""Seconds that a flush may take before the destinations are looked up again."""
BATCH = 1_000_000
"""Maximum number of bytes of a batch of records, until a topic refuses batches of that size."""
LEAST_BATCH = 16_384
"""Smallest limit of a batch, in bytes."""
POLL_EVERY = 500
"""Number of records that are produced before delivery reports are served again."""

SAFE = {
    "transaction.timeout.ms": int(TRANSACTION_TIMEOUT * 1000),
    "message.timeout.ms": int(TRANSACTION_TIMEOUT * 1000),
}
PREFERRED = {
    # A transaction that begins right after another gets CONCURRENT_TRANSACTIONS. By default librdkafka would then wait 100 ms.
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 20,  # by default the wait doubles up to a second, and the markers of a commit may take some tens of milliseconds
    # A missing topic is reported after this time instead of 30 s. So it is reported before the transaction times out.
    "topic.metadata.propagation.max.ms": 1000,
    "linger.ms": 5,  # flush() ends this wait at once, so the wait only groups records that are produced before the flush
    "compression.type": "lz4",
    "partitioner": "murmur2_random",  # for records without a partition: the choice of Kafka's Java client
    "message.max.bytes": 2_000_000,  # the topic's own limit decides
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
}


def started_producer(kafka: Kafka, transactional_id: str, preferred: Mapping[str, Any] = PREFERRED) -> Producer:
    """Make a producer for transactions. It fences the producer that had the id before, and aborts its open transaction.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: the transactional id may not be used.
    """
    producer = make_producer(kafka, {**SAFE, "transactional.id": transactional_id}, preferred)
    try:
        patiently(lambda: producer.init_transactions(TRANSACTION_TIMEOUT - 1), TRANSACTION_TIMEOUT - 2)
    except KafkaException as failure:
        need = rights.told(failure.args[0], transactional_id=transactional_id)
        raise translated(kafka, f"transactions of {transactional_id} cannot begin{need}", failure) from failure
    return producer


class Transactions:
    """The transactional producer of one worker."""

    def __init__(self, kafka: Kafka, transactional_id: str, group: Group, lookup: Lookup) -> None:
        self._kafka, self._id, self._group = kafka, transactional_id, group
        self._producer: Producer | None = None
        self._fence: Fence | None = None
        self._writable = WritableTopics(lookup, {group.state, group.queue, *group.own})
        self._batch = BATCH
        self._ends: dict[int, int] = {}
        self._refused: dict[str, KafkaError] = {}
        self._delivered: set[str] = set()
        self._report_all = False
        self.appended_at: int | None = None
        """LogAppendTime of a state record of the last commit, in microseconds. None without such a record, or with CreateTime."""

    def start(self) -> None:
        """Connect, and abort a transaction that an earlier process of the same slot left open.

        Raises:
            KafkaUnreachable: no broker answered.
            LogError: this worker may not use its transactional id.
        """
        self._fence = self._new_fence()
        self._producer = self._started()

    def close(self) -> None:
        """Forget the producer. The broker or the next start aborts an open transaction."""
        self._producer = None
        if self._fence is not None:
            self._fence.close()

    def forget_topics(self) -> None:
        """Look all destinations up again at the next commit, because topics may have been deleted."""
        self._writable.forget()

    def commit(
        self, outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None] = nothing
    ) -> dict[int, int]:
        """Append ``outs`` and the queue offsets in one transaction; see ``ports.Connection.commit``."""
        if not offsets:
            # Brokers check the owner of a partition only if the transaction has an offset of the partition. Without an offset, a
            # former owner could still commit a step, for example a step that only ran timers.
            raise ValueError("a transaction needs the queue offset of every partition it touches")
        self._writable.check(outs)
        search = Search(len(outs))
        while not self._filled(outs, offsets, search, meanwhile):
            pass
        self._decide(outs)
        self._report_all = False
        if search.rounds:
            self._shrunk()
        return self._ends

    def _filled(
        self, outs: Sequence[Produced], offsets: Mapping[int, int], search: Search, meanwhile: Callable[[], None]
    ) -> bool:
        """Do all parts of a transaction except the commit.

        Return False if a record made the transaction fail, and it is not known yet which record. The next call appends
        smaller pieces or smaller batches.
        """
        self._ends, self._refused, self._delivered, self.appended_at = {}, {}, set(), None
        try:
            self._fill(outs, offsets, search, meanwhile)
        except (KafkaException, SystemError) as failure:
            error = _error_of(failure)
            outcome = self._undo(error, outs)
            try:
                if self._goes_on(outcome, error, outs, search):
                    return False
                raise outcome from failure
            finally:
                del outcome  # its traceback refers to this frame: a cycle would keep a failed producer alive
        return True

    def _goes_on(self, outcome: LogError, error: KafkaError, outs: Sequence[Produced], search: Search) -> bool:
        """Choose what the next attempt appends, to find the record at fault. Return False if there is none.

        Raises:
            DestinationFailed: this record was found.
        """
        if not isinstance(outcome, Interrupted) or word_for(error) is not Word.RECORD:
            return False
        if (at := search.found) is not None:
            found = RefusedRecord(outs[at][0], describe(error), too_large(error))
            raise DestinationFailed({}, records={at: found})
        if search.narrow():
            return True
        if self._batch <= LEAST_BATCH or not self._shrunk():
            return False
        search.begin_again()
        return True

    def _shrunk(self) -> bool:
        """Send smaller batches from now on, because a topic refused a batch although it accepts each record of the batch alone.

        Return False if no new producer could be started.
        """
        self._batch = max(self._batch // 2, LEAST_BATCH)
        return self._replaced()

    def _fill(
        self, outs: Sequence[Produced], offsets: Mapping[int, int], search: Search, meanwhile: Callable[[], None]
    ) -> None:
        producer = self._alive()
        try:
            producer.begin_transaction()
        except KafkaException as failure:
            raise InDoubt(f"the producer cannot begin: {describe(failure.args[0])}") from failure
        if not search.whole:
            self._append(producer, outs, offsets, search, meanwhile)
            self._send_offsets(producer, offsets)
            return
        fence = self._fence
        assert fence is not None
        try:
            self._bounded(lambda: fence.begin(producer, offsets))
            self._append(producer, outs, offsets, search, meanwhile)
        except BaseException:
            with suppress(KafkaException):
                self._bounded(fence.settle)
            raise
        try:
            self._bounded(lambda: fence.end(producer, offsets))
        except KafkaException:
            # Offsets also fail because a record was refused while they were sent again. Their error does not tell this.
            if self._producer is not None:
                _check(producer)
            raise
        _check(producer)

    def _append(
        self, producer: Producer, outs: Sequence[Produced], offsets: Mapping[int, int], search: Search,
        meanwhile: Callable[[], None],
    ) -> None:  # fmt: skip
        """Produce all records, and wait until they are acknowledged."""
        for piece in search.pieces:
            search.under_way = piece
            try:
                if search.whole:
                    self._produce(producer, outs, search)
                else:
                    self._produce_slice(producer, outs, piece, self._report, search)
            except KafkaException as failure:
                if not too_late(failure.args[0]):
                    raise
                producer.flush(STALL)  # serves the delivery reports, which tell the cause
                raise KafkaException(self._cause(producer, offsets, failure.args[0])) from failure
            meanwhile()
            self._flush(producer, outs, offsets)
            if self._refused:
                raise KafkaException(self._cause(producer, offsets, next(iter(self._refused.values()))))

    def _cause(self, producer: Producer, offsets: Mapping[int, int], noticed: KafkaError) -> KafkaError:
        """Return the error that made the transaction fail, or ``noticed`` if that error cannot be found.

        Most delivery reports say only that the transaction had failed before.
        """
        for error in self._refused.values():
            if not consequence(error):
                return error
        try:
            self._send_offsets(producer, offsets)
        except KafkaException as failure:
            error = failure.args[0]
            return error if error.txn_requires_abort() else noticed
        return noticed

    def _produce(self, producer: Producer, outs: Sequence[Produced], search: Search) -> None:
        state = self._group.state
        # A delivery report for each record would cost 0.2 us per record. So only the last state record of each partition
        # gets a report, because its offset is needed.
        last = {} if self._report_all else {out[1]: at for at, out in enumerate(outs) if out[0] == state}
        every = self._report if self._report_all else None
        begin = 0
        for at in sorted(last.values()):
            self._produce_slice(producer, outs, (begin, at), every, search)
            self._produce_slice(producer, outs, (at, at + 1), self._report, search)
            begin = at + 1
        self._produce_slice(producer, outs, (begin, len(outs)), every, search)

    def _produce_slice(
        self, producer: Producer, outs: Sequence[Produced], span: Span, report: Any, search: Search
    ) -> None:
        produce: Any = producer.produce
        poll = producer.poll
        first, stop = span
        at = first
        while at < stop:
            try:
                for topic, partition, key, value, headers in outs[at : min(stop, at + POLL_EVERY)]:
                    produce(topic, value, key, partition, report, None, 0, headers)
                    at += 1
            except BufferError:
                poll(0.1)  # the local queue is full: wait for room, then produce the record at index ``at`` again
            except KafkaException as failure:
                # If the transaction failed before, this record is not to blame.
                if not too_late(failure.args[0]):
                    self._refused[outs[at][0]] = failure.args[0]
                    search.blame(at)
                raise
            else:
                poll(0)

    def _flush(self, producer: Producer, outs: Sequence[Produced], offsets: Mapping[int, int]) -> None:
        if producer.flush(STALL):
            if self._writable.look_again(outs)[0]:
                # A topic was deleted. The error is raised now, because the transaction would time out before the topic's records do.
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
            # This call raises if the transaction has failed already. Without this call, librdkafka would
            # repeat the batches after a refused batch until the transaction times out.
            self._send_offsets(producer, offsets)
        # message.timeout.ms limits this wait, because records that are not acknowledged in time fail and leave the queue.
        producer.flush(TRANSACTION_TIMEOUT + STALL)

    def _send_offsets(self, producer: Producer, offsets: Mapping[int, int]) -> None:
        fence = self._fence
        assert fence is not None
        self._bounded(lambda: fence.send(producer, offsets))

    def _bounded(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Stuck as failure:
            # librdkafka (issues 5456, 5511) waits for ever for a coordinator that left the cluster. The call cannot be
            # cancelled, and the producer cannot be freed. So both are abandoned.
            if self._fence is not None:
                self._fence.close()
            self._fence, self._producer = self._new_fence(), None
            silent = KafkaError(KafkaError.REQUEST_TIMED_OUT, "the group's coordinator is silent")
            raise KafkaException(silent) from failure

    def _new_fence(self) -> Fence:
        return Fence(self._group, f"offsets of {self._id}")

    def _decide(self, outs: Sequence[Produced]) -> None:
        """Commit the transaction. After a failed attempt, only the commit may be repeated, because it may have taken effect."""
        producer = self._alive()
        deadline = monotonic() + COMMIT_PATIENCE
        asked_before = False
        while True:
            try:
                producer.commit_transaction(min(TRANSACTION_TIMEOUT, COMMIT_PATIENCE))
                return
            except (KafkaException, SystemError) as failure:
                error = _error_of(failure)
                if not asked_before and error.code() == KafkaError._INCONSISTENT:  # noqa: SLF001
                    # A record was not delivered. The client noticed that by itself and never asked the broker to commit.
                    # After any other refusal the commit may have taken effect: inside this one call, the client may have
                    # sent the request, lost the answer, and sent the request again.
                    raise self._undo(error, outs) from failure
                if word_for(error) is not Word.RETRIABLE or monotonic() > deadline:
                    raise InDoubt(self._doubt(error)) from failure
                asked_before = True

    def _undo(self, error: KafkaError, outs: Sequence[Produced]) -> LogError:
        """Abort a transaction whose commit was never requested. Return the exception for the failure."""
        word = word_for(error)
        if is_producer_fenced(error):
            return InDoubt(self._doubt(error))
        if (refused := self._abort(error)) is not None:
            return InDoubt(self._doubt(refused if is_producer_fenced(refused) else error))
        if word is Word.FATAL:
            need = rights.told(error, group=self._group.name, transactional_id=self._id)
            return LogError(f"transactions of {self._id} cannot go on{need}: {describe(error)}")
        if word is Word.FENCED:
            return Fenced(f"a partition belongs to another member: {describe(error)}")
        if word is Word.RECORD:
            # The broker also refuses the batches after a refused batch, because of their sequence numbers. With the same
            # producer, the broker would refuse batches of the next transaction, too.
            return Interrupted(f"aborted: {describe(error)}") if self._replaced() else InDoubt(self._doubt(error))
        if failed := self._writable.failed(outs, self._refused, self._delivered):
            return failed
        if (timed_out(error) or any(map(timed_out, self._refused.values()))) and not self._replaced():
            # A leader that is cut off from its cluster may still answer. A new producer asks other brokers for the leader.
            return InDoubt(self._doubt(error))
        # With delivery reports for few records, the failed topic is not known. So the next attempt asks for all reports.
        self._report_all = not self._report_all
        return Interrupted(f"aborted: {describe(error)}")

    def _abort(self, why: KafkaError) -> KafkaError | None:
        """Abort the transaction, if necessary by starting a new producer. Return None if it is aborted, else the error."""
        producer = self._producer
        if producer is None:
            return None if self._replaced() else why
        deadline = monotonic() + TRANSACTION_TIMEOUT
        while True:
            try:
                producer.abort_transaction(TRANSACTION_TIMEOUT)
                return None
            except (KafkaException, SystemError) as failure:
                error = _error_of(failure)
                if is_producer_fenced(error):
                    return error
                if word_for(error) is not Word.RETRIABLE or monotonic() > deadline:
                    return None if self._replaced() else error

    def _replaced(self) -> bool:
        """Take a new producer with the same id. The broker aborts the old producer's open transaction first.

        Return False if no new producer could be started. A new producer is needed, for example, when the coordinator does
        not know the transaction, because the first records went to a deleted topic. Then librdkafka treats the refused abort
        as fatal.
        """
        self._producer = None
        try:
            self._producer = self._started()
        except LogError:
            return False
        return True

    def _started(self) -> Producer:
        return started_producer(self._kafka, self._id, {**PREFERRED, "batch.size": self._batch})

    def _alive(self) -> Producer:
        if self._producer is None:
            raise InDoubt("the producer was given up after a failure; join again")
        return self._producer

    def _doubt(self, error: KafkaError) -> str:
        if is_producer_fenced(error):
            return f"another process uses the transactional id {self._id}: give every worker a slot of its own"
        return f"the outcome of a transaction of {self._id} is unknown: {describe(error)}"

    def _report(self, error: KafkaError | None, message: Message) -> None:
        topic = message.topic() or ""
        if error is not None:
            self._refused.setdefault(topic, error)
            return
        self._delivered.add(topic)
        if topic == self._group.state:
            kind, at = message.timestamp()
            if kind == TIMESTAMP_LOG_APPEND_TIME:
                self.appended_at = at * 1_000
            partition, offset = message.partition() or 0, message.offset()
            # A record that was acknowledged as a duplicate has no offset. With 0, the local copy reads all rows again.
            self._ends[partition] = offset + 1 if offset is not None and offset >= 0 else 0


def _check(producer: Producer) -> None:
    """Raise the error of a transaction that has failed.

    Few records have a delivery report, so a refused record may be unknown until here.
    A second begin is the one call of librdkafka that tells the state of an open transaction without sending anything. It always fails.
    """
    try:
        producer.begin_transaction()
    except KafkaException as failure:
        if not is_open(failure.args[0]):
            raise


def _error_of(failure: KafkaException | SystemError) -> KafkaError:
    if isinstance(failure, KafkaException):
        error: KafkaError = failure.args[0]
        return error
    # After a fatal error, flush() and poll() of confluent-kafka raise KafkaException. But if a delivery report runs after the
    # error, they raise SystemError.
    return KafkaError(KafkaError._FATAL, "the producer met a fatal error")  # noqa: SLF001
