"""Handlers past their time limit, and those that cannot be stopped."""

import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from conversations import LogError
from conversations.scheduler import Threads
from conversations.worker import Worker
from tests.slow_handlers.support.gated_service import (
    Blocking,
    Brief,
    BriefBlocking,
    BriefWaiting,
    Patient,
    Task,
    Waiting,
    Workshop,
    until,
)
from tests.support.forms import python_form


@pytest.fixture
def shop() -> Iterator[Workshop]:
    made = Workshop()
    yield made
    made.close()


def lanes_of(worker: Worker) -> Threads:
    scheduler = worker.scheduler
    assert isinstance(scheduler, Threads)
    return scheduler


# -- def handlers ----------------------------------------------------------------------------------------------------


def test_what_a_handler_does_after_its_limit_is_refused(shop: Workshop) -> None:
    """Four runs were charged and given up on; that all of them end well later changes nothing."""
    boss, worker = shop.worker(shop.boss), shop.worker()
    shop.ask(Brief(name="late"), Brief(name="behind"))
    until(lambda: worker.counts.dead_letters == 2, boss, worker)
    assert shop.gates.entries["late"] == worker.counts.failures == 4
    shop.gates.open("late")
    until(lambda: len(shop.done) == 4, boss, worker)
    until(lambda: not lanes_of(worker)._orphans, boss, worker)
    until(lambda: boss.counts.closed == worker.counts.closed == 1, boss, worker)
    assert shop.results == []
    assert worker.counts.handled == 0
    assert shop.gates.entries["behind"] == 0


def test_a_run_over_the_limit_is_committed_as_an_attempt_although_nothing_else_happens(shop: Workshop) -> None:
    """A process that dies right after it has charged a run has charged it."""
    boss, worker = shop.worker(shop.boss), shop.worker()
    shop.ask(Brief(name="late"))
    until(lambda: shop.attempts() == [0], boss, worker)
    until(lambda: worker.counts.failures == 1, worker)
    assert shop.attempts() == [1]


def test_one_run_over_the_limit_is_an_attempt_and_the_next_takes_effect_once(shop: Workshop) -> None:
    boss, worker = shop.worker(shop.boss), shop.worker()
    shop.ask(Brief(name="late"), Task(name="behind"))
    until(lambda: worker.counts.failures == 1, boss, worker)
    shop.gates.open("late")
    until(lambda: len(shop.results) == 2, boss, worker)
    assert shop.results == [("late", 0), ("behind", 0)]
    assert worker.counts.handled == 2


def test_a_timer_whose_handler_ran_over_its_limit_rings_again(shop: Workshop) -> None:
    boss, worker = shop.worker(shop.boss), shop.worker()
    shop.ask(Task(name="timer"))
    until(lambda: shop.results == [("timer", 0)], boss, worker)
    shop.clock.advance(2_000_000)
    until(lambda: worker.counts.failures == 1, boss, worker)
    shop.gates.open("ring")
    until(lambda: len(shop.results) == 2, boss, worker)
    assert shop.results == [("timer", 0), ("ring", 0)]
    assert shop.gates.entries["ring"] >= 2
    until(lambda: not lanes_of(worker)._orphans, boss, worker)
    assert len(shop.results) == 2


def somebody_is_in(function: str) -> bool:
    """Whether another thread runs, or waits in, a function of this name."""
    mine = threading.get_ident()
    frames = [frame for ident, frame in sys._current_frames().items() if ident != mine]
    return any(frame.f_code.co_name == function for frame in frames)


