"""Choosing letters, freezing a plan, and telling what became of each; all of it without Kafka."""

import json

import pytest

from conversations import DeclarationError
from conversations.protocol.command import Failed
from conversations.protocol.events import RedriveEnded, RedriveProgress, RedriveStarted, RedriveStop
from conversations.protocol.parked import Parked
from conversations_ops.operate.redrive.known import Known, known
from conversations_ops.operate.redrive.plan import Care, Plan, PlannedLetter, freeze, from_json, plan_of, to_json
from conversations_ops.operate.redrive.selection import By, Selector, groups, member_of_parked


def parked(
    letter: str = "orders.queue-0-1", *, failure: str = "KeyError: 'x'", since: int = 10, **more: object
) -> Parked:
    fields = {
        "service": "orders", "conversation": "0199c1f2-0000-7000-8000-000000000001", "initiator": False, "key": "k", "contract": "Orders",
        "peer": "web", "handler": Failed.MESSAGE, "number": 3, "what": "Order", "body": b"{}", "attempts": 4, "due": None, "behind": 2,
        "size": 10, "ticket": 77,
    }  # fmt: skip
    return Parked(letter=letter, since=since, failure=failure, **{**fields, **more})  # type: ignore[arg-type]  # a test's shorthand


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        (Selector(), True),
        (Selector(service="orders"), True), (Selector(service="other"), False),
        (Selector(exception="KeyError"), True), (Selector(exception="Key"), False),
        (Selector(type="Order"), True), (Selector(type="Note"), False),
        (Selector(contract="Orders"), True), (Selector(contract="x"), False),
        (Selector(peer="web"), True), (Selector(peer="x"), False),
        (Selector(conversation="0199c1f2-0000-7000-8000-000000000001"), True), (Selector(conversation="x"), False),
        (Selector(since=10), True), (Selector(since=11), False), (Selector(until=11), True), (Selector(until=10), False),
        (Selector(service="orders", type="Note"), False),
    ],
)  # fmt: skip
def test_a_selector_chooses_by_every_field_it_has(selector: Selector, chosen: bool) -> None:
    assert selector.matches(parked()) is chosen


def test_a_plan_holds_what_is_held_now_longest_waiting_first() -> None:
    found = [
        parked("c", since=3), parked("a", since=1), parked("b", since=2, returns=2), parked("d", due=99), parked("e", queue_off=True),
        parked("f", since=4, returns=3),
    ]  # fmt: skip
    letters, left_out = freeze(found, Selector(), Care(max_returns=3))
    assert ([it.letter for it in letters], left_out) == (["a", "b", "c"], 1)
    assert freeze(found, Selector(), Care(max_returns=2))[1] == 2


def test_a_plan_is_read_as_it_was_written() -> None:
    chosen, care = Selector(exception="KeyError"), Care(2, 0.5, 4)
    plan = plan_of([parked("a"), parked("b")], chosen, care, "conv", by="me", now=0, random=b"\x01\xff")
    assert plan[:4] == ("rd-01ff", "conv", "1970-01-01T00:00:00+00:00", "me")
    assert from_json(to_json(plan)) == plan
    assert plan.behind == 4


