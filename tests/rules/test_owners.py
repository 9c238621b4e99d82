"""Who may commit: the owner of the partition, for what it read as its owner."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from conversations import Dialog, WorkerSettings
from conversations.errors import Fenced, LogError
from conversations.kafka import transactions
from conversations.kafka.connection import KafkaConnection
from conversations.ports import ANY_SIZE, Produced, Record, nothing
from conversations.stores.rocksdb import RocksStores
from tests.rules.support.stepped_service import MORTAL, Answer, Ask, Asking, SteppedService, Tally, answer, until

pytestmark = pytest.mark.kafka


class LastWords(KafkaConnection):
    """The log of a process that ends as soon as it is told that it owns its partitions no more."""

    fenced = False

    def commit(
        self, outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, int]:
        try:
            return super().commit(outs, offsets, meanwhile)
        except Fenced:
            self.fenced = True
            raise

    def poll(self, timeout: float, limit: int, size: int = ANY_SIZE) -> Sequence[Record]:
        if self.fenced:
            raise LogError("the process ended")
        return super().poll(timeout, limit, size)


def test_a_timer_that_fires_for_an_owner_of_yesterday_is_not_committed(stepped: SteppedService) -> None:
    """The step read nothing, so only the fence of an unmoved position can refuse it."""

    def set_timer(ask: Ask, dialog: Dialog[Tally]) -> None:
        dialog.set_timer(timedelta(seconds=2))
        answer(ask, dialog)

    def fire(dialog: Dialog[Tally]) -> None:
        stepped.open(heir)
        dialog.send(Answer(n=99))

    zombie = stepped.open(
        stepped.worker(stepped.service(set_timer, fire), kafka=MORTAL, connection=LastWords, inline=True)
    )
    heir = stepped.worker()
    dialog = Asking(stepped)
    dialog.ask(1)
    stepped.answered(zombie, 1)
    with pytest.raises(LogError, match="the process ended"):
        until(lambda: (zombie.step(0.05), 99 in stepped.answers(end=False))[1])
    dialog.ask(2)
    stepped.answered(heir, 1, 2)


def test_a_step_from_before_the_partition_came_back_is_not_committed_after(stepped: SteppedService) -> None:
    """Between losing it and owning it again somebody else has read the same message, and answered it."""

    def lose_and_regain(ask: Ask, dialog: Dialog[Tally]) -> None:
        if ask.n == 1:
            stepped.answered(stepped.open(heir), 1)
            heir.close()
        answer(ask, dialog)

    worker = stepped.open(stepped.worker(stepped.service(lose_and_regain), kafka=MORTAL, inline=True))
    heir = stepped.worker()
    dialog = Asking(stepped)
    dialog.ask(1)
    until(lambda: (worker.step(0.05), worker.counts.fenced)[1])
    dialog.ask(2)
    stepped.answered(worker, 1, 2)


def test_what_a_lane_finishes_after_the_partition_came_back_is_refused(stepped: SteppedService, tmp_path: Path) -> None:
    """The handler began under an earlier assignment; the message is somebody else's, and was handled."""
    begun, let_go = Event(), Event()

    def slow(ask: Ask, dialog: Dialog[Tally]) -> None:
        if ask.n == 1:
            begun.set()
            assert let_go.wait(60)
        answer(ask, dialog)

    worker = stepped.open(stepped.worker(stepped.service(slow), kafka=MORTAL, stores=RocksStores(tmp_path)))
    dialog = Asking(stepped)
    dialog.ask(1)
    until(lambda: (worker.step(0.05), begun.is_set())[1])
    first = worker.partitions[0]
    until(lambda: (worker.step(0.05), first.work.slow)[1])
    (run,) = first.work.slow.values()
    heir = stepped.open(stepped.worker())
    stepped.answered(heir, 1)
    heir.close()
    until(lambda: (worker.step(0.05), first.gone and 0 in worker.partitions)[1])
    let_go.set()
    until(lambda: run.done and not worker.scheduler._orphans)  # type: ignore[attr-defined]  # of threads
    dialog.ask(2)
    stepped.answered(worker, 1, 2)
    assert worker.counts.handled == 1, "the first run counts no more"


def test_a_commit_that_timed_out_is_never_committed_again(
    stepped: SteppedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly always it took effect: only the topics know, so everything in memory is forgotten and read anew."""
    worker = stepped.open(stepped.worker(settings=WorkerSettings(slot="1")))
    dialog = Asking(stepped)
    asked, rejoined = 0, 0

    def settled() -> bool:
        worker.step(0.05)
        return worker.context.connection is not connection or asked in stepped.answers(end=False)

    while rejoined < 2:
        connection, asked = worker.context.connection, asked + 1
        dialog.ask(asked)
        with monkeypatch.context() as hurried:
            hurried.setattr(transactions, "COMMIT_PATIENCE", 0.001)
            until(settled)
        rejoined += worker.context.connection is not connection
        stepped.answered(worker, *range(1, asked + 1))


def test_a_slow_handler_costs_neither_the_partition_nor_the_transaction(
    stepped: SteppedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs longer than a transaction may last and longer than the polling thread may stay away."""
    monkeypatch.setitem(transactions.SAFE, "transaction.timeout.ms", 6000)
    monkeypatch.setitem(transactions.SAFE, "message.timeout.ms", 6000)
    let_go = Event()

    def slow(ask: Ask, dialog: Dialog[Tally]) -> None:
        answer(ask, dialog)
        if ask.n == 1:
            let_go.wait(9)

    worker = stepped.open(stepped.worker(stepped.service(slow), kafka={"max.poll.interval.ms": 6500}))
    partition = worker.partitions[0]
    Asking(stepped).ask(1)
    other = Asking(stepped)
    other.ask(2, 3)
    stepped.answered(worker, 2, 3)
    stepped.answered(worker, 2, 3, 1)
    assert worker.counts.fenced == 0
    assert worker.partitions[0] is partition
