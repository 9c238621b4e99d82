"""Laws of what may run after an unclean start, apart from any worker."""

from __future__ import annotations

from conversations.protocol.envelope import Envelope, Kind, Prefix
from conversations.protocol.partition_row import PartitionRow
from conversations.protocol.rows import ERROR
from conversations.worker.active import Active, Arrival, Lane
from conversations.worker.stage import Stage
from conversations.worker.suspicion import TOGETHER, Suspicion

PREFIX = Prefix(bytes(16), True, "c", "a", "b", "k", False, 0, -1)
ENVELOPE = Envelope(PREFIX, Kind.MESSAGE, 0, -1)


def row(*announced: str, alone: bool = False, **deaths: int) -> PartitionRow:
    return PartitionRow(
        announced=list(announced), alone=alone, deaths={k.replace("_", "-"): v for k, v in deaths.items()}
    )


def suspicion(stage: Stage, found: PartitionRow | None = None) -> Suspicion:
    return Suspicion(found or row(), stage, 3)


def lanes(of: Suspicion, *offsets: int) -> list[Lane]:
    found = []
    for offset in offsets:
        lane = Lane(("", f"{offset}"))
        item = Arrival(Active(b"", lane), "conv.s.queue", offset, 0, b"", b"", b"", envelope=ENVELOPE)
        of.mark(item)
        lane.put(item)
        found.append(lane)
    return found


def _arrival(lane: Lane) -> Arrival:
    item = lane.head
    assert isinstance(item, Arrival)
    return item


def step(of: Suspicion, new: list[Lane] | None = None) -> list[int]:
    """One step: who may run, by offset; what is announced is committed."""
    run = [_arrival(lane).offset for lane in of.admit(new or [])]
    of.announce()
    of.committed()
    return run


def test_nothing_runs_before_it_is_announced_and_committed() -> None:
    found = suspicion(Stage())
    assert step(found, lanes(found, 1, 2)) == []
    assert step(found) == [1, 2]


def test_some_are_announced_at_a_time() -> None:
    found = suspicion(Stage())
    many = lanes(found, *range(TOGETHER + 5))
    step(found, many)
    assert step(found) == list(range(TOGETHER))
    assert step(found) == []
    found.finished(many[7].head)
    step(found)
    assert step(found) == [TOGETHER]


def test_what_was_there_at_a_death_runs_alone() -> None:
    found = suspicion(Stage(), row("queue-1", "queue-2"))
    first, second, third = lanes(found, 1, 2, 3)
    step(found, [first, second, third])
    assert step(found) == [1]
    assert step(found) == []
    found.finished(first.head)
    step(found)
    assert step(found) == [2]


def test_what_runs_alone_waits_for_every_other_partition() -> None:
    stage = Stage()
    one, other = suspicion(stage, row(queue_1=1)), suspicion(stage)
    (busy, late) = lanes(other, 8, 9)
    step(other, [busy])
    assert step(other) == [8]
    step(one, lanes(one, 1))
    assert step(one) == []
    step(other, [late])
    assert step(other) == [], "what wants to run alone is let in first"
    other.finished(busy.head)
    step(one)
    assert step(one) == [1]


def test_a_partition_that_goes_away_holds_up_nobody() -> None:
    stage = Stage()
    one, other = suspicion(stage, row(queue_1=1)), suspicion(stage)
    step(one, lanes(one, 1))
    step(one)
    waiting = lanes(other, 8)
    step(other, waiting)
    assert step(other) == []
    stage.leave(one)
    step(other)
    assert step(other) == [8]


def test_one_death_alone_is_charged_and_one_among_others_is_not() -> None:
    assert suspicion(Stage(), row("queue-1", alone=True))._row.deaths == {"queue-1": 1}
    assert suspicion(Stage(), row("queue-1"))._row.deaths == {"queue-1": 0}


def test_a_second_item_of_a_name_that_is_announced_already_has_its_turn() -> None:
    """Nothing is committed for it, so that nothing would tell of a commit."""
    found = suspicion(Stage())
    first, second = lanes(found, 1, 1)
    step(found, [first])
    assert step(found) == [1]
    found.finished(first.head)
    assert found.admit([second]) == []
    assert not found.announce()
    assert found.admit([]) == [second]
    assert found.has_turn(second.head)


def become_error(lane: Lane) -> str:
    """The record of a lane breaks its dialog, whose handler is announced by a name of its own; return that."""
    item = _arrival(lane)
    item.active = Active(item.offset.to_bytes(17, "big"), lane)
    item.handler = ERROR
    return item.name


def test_what_a_record_became_goes_on_in_its_place() -> None:
    """However many are announced, and though another partition waits to run something alone."""
    stage = Stage()
    found, other = suspicion(stage), suspicion(stage, row(queue_1=1))
    many = lanes(found, *range(TOGETHER + 1))
    step(found, many)
    assert step(found) == list(range(TOGETHER))
    step(other, lanes(other, 1))
    names = [become_error(lane) for lane in many[:TOGETHER]]
    assert step(found, many[:TOGETHER]) == []
    assert found._row.announced == names
    assert step(found) == list(range(TOGETHER))
    assert step(other) == []


def test_what_a_record_became_that_runs_alone_does_so_too() -> None:
    charged = row(queue_1=2)
    found = suspicion(Stage(), charged)
    first, second = lanes(found, 1, 2)
    step(found, [first, second])
    assert step(found) == [1]
    name = become_error(first)
    step(found, [first])
    assert (charged.announced, charged.alone, charged.deaths) == ([name], True, {})
    assert step(found) == [1]
    found.finished(first.head)
    step(found)
    assert step(found) == [2]


def test_what_died_too_often_is_announced_once_more_to_be_given_up_on() -> None:
    """Giving up on it looks into it, and may be what kills."""
    found = suspicion(Stage(), row(queue_1=3))
    (doomed,) = lanes(found, 1)
    assert step(found, [doomed]) == []
    assert found.alone
    assert step(found) == [1]
    assert "3 processes died" in str(found.doom(doomed.head))
    assert not found.is_hopeless(doomed.head)


def test_what_died_of_being_given_up_on_is_let_through_at_once_to_be_set_aside() -> None:
    found = suspicion(Stage(), row("queue-1", alone=True, queue_1=3))
    (hopeless,) = lanes(found, 1)
    assert step(found, [hopeless]) == [1]
    assert not found.may_run(hopeless.head)
    assert found.has_turn(hopeless.head)


def test_what_was_not_tried_keeps_its_deaths() -> None:
    """A queue that is turned off while something kills does not forget what it was."""
    charged = row(queue_1=2)
    found = suspicion(Stage(), charged)
    (lane,) = lanes(found, 1)
    step(found, [lane])
    found.finished(lane.head, tried=False)
    assert (found.left, charged.deaths) == (0, {"queue-1": 2})
    found.mark(lane.head)
    found.finished(lane.head)
    assert charged.deaths == {}
