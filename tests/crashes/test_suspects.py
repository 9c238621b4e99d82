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
from tests.crashes.support.mortal_workers import Job, MortalService, die, until
from tests.support.forms import python_form

pytestmark = python_form


@pytest.fixture
def mortal() -> Iterator[MortalService]:
    made = MortalService()
    yield made
    made.let_go.set()


def dies_at_work(mortal: MortalService) -> Worker:
    """A worker whose handler runs when it dies."""
    mortal.begun.clear()
    worker = mortal.worker()
    until(mortal.begun.is_set, worker)
    die(worker)
    return worker


# -- counting ------------------------------------------------------------------------------------------------------


def test_a_start_is_committed_before_any_handler_runs(mortal: MortalService) -> None:
    """Also that of a partition given back in order whose first work is a row that waits."""
    mortal.send(Job(n=1, stuck=True))
    worker = mortal.worker()
    until(mortal.begun.is_set, worker)
    worker.close()
    assert mortal.row().clean
    dies_at_work(mortal)
    assert [row.clean for row in mortal.rows_seen] == [False, False]


def test_each_death_before_anything_is_settled_counts_one(mortal: MortalService) -> None:
    mortal.send(Job(n=1, stuck=True))
    for _ in range(4):
        dies_at_work(mortal)
    assert [row.unclean_starts for row in mortal.rows_seen] == [0, 1, 2, 3]


def test_a_death_before_the_start_is_committed_counts_nothing(mortal: MortalService) -> None:
    die(mortal.opened())
    row = mortal.row()
    worker = mortal.worker()
    worker.context.connection.join(worker)
    worker.context.connection.poll(0, 1)
    assert worker.assignment.restoring
    die(worker)
    assert mortal.row() == row


def test_a_stop_in_order_ends_the_count(mortal: MortalService) -> None:
    mortal.send(Job(n=1, stuck=True))
    dies_at_work(mortal)
    dies_at_work(mortal)
    successor = mortal.opened()
    assert mortal.row().unclean_starts == 2
    successor.close()
    assert mortal.row().clean
    mortal.opened()
    assert mortal.row().unclean_starts == 0


def test_a_partition_that_moves_away_in_order_begins_anew_with_its_next_owner() -> None:
    mortal = MortalService(2)
    first = mortal.worker()
    until(lambda: len(first.partitions) == 2, first)
    second = mortal.worker()
    until(lambda: bool(second.partitions), first, second)
    (moved,) = second.partitions
    assert (mortal.row(moved).clean, mortal.row(moved).unclean_starts) == (False, 0)


def test_only_the_partitions_of_the_dead_are_suspect() -> None:
    """Of two workers one dies; the other takes its partition up, and keeps its own."""
    mortal = MortalService(2)
    while not all(mortal.broker.queue("slow")):
        mortal.send(Job(n=1, stuck=True))
    first, second = mortal.worker(), mortal.worker()
    until(lambda: len(first.partitions) == len(second.partitions) == 1, first, second)
    (theirs,), (own,) = first.partitions, second.partitions
    until(lambda: bool(first.partitions[theirs].work.slow and second.partitions[own].work.slow), first, second)
    die(first)
    until(lambda: len(second.partitions) == 2, second)
    assert (mortal.row(theirs).unclean_starts, mortal.row(own).unclean_starts) == (1, 0)
    die(second)
    third = mortal.opened()
    until(lambda: len(third.partitions) == 2, third)
    assert (mortal.row(theirs).unclean_starts, mortal.row(own).unclean_starts) == (2, 1)
    mortal.let_go.set()
    until(lambda: mortal.row(theirs).unclean_starts == mortal.row(own).unclean_starts == 0, third)
    third.close()


# -- passing the bound -------------------------------------------------------------------------------------------------


def go_on(mortal: MortalService, worker: Worker) -> None:
    """Send something new and have it handled, in transactions of its own."""
    handled = worker.counts.handled
    mortal.send(Job(n=99))
    until(lambda: worker.counts.handled == handled + 1, worker)
    commits = worker.counts.commits
    mortal.send(Job(n=99))
    until(lambda: worker.counts.commits > commits and worker.counts.handled == handled + 2, worker)


def a_message(mortal: MortalService) -> None:
    mortal.send(Job(n=1, stuck=True))


