"""What a timeline says about the envelopes of a dialog, and how they are drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conversations.protocol.command import Failed
from conversations.protocol.envelope import Kind
from conversations.protocol.parked import Parked
from conversations.protocol.states import State
from conversations_ops.operate.dialogs import Closed, Pile, Side, Waits
from conversations_ops.operate.events import Told
from conversations_ops.operate.timeline import Fate, Step, Timeline, _fates
from conversations_ops.read_model.events import Event
from conversations_ops.read_model.letters import Kept
from conversations_ops.web.picture import picture

ID = bytes(range(16))


def side(**changed: Any) -> Side:
    it = Side(
        "credit",
        0,
        ID,
        False,
        State.CONVERSING,
        "key",
        "",
        1,
        3,
        0,
        0,
        0,
        contract="Checks",
        peer="loans",
        acknowledged=1,
    )
    return replace(it, **changed)


def step(number: int, **changed: Any) -> Step:
    it = Step(1_000 + number, True, Kind.MESSAGE, number, "Check", 99, 0, 40 + number, Fate.UNKNOWN, 0, "")
    return it._replace(**changed)


def head(number: int, **changed: Any) -> Parked:
    it = Parked(
        "credit.queue-0-41",
        "credit",
        "id",
        False,
        "key",
        "Checks",
        "loans",
        Failed.MESSAGE,
        number,
        "Check",
        b"",
        4,
        5,
        None,
        1,
        0,
        "KeyError: 'score'",
        1,
    )
    return it._replace(**changed)


def fates(it: Side, *numbers: int) -> list[Fate]:
    return [found.fate for found in _fates(it, [step(number) for number in numbers])]


def test_an_envelope_is_accepted_repeated_or_not_read_yet() -> None:
    assert fates(side(), 0, 1, 2, 3) == [Fate.ACCEPTED] * 3 + [Fate.UNREAD]
    assert fates(side(), 0, 1, 0, 1, 2) == [Fate.ACCEPTED, Fate.ACCEPTED, Fate.DUPLICATE, Fate.DUPLICATE, Fate.ACCEPTED]
    assert fates(side(), -1, -1) == [Fate.ACCEPTED] * 2  # an ERROR of somebody without a dialog has no number


def test_what_waits_behind_a_failed_message_is_told_apart_from_what_came_before() -> None:
    assert fates(side(accepted=4, heads=[head(1)]), 0, 1, 2, 3, 4) == [
        Fate.ACCEPTED,
        Fate.FAILED,
        Fate.BEHIND,
        Fate.BEHIND,
        Fate.UNREAD,
    ]


def test_an_envelope_that_came_early_waits_for_the_one_before_it() -> None:
    waits = Waits(held=Pile(records=1))
    assert fates(side(accepted=1, waits=waits), 0, 2) == [Fate.ACCEPTED, Fate.EARLY]
    assert fates(side(accepted=1, closed=Closed(told=True, forget_at=0)), 0, 2) == [Fate.ACCEPTED, Fate.ACCEPTED]


def test_the_initiator_is_on_the_left_whichever_side_is_known() -> None:
    both = [side(service="loans", initiator=True, peer="credit"), side()]
    for known in (both, both[:1], both[1:]):
        drawn = picture(known, Timeline((step(0), step(0, from_initiator=False, at=2_000)), 0, complete=True), 10)
        assert (drawn.initiator, drawn.target) == ("loans", "credit")
        assert [row.look.split()[0] for row in drawn.rows] == ["right", "left"]
    gone = picture(
        [side(peer="", contract="", closed=Closed(told=True, forget_at=0))], Timeline((), 0, complete=True), 10
    )
    assert (gone.initiator, gone.target) == ("(not known any more)", "credit")


def test_a_picture_tells_what_failed_what_became_a_letter_and_what_happened() -> None:
    steps = [
        step(0),
        step(1, fate=Fate.FAILED),
        step(2, fate=Fate.BEHIND),
        step(3, kind=Kind.ERROR, what="ERROR", code=-8489, text="too late"),
    ]
    letter = Kept(
        "credit",
        0,
        7,
        "credit.queue-0-40",
        "queue",
        40,
        "unfit",
        "",
        "",
        "id",
        True,
        0,
        "Check",
        5,
        "",
        0,
        "",
        "",
        True,
        True,
    )
    event = Event(3, Told(1_002, {"event": "GAVE_UP", "service": "credit", "then": "hold"}))
    earlier = Event(1, Told(1, {"event": "BRAKE_ON"}))
    timeline = Timeline([*(replace_fate(it) for it in steps)], 3, complete=True)
    drawn = picture([side(heads=[head(1)])], timeline, 10, [letter], [earlier, event])
    told = [(row.look, row.label, row.detail, row.letter) for row in drawn.rows]
    assert told == [
        ("right dead message", "#0 Check", "dead letter: unfit", "credit.queue-0-40"),
        ("right failed message", "#1 Check", "failed 4 times: KeyError: 'score'", "credit.queue-0-41"),
        ("right behind message", "#2 Check", "waiting behind the failed one", ""),
        ("note event", "GAVE_UP", "then=hold", ""),
        ("right accepted error", "#3 ERROR -8489: too late", "", ""),
    ]
    assert [row.label for row in picture([side()], timeline, 2).rows] == ["#2 Check", "#3 ERROR -8489: too late"]
    assert picture([side()], timeline, 2).left_out == 2


def replace_fate(it: Step) -> Step:
    return it._replace(fate=Fate.ACCEPTED) if it.fate is Fate.UNKNOWN else it


@pytest.mark.parametrize("seen", [(), (step(0),)])
def test_a_picture_of_nothing_has_no_rows_but_names(seen: tuple[Step, ...]) -> None:
    drawn = picture([side()], Timeline(seen, 0, complete=True), 0)
    assert (drawn.rows, drawn.left_out) == ([], len(seen))


def test_many_arrows_that_look_alike_become_one_unless_all_are_asked_for() -> None:
    steps = [step(number, fate=Fate.BEHIND) for number in range(9)]
    timeline = Timeline(steps, 0, complete=True)
    drawn = picture([side()], timeline, 60)
    assert [(row.label, row.detail) for row in drawn.rows] == [
        ("#0 Check", "waiting behind the failed one"),
        ("#1 to #7 Check", "7 envelopes, each waiting behind the failed one"),
        ("#8 Check", "waiting behind the failed one"),
    ]
    assert len(picture([side()], timeline, 61).rows) == 9
    few = Timeline(steps[:4], 0, complete=True)
    assert [row.label for row in picture([side()], few, 60).rows] == ["#0 Check", "#1 Check", "#2 Check", "#3 Check"]
    mixed = Timeline([*steps[:5], step(5, what="Other"), *steps[6:]], 0, complete=True)
    assert [row.label for row in picture([side()], mixed, 60).rows] == [
        "#0 Check",
        "#1 to #3 Check",
        "#4 Check",
        "#5 Other",
        "#6 Check",
        "#7 Check",
        "#8 Check",
    ]