@python_form
def test_a_handler_that_returns_while_it_is_given_up_on_does_not_take_effect_twice(shop: Workshop) -> None:
    """Its thread waits for the lock under which the polling thread charges it, having asked a moment before it returned."""
    boss, worker = shop.worker(shop.boss), shop.worker()
    shop.ask(Patient(name="late"), Task(name="behind", stuck=True))
    until(lambda: shop.gates.entered("late") and any(p.work.slow for p in worker.partitions.values()), boss, worker)
    with worker.context.lock:
        runs = [run for partition in worker.partitions.values() for run in partition.work.slow.values()]
        asked = [(run, run.call) for run in runs if run.call is not None and not run.done]
        shop.gates.open("late")
        until(lambda: shop.done == [("late", 0)] and somebody_is_in("steps"))
        for run, call in asked:
            run.call, run.started = call, run.started - 7_200  # long past its limit of an hour
        worker._check_time_limits()
        assert worker.counts.failures == 1
    until(lambda: shop.gates.entered("behind") and not lanes_of(worker)._orphans, boss, worker)
    shop.ask(Task(name="quick"))
    until(lambda: ("quick", 0) in shop.results, boss, worker)
    assert (shop.gates.entries["late"], shop.gates.entries["behind"]) == (2, 1), "charged, run again, refused once"
    shop.gates.open("behind")
    until(lambda: len(shop.results) == 3, boss, worker)
    assert shop.results == [("late", 0), ("quick", 0), ("behind", 0)]
    assert worker.counts.handled == 3


def test_a_partition_that_moves_away_gives_the_places_of_its_handlers_back(shop: Workshop) -> None:
    """It comes back at once, and the pool of one has a place for the message that begins again."""
    boss, worker = shop.worker(shop.boss), shop.worker(concurrency=1)
    shop.ask(Task(name="slow", stuck=True))
    until(lambda: shop.gates.entered("slow") and shop.attempts(), boss, worker)
    shop.broker.groups["shop"].owners.clear()
    until(lambda: shop.gates.entries["slow"] == 2, boss, worker)
    shop.gates.open("slow")
    until(lambda: len(shop.results) == 1, boss, worker)
    assert worker.counts.handled == 1


def ends_exhausted(worker: Worker) -> None:
    with pytest.raises(LogError, match="replace the worker"):
        worker.run()


def test_attempts_are_counted_although_the_worker_is_replaced_after_each(shop: Workshop) -> None:
    """The fourth ends the dialog, and then everybody else goes on."""
    boss = shop.worker(shop.boss)
    shop.ask(Brief(name="late"))
    until(lambda: shop.waiting() == 1, boss)
    for attempts in ([1], [2], [3], []):
        ends_exhausted(shop.worker(concurrency=1))
        assert shop.attempts() == attempts
        assert not shop.row().clean
    worker = shop.worker(concurrency=1)
    shop.ask(Task(name="quick"))
    until(lambda: shop.results == [("quick", 0)] and boss.counts.closed == 1, boss, worker)
    assert shop.gates.entries["late"] == 4


# -- async def handlers ------------------------------------------------------------------------------------------------


def test_a_handler_that_blocks_the_event_loop_is_named_and_others_are_not_charged_for_it(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    boss, worker = shop.worker(shop.boss), shop.worker()
    shop.ask(Blocking(name="block"))
    until(lambda: shop.gates.entered("block"), boss, worker)
    shop.ask(BriefWaiting(name="brief"))
    shop.ask(Waiting(name="waiting"))
    until(lambda: any("blocks the event loop" in record.message for record in caplog.records), boss, worker)
    shop.ask(Task(name="quick"))
    until(lambda: shop.results == [("quick", 0)], boss, worker)
    (told,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "block blocks the event loop of async handlers" in told.getMessage()
    assert "pass_through" in told.getMessage(), "where it blocks"
    assert worker.counts.failures == 0
    shop.gates.open("block")
    until(lambda: len(shop.results) == 4, boss, worker)
    until(lambda: any("goes on" in record.message for record in caplog.records), boss, worker)
    assert worker.counts.failures == 0
    assert not lanes_of(worker).exhausted


def test_a_worker_whose_event_loop_is_blocked_past_the_limit_is_replaced_and_the_attempt_is_counted(
    shop: Workshop,
) -> None:
    boss = shop.worker(shop.boss)
    shop.ask(BriefBlocking(name="block"))
    shop.ask(BriefWaiting(name="brief"))
    until(lambda: shop.waiting() == 2, boss)
    worker = shop.worker()
    ends_exhausted(worker)
    assert worker.counts.failures == 1
    assert sorted(shop.attempts()) in ([1], [0, 1])
    assert not shop.row().clean
