"""What made a transaction fail is told, also if another call of librdkafka notices it first."""

import gc
from contextlib import suppress
from typing import cast
from weakref import ref

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from conversations.config import Kafka
from conversations.errors import Fenced
from conversations.kafka.fence import Fence, Group
from conversations.kafka.search import Search
from conversations.kafka.transactions import Transactions
from conversations.ports import Produced, nothing
from tests.support.waiting import until

REFUSED = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "the record", txn_requires_abort=True)
TOO_LATE = KafkaError(KafkaError._STATE, "the state", txn_requires_abort=True)
RECORDS: list[Produced] = [("state", 0, b"key", b"value", [])]
OPEN = KafkaError(KafkaError._STATE, "a transaction is open")


class Failing:
    """A producer whose offsets and second begin end with these errors."""

    def __init__(self, offsets: KafkaError | None, state: KafkaError) -> None:
        self._offsets, self._begins = offsets, [None, state]

    def begin_transaction(self) -> None:
        if error := self._begins.pop(0):
            raise KafkaException(error)

    def send_offsets_to_transaction(self, *_: object) -> None:
        if self._offsets:
            raise KafkaException(self._offsets)

    def produce(self, *_: object) -> None:
        """Take a record."""

    def poll(self, _: float) -> None:
        """Have no reports."""

    def flush(self, _: float) -> int:
        return 0

    def abort_transaction(self, _: float) -> None:
        """Abort."""


@pytest.mark.parametrize(
    ("offsets", "state", "told"),
    [
        (None, REFUSED, REFUSED),
        (TOO_LATE, REFUSED, REFUSED),
        (TOO_LATE, TOO_LATE, TOO_LATE),
        (TOO_LATE, OPEN, TOO_LATE),
    ],
)
def test_the_error_that_tells_most_is_raised(offsets: KafkaError | None, state: KafkaError, told: KafkaError) -> None:
    with pytest.raises(KafkaException) as raised:
        filled(Failing(offsets, state))
    assert raised.value.args[0] is told


def test_an_open_transaction_in_which_nothing_failed_may_be_committed() -> None:
    filled(Failing(None, OPEN))


def test_a_producer_that_failed_is_freed_without_the_garbage_collector() -> None:
    producer = Failing(KafkaError(KafkaError.FENCED_MEMBER_EPOCH, txn_requires_abort=True), OPEN)
    freed, transactions = ref(producer), transactions_of(producer)
    del producer
    gc.disable()
    try:
        with suppress(Fenced):
            transactions._filled(RECORDS, {0: 1}, Search(1), nothing)
        transactions.close()
        until(lambda: freed() is None)  # the thread of the offsets lets it go after its answer
    finally:
        gc.enable()


def filled(producer: Failing) -> None:
    """Do all of a transaction with one record, except its commit."""
    transactions = transactions_of(producer)
    transactions._fill(RECORDS, {0: 1}, Search(1), nothing)
    transactions.close()


def transactions_of(producer: Failing) -> Transactions:
    group = Group("group", "queue", "state", lambda: "epoch")
    transactions = Transactions(Kafka("nowhere:1"), "id", group, lambda _: {})
    transactions._producer, transactions._fence = cast(Producer, producer), Fence(group, "test")
    return transactions