def a_row(mortal: MortalService) -> None:
    mortal.send(Job(n=1, stuck=True))
    worker = mortal.worker()
    until(mortal.begun.is_set, worker)
    until(lambda: any(p.waiting.bytes for p in worker.partitions.values()) and not worker.step(), worker)
    worker.close()


def a_timer(mortal: MortalService) -> None:
    mortal.send(Job(n=1, timer=True))
    worker = mortal.worker()
    until(mortal.begun.is_set, worker)
    worker.close()


@pytest.mark.parametrize("left", [a_message, a_row, a_timer])
def test_the_count_ends_when_what_was_there_before_is_settled_and_not_earlier(
    mortal: MortalService, left: Callable[[MortalService], None]
) -> None:
    left(mortal)
    dies_at_work(mortal)
    mortal.begun.clear()
    worker = mortal.worker()
    until(mortal.begun.is_set, worker)
    assert mortal.row().unclean_starts == 1
    go_on(mortal, worker)
    assert mortal.row().unclean_starts == 1
    mortal.let_go.set()
    until(lambda: mortal.row().unclean_starts == 0, worker)
    die(worker)
    until(lambda: mortal.row().unclean_starts == 0, mortal.opened())  # it was idle: only a marker was left to read


def counts_until_zero(mortal: MortalService) -> list[int]:
    """What the row says from the opening on, after every record read; it ends with the marker behind the last."""
    worker = mortal.opened(batch=1)
    counts = [mortal.row().unclean_starts]
    deadline = monotonic() + 30
    while counts[-1]:
        assert monotonic() < deadline, "the count does not end"
        if worker.step() or not mortal.row().unclean_starts:
            counts.append(mortal.row().unclean_starts)
    worker.close()
    return counts


def test_records_of_the_queue_from_before_are_all_read_before_the_count_ends(mortal: MortalService) -> None:
    die(mortal.opened())
    mortal.send(Job(n=1), Job(n=2), Job(n=3))
    counts = counts_until_zero(mortal)
    assert counts[:4] == [1, 1, 1, 1]
    assert mortal.handled == [1, 2, 3]


def test_commands_from_before_are_all_read_before_the_count_ends(mortal: MortalService) -> None:
    dialogs = [mortal.send(Job(n=n)) for n in range(3)]
    worker = mortal.worker()
    until(lambda: len(mortal.handled) == 3, worker)
    until(lambda: not worker.step())
    die(worker)
    with LocalClient(mortal.slow, Kafka("memory"), MemoryCommands(mortal.broker, "slow")) as client:
        for name in dialogs:
            with client.dialog(name) as dialog:
                dialog.end()
    assert counts_until_zero(mortal)[:3] == [1, 1, 1]


def test_the_count_ends_when_only_aborted_records_were_left(mortal: MortalService) -> None:
    """They give nobody anything to do, but the end of the count is committed."""
    mortal.send(Job(n=1, stuck=True))
    dies_at_work(mortal)
    mortal.let_go.set()
    mortal.broker.append(Out("conv.slow.queue", 0, b"k", b"v"), visible=False)
    worker = mortal.opened()
    until(lambda: mortal.row().unclean_starts == 0, worker)
    worker.close()


def test_an_idle_partition_is_not_suspect_after_any_number_of_deaths(mortal: MortalService) -> None:
    for _ in range(3):
        worker = mortal.opened()
        assert mortal.row().unclean_starts == 0
        die(worker)


# -- failures of the worker itself ------------------------------------------------------------------------------------


def fails_once(mortal: MortalService, monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str) -> None:
    """Run a worker in which a function has a bug that is no record's, and then one without it until the message is handled."""
    mortal.send(Job(n=1))
    worker = mortal.worker()

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, function, fail)
        with pytest.raises(KeyboardInterrupt):
            worker.run()
    assert not mortal.row().clean
    handled = len(mortal.handled)
    successor = mortal.worker()
    until(lambda: len(mortal.handled) > handled, successor)
    successor.close()


def test_a_step_that_failed_halfway_is_not_committed_and_its_partition_is_not_clean(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position had moved past a record that was in no lane yet."""
    fails_once(mortal, monkeypatch, intake, "read_headers")
    assert mortal.handled == [1]


def test_an_outcome_that_was_carried_out_by_half_is_not_committed(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is handled by the next process; the failure is the worker's own."""
    fails_once(mortal, monkeypatch, inbound, "handled")
    assert mortal.handled == [1, 1]