@pytest.mark.parametrize(
    "text", ["", "7", "[]", "{}", '{"version": 1}', '{"version": 2}', '{"version": 1, "letters": [{"x": 1}]}']
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(DeclarationError, match="plan"):
        from_json(text)


def test_groups_are_counted_largest_first() -> None:
    found = [
        parked("a", failure="ValueError: x", since=5),
        parked("b", since=1),
        parked("c", failure="KeyError: 'y'", since=9),
    ]
    first, second = groups(map(member_of_parked, found), By.EXCEPTION)
    assert (first.name, first.letters, first.behind, first.first, first.last) == ("KeyError", 2, 4, 1, 9)
    assert first.what == "KeyError: 'y'"
    assert (second.name, second.letters) == ("ValueError", 1)
    assert [group.name for group in groups(map(member_of_parked, found), By.TYPE)] == ["Order"]


def test_redrives_are_known_from_their_events() -> None:
    """Each redrive has the time of its first start, and the outcomes and the end of its newest event."""
    found = known(
        [
            RedriveStarted("rd-1", 10, "ann", "one", {"open": 3}, 3),
            RedriveStarted("rd-2", 20, "bob", "two", {"open": 1}, 1),
            RedriveEnded("rd-1", 30, "ann", "one", {"open": 2, "handled": 1}, "stopped"),
            RedriveStarted("rd-1", 40, "cyd", "again", {"open": 2, "handled": 1}, 3),
            RedriveStop("rd-2", 50, "cyd", "enough"),
            RedriveProgress("rd-1", 60, "cyd", "again", {"open": 1, "handled": 2}),
            RedriveEnded("rd-2", 70, "cyd", "enough", {"open": 1}, "stopped"),
        ]
    )
    assert found == [
        Known("rd-1", "cyd", "again", 3, 10, 60, {"open": 1, "handled": 2}, None),
        Known("rd-2", "bob", "two", 1, 20, 70, {"open": 1}, "stopped", "cyd", "enough"),
    ]


@pytest.mark.parametrize(
    "wrong", [{"rate": 0}, {"rate": -1}, {"rate": "x"}, {"canary": -1}, {"max_returns": 0}, {"more": 1}]
)
def test_a_plan_that_was_edited_wrongly_is_refused(wrong: dict[str, object]) -> None:
    text = json.loads(to_json(Plan("rd-1", "conv", "now", "me", Selector(), Care(), ())))
    assert from_json(json.dumps(text))
    with pytest.raises(DeclarationError, match="plan"):
        from_json(json.dumps({**text, "care": {**text["care"], **wrong}}))
    with pytest.raises(DeclarationError, match="plan"):
        from_json(json.dumps({**text, "redrive": "../../x"}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "the file lacks the field 'version', 'redrive', 'namespace'"),
        ("[]", "the file is no JSON object"),
        ("7", "the file is no JSON object"),
        ("{", "it is not JSON"),
        ('{"letters": [{}]}', "lacks the field 'version', 'redrive'"),
        (to_json(Plan("rd-1", "conv", "now", "me", Selector(), Care(), ())).replace("care", "cares"), "lacks the field 'care'"),
        (
            to_json(Plan("rd-1", "conv", "now", "me", Selector(), Care(), (PlannedLetter("o", "s", 1, "x", 0),))).replace("ticket", "t"),
            "letter 1 lacks the field 'ticket'",
        ),
        (to_json(Plan("rd-1", "conv", "now", "me", Selector(), Care(), ())).replace('"letters": []', '"letters": 3'), "letters is no list"),
        (to_json(Plan("rd-1", "conv", "now", "me", Selector(), Care(), ())).replace('"rate"', '"speed": 1, "rate"'), "care has the unknown field 'speed'"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_plan_is_told_in_words(text: str, told: str) -> None:
    with pytest.raises(DeclarationError, match="this is no redrive plan: ") as caught:
        from_json(text)
    assert told in str(caught.value)
    assert not any(word in str(caught.value) for word in ("KeyError", "TypeError", "__new__", "object is not"))


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        ("letters", {"letter": []}), ("letters", {"behind": "x"}), ("letters", {"ticket": True}), ("letters", {"service": None}),
        ("letters", {"failure": 5}), ("selector", {"since": "x"}), ("selector", {"where": []}), ("care", {"rate": True}),
        ("care", {"canary": 1.5}), ("", {"redrive": []}), ("", {"made_at": 5}), ("", {"left_out": "x"}), ("", {"namespace": {}}),
    ],
)  # fmt: skip
def test_a_plan_with_fields_of_other_types_is_refused(where: str, wrong: dict[str, object]) -> None:
    letter = PlannedLetter("orders.queue-0-1", "orders", 1, "KeyError: 'x'", 0)
    text = json.loads(to_json(Plan("rd-1", "conv", "now", "me", Selector(), Care(), (letter,))))
    assert from_json(json.dumps(text))
    part = text["letters"][0] if where == "letters" else text[where] if where else text
    part.update(wrong)
    with pytest.raises(DeclarationError, match=f"this is no redrive plan: .*{next(iter(wrong))}"):
        from_json(json.dumps(text))


def test_a_plan_that_is_nested_deeply_is_refused() -> None:
    with pytest.raises(DeclarationError, match="nested too deeply"):
        from_json('{"version": 1, "letters": ' + "[" * 200_000)
