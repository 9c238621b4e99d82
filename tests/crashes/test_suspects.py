"""What a partition's row says about deaths: unclean starts in a row, up to where a crash may lie, given back in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from types import ModuleType

import pytest

from conversations.config import Kafka
from conversations.local import LocalClient, MemoryCommands
from conversations.ports import Out
from conversations.worker import Worker, inbound, intake
from tests.crashes.support.mortal_workers import House, Job, die, until


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.let_go.set()


def dies_at_work(house: House) -> Worker:
    """A worker whose handler runs when it dies."""
    house.begun.clear()
    worker = house.worker()
    until(house.begun.is_set, worker)
    die(worker)
    return worker


# -- counting ------------------------------------------------------------------------------------------------------


def test_a_start_is_committed_before_any_handler_runs(house: House) -> None:
    """Also that of a partition given back in order whose first work is a row that waits."""
    house.send(Job(n=1, stuck=True))
    worker = house.worker()
    until(house.begun.is_set, worker)
    worker.close()
    assert house.row().clean
    dies_at_work(house)
    assert [row.clean for row in house.rows_seen] == [False, False]


def test_each_death_before_anything_is_settled_counts_one(house: House) -> None:
    house.send(Job(n=1, stuck=True))
    for _ in range(4):
        dies_at_work(house)
    assert [row.unclean_starts for row in house.rows_seen] == [0, 1, 2, 3]


def test_a_death_before_the_start_is_committed_counts_nothing(house: House) -> None:
    die(house.opened())
    row = house.row()
    worker = house.worker()
    worker.owner.log.join(worker)
    worker.owner.log.poll(0, 1)
    assert worker.restoring
    die(worker)
    assert house.row() == row


def test_a_stop_in_order_ends_the_count(house: House) -> None:
    house.send(Job(n=1, stuck=True))
    dies_at_work(house)
    dies_at_work(house)
    successor = house.opened()
    assert house.row().unclean_starts == 2
    successor.close()
    assert house.row().clean
    house.opened()
    assert house.row().unclean_starts == 0


def test_a_partition_that_moves_away_in_order_begins_anew_with_its_next_owner() -> None:
    house = House(2)
    first = house.worker()
    until(lambda: len(first.partitions) == 2, first)
    second = house.worker()
    until(lambda: bool(second.partitions), first, second)
    (moved,) = second.partitions
    assert (house.row(moved).clean, house.row(moved).unclean_starts) == (False, 0)


def test_only_the_partitions_of_the_dead_are_suspect() -> None:
    """Of two workers one dies; the other takes its partition up, and keeps its own."""
    house = House(2)
    while not all(house.broker.queue("slow")):
        house.send(Job(n=1, stuck=True))
    first, second = house.worker(), house.worker()
    until(lambda: len(first.partitions) == len(second.partitions) == 1, first, second)
    (theirs,), (own,) = first.partitions, second.partitions
    until(lambda: bool(first.partitions[theirs].work.slow and second.partitions[own].work.slow), first, second)
    die(first)
    until(lambda: len(second.partitions) == 2, second)
    assert (house.row(theirs).unclean_starts, house.row(own).unclean_starts) == (1, 0)
    die(second)
    third = house.opened()
    until(lambda: len(third.partitions) == 2, third)
    assert (house.row(theirs).unclean_starts, house.row(own).unclean_starts) == (2, 1)
    house.let_go.set()
    until(lambda: house.row(theirs).unclean_starts == house.row(own).unclean_starts == 0, third)
    third.close()


# -- passing the bound -------------------------------------------------------------------------------------------------


def go_on(house: House, worker: Worker) -> None:
    """Send something new and have it handled, in transactions of its own."""
    handled = worker.counts.handled
    house.send(Job(n=99))
    until(lambda: worker.counts.handled == handled + 1, worker)
    commits = worker.counts.commits
    house.send(Job(n=99))
    until(lambda: worker.counts.commits > commits and worker.counts.handled == handled + 2, worker)


def a_message(house: House) -> None:
    house.send(Job(n=1, stuck=True))


def a_row(house: House) -> None:
    house.send(Job(n=1, stuck=True))
    worker = house.worker()
    until(house.begun.is_set, worker)
    until(lambda: any(p.waiting.bytes for p in worker.partitions.values()) and not worker.step(), worker)
    worker.close()


def a_timer(house: House) -> None:
    house.send(Job(n=1, timer=True))
    worker = house.worker()
    until(house.begun.is_set, worker)
    worker.close()


@pytest.mark.parametrize("left", [a_message, a_row, a_timer])
def test_the_count_ends_when_what_was_there_before_is_settled_and_not_earlier(
    house: House, left: Callable[[House], None]
) -> None:
    left(house)
    dies_at_work(house)
    house.begun.clear()
    worker = house.worker()
    until(house.begun.is_set, worker)
    assert house.row().unclean_starts == 1
    go_on(house, worker)
    assert house.row().unclean_starts == 1
    house.let_go.set()
    until(lambda: house.row().unclean_starts == 0, worker)
    die(worker)
    until(lambda: house.row().unclean_starts == 0, house.opened())  # it was idle: only a marker was left to read


def counts_until_zero(house: House) -> list[int]:
    """What the row says from the opening on, after every record read; it ends with the marker behind the last."""
    worker = house.opened(batch=1)
    counts = [house.row().unclean_starts]
    deadline = monotonic() + 30
    while counts[-1]:
        assert monotonic() < deadline, "the count does not end"
        if worker.step() or not house.row().unclean_starts:
            counts.append(house.row().unclean_starts)
    worker.close()
    return counts


def test_records_of_the_queue_from_before_are_all_read_before_the_count_ends(house: House) -> None:
    die(house.opened())
    house.send(Job(n=1), Job(n=2), Job(n=3))
    counts = counts_until_zero(house)
    assert counts[:4] == [1, 1, 1, 1]
    assert house.handled == [1, 2, 3]


def test_commands_from_before_are_all_read_before_the_count_ends(house: House) -> None:
    dialogs = [house.send(Job(n=n)) for n in range(3)]
    worker = house.worker()
    until(lambda: len(house.handled) == 3, worker)
    until(lambda: not worker.step())
    die(worker)
    with LocalClient(house.slow, Kafka("memory"), MemoryCommands(house.broker, "slow")) as client:
        for name in dialogs:
            with client.dialog(name) as dialog:
                dialog.end()
    assert counts_until_zero(house)[:3] == [1, 1, 1]


def test_the_count_ends_when_only_aborted_records_were_left(house: House) -> None:
    """They give nobody anything to do, but the end of the count is committed."""
    house.send(Job(n=1, stuck=True))
    dies_at_work(house)
    house.let_go.set()
    house.broker.append(Out("conv.slow.queue", 0, b"k", b"v"), visible=False)
    worker = house.opened()
    until(lambda: house.row().unclean_starts == 0, worker)
    worker.close()


def test_an_idle_partition_is_not_suspect_after_any_number_of_deaths(house: House) -> None:
    for _ in range(3):
        worker = house.opened()
        assert house.row().unclean_starts == 0
        die(worker)


# -- failures of the worker itself ------------------------------------------------------------------------------------


def fails_once(house: House, monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str) -> None:
    """Run a worker in which a function has a bug that is no record's, and then one without it until the message is handled."""
    house.send(Job(n=1))
    worker = house.worker()

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, function, fail)
        with pytest.raises(KeyboardInterrupt):
            worker.run()
    assert not house.row().clean
    handled = len(house.handled)
    successor = house.worker()
    until(lambda: len(house.handled) > handled, successor)
    successor.close()


def test_a_step_that_failed_halfway_is_not_committed_and_its_partition_is_not_clean(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position had moved past a record that was in no lane yet."""
    fails_once(house, monkeypatch, intake, "read_headers")
    assert house.handled == [1]


def test_an_outcome_that_was_carried_out_by_half_is_not_committed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is handled by the next process; the failure is the worker's own."""
    fails_once(house, monkeypatch, inbound, "handled")
    assert house.handled == [1, 1]
