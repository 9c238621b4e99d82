"""What an operator decides about a failed message: once, in its place, and with the dialog going on behind it."""

import json
from datetime import timedelta
from typing import Any

import pytest

from conversations import Dialog, PeerError, PoisonPolicy, Service, Then
from conversations.protocol import rows
from conversations.protocol.command import Action
from conversations.protocol.parked import Decision, Parked
from conversations.protocol.topics import DEAD_LETTER, STATE, events_topic, service_topic
from conversations.testing import PeerDialog, Simulation
from conversations.testing.reading import visible
from tests.simulation.support.services import ECHO, Say
from tests.simulation.test_parking import SECOND, Moody, Ringing, texts

HOLD = PoisonPolicy(delays=[], then=Then.HOLD)
MINUTE = 60_000_000
DAY = 24 * 60 * MINUTE


def events(sim: Simulation, name: str) -> list[dict[str, Any]]:
    found = [json.loads(record.value() or b"") for record in visible(sim.broker, events_topic(sim.broker.namespace))]
    return [event for event in found if event["event"] == name]


def letters_of(sim: Simulation) -> list[dict[str, bytes]]:
    """Return the headers of the letters of messages."""
    found = visible(sim.broker, service_topic(sim.broker.namespace, "moody", DEAD_LETTER))
    headers = [{name: bytes(value or b"") for name, value in record.headers() or ()} for record in found]
    return [it for it in headers if it["dl.sequence"] != b"-1"]


def by_hand(action: Action, **more: Any) -> Decision:
    return Decision(action, by="operator", **({"reason": "test"} | more))


def held(sim: Simulation, moody: Moody, *said: str) -> tuple[PeerDialog, Parked]:
    dialog = sim.peer("web").begin_dialog("moody", ECHO)
    for text in said:
        dialog.send(Say(text=text))
    sim.run()
    (it,) = sim.parked("moody")
    return dialog, it


def test_what_waits_is_told_from_the_state_topic() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog, it = held(sim, moody, "a", "b 9", "c", "d")
        assert (it.conversation, it.number, it.what, it.behind) == (dialog.id, 1, "Say", 2)
        assert (it.attempts, it.held, it.peer, it.contract) == (1, True, "web", "Echo")
        assert it.failure == "ValueError: b 9"


def test_a_held_message_is_a_dead_letter_after_its_deadline_and_not_before() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog, it = held(sim, moody, "a", "b 9", "c")
        begun = sim.clock.now()
        assert it.deadline is not None
        assert abs(it.deadline - begun - DAY) < MINUTE, "the lifetime by default"
        sim.advance(timedelta(microseconds=it.deadline - begun - MINUTE))
        assert len(sim.parked("moody")) == 1
        sim.advance(timedelta(microseconds=2 * MINUTE))
        assert sim.parked("moody") == []
        assert [letter.reason for letter in sim.dead_letters("moody")] == [
            "handler-failed",
            "parked-at-end",
            "parked-at-end",
        ]
        assert dialog.error is not None
        assert dialog.error.code == -8489


