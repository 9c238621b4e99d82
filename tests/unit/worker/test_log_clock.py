"""The time a worker goes by: the log's, whatever its machine's clock says."""

from datetime import timedelta

from conversations.memory.clock import ManualClock
from conversations.testing.faults import Chance
from conversations.testing.process_clock import ProcessClock
from conversations.worker.log_clock import RESOLUTION, LogClock

NOON = 1_767_268_800_000_000
SECOND = 1_000_000
TOLERANCE = timedelta(seconds=10)


def wrong_by(seconds: float) -> tuple[ManualClock, ProcessClock, LogClock]:
    """The true time, a machine whose clock is off, and the time of a worker there."""
    world = ManualClock(NOON)
    machine = ProcessClock(world, Chance(None))
    machine.set_off(timedelta(seconds=seconds))
    return world, machine, LogClock(machine, TOLERANCE)


def test_it_is_the_machines_until_the_log_is_heard_of() -> None:
    _, _, clock = wrong_by(75)
    assert clock.now() == NOON + 75 * SECOND
    assert clock.off == 0


def test_what_was_read_shows_that_it_is_late() -> None:
    _, _, clock = wrong_by(-75)
    clock.heard(NOON)
    assert clock.now() == NOON
    clock.heard(NOON - 3_600 * SECOND)  # read late: says nothing
    assert clock.now() == NOON


def test_what_was_written_shows_that_it_is_early() -> None:
    """A record cannot have been appended before it was sent."""
    world, _, clock = wrong_by(86_400)
    since = clock.steady()
    world.advance(SECOND)
    clock.wrote(NOON + SECOND // 2, since)
    assert NOON + SECOND <= clock.now() <= NOON + SECOND * 3 // 2 + RESOLUTION


def test_brokers_that_differ_a_little_do_not_move_it_back_and_forth() -> None:
    _, _, clock = wrong_by(0)
    clock.wrote(NOON + 50_000, clock.steady())
    before = clock.now()
    clock.wrote(NOON, clock.steady())
    assert clock.now() == before


def test_the_machines_clock_may_jump() -> None:
    world, machine, clock = wrong_by(0)
    clock.wrote(NOON, clock.steady())
    for days in (1, -1):
        machine.set_off(timedelta(days=days))
        world.advance(SECOND)
    assert clock.now() == NOON + 2 * SECOND


def test_it_warns_once_for_each_time_it_is_off() -> None:
    _, machine, clock = wrong_by(0)
    clock.wrote(NOON, clock.steady())
    assert not clock.warns()
    machine.set_off(timedelta(seconds=-11))
    assert [clock.warns(), clock.warns()] == [True, False]
    assert clock.off == -11 * SECOND
    machine.set_off(timedelta(seconds=3))
    assert not clock.warns()
    machine.set_off(timedelta(seconds=11))
    assert clock.warns()