def test_a_handler_of_an_error_has_no_deadline() -> None:
    """The dialog is broken, so the end of its lifetime changes nothing: the handler waits for the operator."""
    service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO], ignores=[Say], poison=[HOLD])

    @service.on_error()
    def broken(why: PeerError, dialog: Dialog) -> None:
        raise ValueError("on_error")

    with Simulation(service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        dialog.send(Say(text="a"))
        sim.run()
        dialog.end_with_error(7, "No.")
        sim.run()
        assert [(it.what, it.deadline) for it in sim.parked("moody")] == [("ERROR", None)]
        sim.advance(timedelta(microseconds=2 * DAY))
        assert [it.what for it in sim.parked("moody")] == ["ERROR"]


def test_retry_runs_the_message_in_its_place_and_then_what_waited() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog, it = held(sim, moody, "a", "b 1", "c", "d")
        sim.decide(it, by_hand(Action.RETRY))
        dialog.send(Say(text="e"))
        sim.run()
        assert texts(dialog) == ["a", "b", "c", "d", "e"]
        assert sim.parked("moody") == []
        (event,) = events(sim, "RESOLVED")
        assert (event["action"], event["by"], event["number"], event["reason"]) == ("retry", "operator", 1, "test")
        sim.check_invariants()


def test_a_message_that_is_given_back_alone_is_tried_in_the_step_of_the_decision() -> None:
    """Nothing of its second wait is written, because there is none: its row and its park are deleted in the transaction of the decision."""
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        _, it = held(sim, moody, "b 1")
        topic = service_topic(sim.broker.namespace, "moody", STATE)
        before = {(it.partition(), it.offset()) for it in visible(sim.broker, topic)}
        sim.decide(it, by_hand(Action.RETRY))
        sim.run()
        after = [it for it in visible(sim.broker, topic) if (it.partition(), it.offset()) not in before]
        written = [((record.key() or b"")[:1], record.value() is None) for record in after]
        assert [row for row in written if row[0] in (rows.PARK, rows.PARKED, rows.WAITING)] == [
            (rows.PARKED, True),
            (rows.PARK, True),
        ]
        assert moody.handled == ["b"]
        assert [it["outcome"] for it in events(sim, "RETURNED")] == ["handled"]
        sim.check_invariants()


def test_a_retry_that_fails_is_held_again_and_counts() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        _, first = held(sim, moody, "b 2", "c")
        sim.decide(first, by_hand(Action.RETRY))
        sim.run()
        (second,) = sim.parked("moody")
        assert (second.attempts, second.held) == (2, True)
        assert second.ticket > first.ticket
        sim.decide(second, by_hand(Action.RETRY))
        sim.run()
        assert moody.handled == ["b", "c"]
        sim.check_invariants()


def test_two_operators_decide_once() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog, it = held(sim, moody, "b 9", "c", "d 9", "e")
        for _ in range(2):
            sim.decide(it, by_hand(Action.SKIP))
        sim.run()
        assert moody.handled == ["c"]
        assert [found.number for found in sim.parked("moody")] == [2]
        (refused,) = events(sim, "COMMAND_REFUSED")
        assert refused["code"] == 50005
        sim.decide(it._replace(number=2, ticket=1), by_hand(Action.SKIP))
        sim.run()
        assert "look again" in events(sim, "COMMAND_REFUSED")[-1]["why"]
        assert texts(dialog) == ["c"]
        sim.check_invariants()


def test_skip_keeps_the_bytes_and_goes_on() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog, it = held(sim, moody, "a", "b 9", "c")
        sim.decide(it, by_hand(Action.SKIP, reason="INC-4711"))
        sim.run()
        assert texts(dialog) == ["a", "c"]
        letters = [(letter.sequence, letter.reason) for letter in sim.dead_letters("moody") if letter.sequence >= 0]
        assert letters == [(1, "handler-failed"), (1, "skipped")]
        failed, skipped = letters_of(sim)
        assert (skipped["dl.decided-by"], skipped["dl.decided-why"]) == (b"operator", b"INC-4711")
        assert skipped["dl.exception-message"] == b"ValueError: b 9", "the failure stays, not the skipping"
        assert (skipped["dl.attempts"], failed["dl.attempts"]) == (b"1", b"1")
        assert "dl.exception" not in skipped
        assert "dl.decided-by" not in failed
        sim.check_invariants()


def test_edit_retries_with_another_body_and_keeps_the_old() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog, it = held(sim, moody, "a", "b 9", "c")
        sim.decide(it, by_hand(Action.EDIT, body=b'{"text": "B"}'))
        sim.crash("moody")
        sim.run()
        assert texts(dialog) == ["a", "B", "c"]
        letters = [(letter.reason, b"b 9" in letter.value) for letter in sim.dead_letters("moody")]
        assert letters == [("handler-failed", True), ("edited", True)]
        sim.check_invariants()


def test_an_edited_message_has_an_id_of_its_own_that_names_the_command() -> None:
    """Who knows the old one from a failed attempt takes the new one for another message; those behind keep theirs."""
    moody = Moody(PoisonPolicy(delays=[SECOND]))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        for text in ("a 9", "b"):
            dialog.send(Say(text=text))
        sim.advance(2 * SECOND)
        (it,) = sim.parked("moody")
        sim.decide(it, by_hand(Action.EDIT, body=b'{"text": "a 3"}'))
        sim.run()
        sim.crash("moody")
        sim.advance(2 * SECOND)
        (again,) = sim.parked("moody")
        sim.decide(again, by_hand(Action.RETRY))
        sim.run()
        (edit, _) = events(sim, "RESOLVED")
        old, new, next_one = f"{dialog.id}:i:0", f"{dialog.id}:i:0:{edit['command']}", f"{dialog.id}:i:1"
        assert moody.ids == [old, old, new, new, next_one]


def test_an_edit_that_is_not_what_its_type_says_changes_nothing() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        _, it = held(sim, moody, "b 9")
        sim.decide(it, by_hand(Action.EDIT, body=b'{"text": 1}'))
        sim.run()
        (refused,) = events(sim, "COMMAND_REFUSED")
        assert refused["code"] == 9615
        assert sim.parked("moody") == [it]
        sim.check_invariants()


def test_a_message_that_waits_for_its_next_attempt_may_be_tried_or_skipped_before() -> None:
    moody = Moody(PoisonPolicy(delays=[3600 * SECOND]))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog, it = held(sim, moody, "a 1", "b")
        assert it.due == sim.clock.now() + 3_600_000_000
        sim.decide(it, by_hand(Action.RETRY))
        sim.run()
        assert texts(dialog) == ["a", "b"]
        sim.check_invariants()


@pytest.mark.parametrize("action", [Action.RETRY, Action.SKIP])
def test_a_timer_that_was_given_up_on_is_decided_about_too(action: Action) -> None:
    ringing = Ringing(1, HOLD)
    with Simulation(ringing.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("ringing", ECHO)
        dialog.send(Say(text="1"))
        sim.advance(2 * SECOND)
        (it,) = sim.parked("ringing")
        assert (it.number, it.held, it.attempts) == (-1, True, 1)
        sim.crash("ringing")
        sim.decide(it, by_hand(action))
        sim.advance(timedelta(minutes=1))
        assert texts(dialog) == (["rang"] if action is Action.RETRY else [])
        assert sim.parked("ringing") == []
        dialog.send(Say(text="1"))
        sim.advance(2 * SECOND)
        assert texts(dialog)[-1:] == ["rang"]
        sim.check_invariants()


def test_an_edit_of_what_was_not_given_up_on_keeps_the_old_body() -> None:
    moody = Moody(PoisonPolicy(delays=[3600 * SECOND]))
    with Simulation(moody.service, raise_failures=False) as sim:
        _, it = held(sim, moody, "b 9")
        sim.decide(it, by_hand(Action.EDIT, body=b'{"text": "B"}'))
        sim.run()
        (letter,) = sim.dead_letters("moody")
        assert (moody.handled, letter.reason, b"b 9" in letter.value) == (["B"], "edited", True)
        sim.check_invariants()


def test_a_decision_about_one_message_is_none_about_the_next() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog, first = held(sim, moody, "a 1")
        sim.decide(first, by_hand(Action.RETRY))
        sim.run()
        dialog.send(Say(text="b 9"))
        sim.run()
        (second,) = sim.parked("moody")
        sim.decide(first, by_hand(Action.END, code=5, description="meant for the first"))
        sim.run()
        assert sim.parked("moody") == [second]
        assert dialog.error is None


def test_nothing_waits_and_nothing_is_decided() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog, it = held(sim, moody, "b 9")
        dialog.end_with_error(1, "enough")
        sim.run()
        sim.decide(it, by_hand(Action.RETRY))
        sim.run()
        (refused,) = events(sim, "COMMAND_REFUSED")
        assert "no message or handler of this dialog waits" in refused["why"] or "over" in refused["why"]
        sim.check_invariants()


def test_end_tells_the_peer_and_keeps_what_waited() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog, it = held(sim, moody, "a", "b 9", "c")
        sim.decide(it, by_hand(Action.END, code=42, description="We cannot."))
        sim.run()
        assert dialog.error
        assert (dialog.error.code, dialog.error.description) == (42, "We cannot.")
        assert [(it.sequence, it.reason) for it in sim.dead_letters("moody")[1:]] == [
            (1, "parked-at-end"), (2, "parked-at-end"),
        ]  # fmt: skip
        head, behind = letters_of(sim)[1:]
        assert {(it["dl.decided-by"], it["dl.decided-why"]) for it in (head, behind)} == {(b"operator", b"test")}
        assert head["dl.exception-message"] == b"ValueError: b 9"
        assert "dl.exception-message" not in behind
        sim.check_invariants()


def test_a_letter_after_a_decision_does_not_have_the_decision() -> None:
    """The peer ends the second dialog; only the first was ended by the operator."""
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        _, it = held(sim, moody, "b 9")
        sim.decide(it, by_hand(Action.SKIP))
        sim.run()
        other, _ = held(sim, moody, "c 9")
        other.end_with_error(1, "enough")
        sim.run()
        last = letters_of(sim)[-1]
        assert (last["dl.reason"], "dl.decided-by" in last) == (b"parked-at-end", False)


def test_an_end_without_a_code_is_refused() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        _, it = held(sim, moody, "b 9")
        sim.decide(it, by_hand(Action.END))
        sim.run()
        assert events(sim, "COMMAND_REFUSED")[0]["code"] == 8419
        assert sim.parked("moody") == [it]


# -- what became of what was given back -----------------------------------------------------------------------------------


def outcomes(sim: Simulation) -> list[str]:
    return [event["outcome"] for event in events(sim, "RETURNED")]


def test_the_owner_tells_what_became_of_what_was_given_back() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        _, it = held(sim, moody, "b 2", "c 9")
        sim.decide(it, by_hand(Action.RETRY))
        sim.run()
        assert outcomes(sim) == ["failed"]
        (again,) = sim.parked("moody")
        assert again.returns == 1
        sim.decide(again, by_hand(Action.RETRY))
        sim.crash("moody")
        sim.run()
        assert outcomes(sim) == ["failed", "handled"], "although the next one failed at once"
        commands = [event["command"] for event in events(sim, "RESOLVED")]
        assert [event["command"] for event in events(sim, "RETURNED")] == commands
        (follower,) = sim.parked("moody")
        assert follower.returns == 0


@pytest.mark.parametrize("then", [Then.SKIP, Then.END_DIALOG])
def test_given_back_and_given_up_on_is_a_failure(then: Then) -> None:
    moody = Moody(PoisonPolicy(delays=[], then=Then.HOLD))
    with Simulation(moody.service, raise_failures=False) as sim:
        _, it = held(sim, moody, "b 9", "c")
        moody.service.poison = (PoisonPolicy(delays=[], then=then),)
        sim.decide(it, by_hand(Action.RETRY))
        sim.run()
        assert outcomes(sim) == ["failed"]


def test_given_back_and_then_its_dialog_ended_or_somebody_decided() -> None:
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog, it = held(sim, moody, "b 9", "c")
        sim.turn_queue("moody", on=False)
        sim.run()
        sim.decide(it, by_hand(Action.RETRY))
        sim.run()
        assert outcomes(sim) == [], "its queue is off"
        (waits,) = sim.parked("moody")
        sim.decide(waits, by_hand(Action.SKIP))
        sim.run()
        assert outcomes(sim) == ["decided"]
        (waits,) = sim.parked("moody")
        sim.decide(waits, by_hand(Action.RETRY))
        sim.run()
        dialog.end_with_error(7, "no")
        sim.run()
        assert outcomes(sim) == ["decided", "ended"]


def test_a_timer_that_was_given_back_is_told_of_too() -> None:
    ringing = Ringing(2, HOLD)
    with Simulation(ringing.service, raise_failures=False) as sim:
        sim.peer("web").begin_dialog("ringing", ECHO).send(Say(text="1"))
        sim.advance(SECOND)
        for outcome in ("failed", "handled"):
            (it,) = sim.parked("ringing")
            sim.decide(it, by_hand(Action.RETRY))
            sim.run()
            assert outcomes(sim)[-1] == outcome
