"""What `conversations dialogs` reads from the rows of a state topic, and what it says about them."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from conversations import Contract, Dialog, Service
from conversations.errors import DialogEnded, LocalError
from conversations.protocol import rows
from conversations.protocol.command import Cleanup, End, EndWithError, Resend
from conversations.protocol.states import State
from conversations.protocol.times import moment
from conversations.protocol.topics import QUEUE, service_topic
from conversations.testing import Simulation
from conversations.testing.reading import state_of
from conversations_ops.cli import one_letter
from conversations_ops.cli.app import app
from conversations_ops.cli.dialogs import HEADERS, _effect, _letters, _state, _table
from conversations_ops.cli.one_dialog import described, plain
from conversations_ops.cli.one_side import chosen, id_of
from conversations_ops.operate.dialog_ends import check
from conversations_ops.operate.dialogs import FIRST, MISSING, Selector, Side, sides_in
from tests.simulation.support import records
from tests.simulation.support.services import ECHO, Say
from tests.simulation.test_cleanup import ask, with_all
from tests.simulation.test_decisions import HOLD
from tests.simulation.test_parking_traps import message, stranger

HOUR = timedelta(hours=1)
ID = "0199c1f2-0000-7000-8000-000000000001"


def listener() -> Service[dict[str, Any]]:
    """A service that fails when told "fail", answers when told "answer", and sets a timer when told "set"."""
    service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO], poison=[HOLD])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        if body.text == "fail":
            raise ValueError(body.text)
        if body.text == "answer":
            dialog.send(body)
        if body.text == "set":
            dialog.set_timer(HOUR)

    @service.on_timer()
    def ring(dialog: Dialog) -> None:
        raise ValueError("ring")

    return service


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(listener(), raise_failures=False, partitions=1) as sim:
        yield sim


def sides(sim: Simulation, service: str = "moody") -> list[Side]:
    (table,) = state_of(sim.broker, service)
    return sides_in(table, (sim.broker.namespace, service, 0))


def only(sim: Simulation) -> Side:
    (it,) = sides(sim)
    return it


def test_a_side_has_its_numbers_and_all_that_waits(sim: Simulation) -> None:
    with_all(sim)
    it = only(sim)
    assert (it.service, it.peer, it.contract, it.state) == ("moody", "stranger", "Echo", State.CONVERSING)
    assert (it.sent, it.acknowledged, it.accepted, it.handled) == (0, 0, 3, 1)
    waits = it.waits
    assert [pile.records for pile in (waits.held, waits.waiting, waits.parked, waits.delayed)] == [2, 0, 2, 0]
    assert waits.parked.first == ["Say", "Say"]
    (head,) = it.heads
    assert (head.number, head.behind, head.failure) == (1, 1, "ValueError: fail")
    assert head.deadline == it.lifetime_ends
    text = described([it], {}, {})
    assert "held          2 records" in text
    assert "parked        2 records" in text
    assert "waits for     Say #1 failed 1 time since " in text
    assert "then the 2 parked messages become dead letters, and the dialog is broken with -8489" in text
    data = plain(it)
    assert (data["side"], data["state"], data["parked"]["records"]) == ("target", "conversing", 2)
    assert data["waits_for"][0]["deadline"] == data["deadline"]
    (_, line) = _table([("", it)], several=False).splitlines()
    cells = dict(zip(HEADERS, line.split("\t"), strict=True))
    assert (cells["ACCEPTED"], cells["HANDLED"], cells["WAITS"]) == ("3", "1", "held 2, parked 2")


def test_both_sides_are_told_apart_and_a_closed_side_is_known_by_its_tombstone(sim: Simulation) -> None:
    dialog = sim.peer("web").begin_dialog("moody", ECHO)
    for text in ("answer", "set"):
        dialog.send(Say(text=text))
    sim.run()
    (initiator,) = sides(sim, "web")
    target = only(sim)
    assert initiator.identity == rows.other_side(target.identity)
    assert (initiator.sent, initiator.accepted, target.sent, target.handled) == (2, 1, 1, 2)
    assert set(target.timers) == {""}
    assert "(2026-01-01T01:00:00+00:00)" in described([initiator, target], {}, {})
    sim.advance(HOUR)
    assert [head.what for head in only(sim).heads] == ["TIMER"]
    dialog.end_with_error(7, "No.")
    sim.run()
    target = only(sim)
    assert (target.state, target.peer, target.lifetime_ends) == (State.CLOSED, "", None)
    assert target.closed is not None
    assert target.closed.told
    assert (target.code, "error         7" in described([target], {}, {})) == (7, True)
    with pytest.raises(DialogEnded, match="8427"):
        check(target, End())


def test_a_side_shows_its_timers_by_name_and_the_failed_handler_of_one() -> None:
    service: Service[dict[str, Any]] = Service("clock", accepts=[ECHO], poison=[HOLD])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        for name, hours in (("", 2), ("reminder", 1), ("give-up", 3)):
            dialog.set_timer(hours * HOUR, name=name)

    @service.on_timer()
    def rang(dialog: Dialog) -> None:
        raise ValueError(dialog.timer)

    with Simulation(service, raise_failures=False, partitions=1) as sim:
        sim.peer("web").begin_dialog("clock", ECHO).send(Say(text="set"))
        sim.run()
        (it,) = sides(sim, "clock")
        lines = described([it], {}, {}).splitlines()
        shown = [line.partition("  ")[2].strip() for line in lines if line.startswith("timer ")]
        assert [line.partition("(")[2] for line in shown] == [
            "2026-01-01T02:00:00+00:00)",
            "2026-01-01T03:00:00+00:00)",
            "2026-01-01T01:00:00+00:00)",
        ]
        assert [line.partition(",")[0] for line in shown[1:]] == ["give-up", "reminder"]
        data = plain(it)
        assert data["timer"] == "2026-01-01T02:00:00+00:00"
        assert data["timers"] == {
            "": "2026-01-01T02:00:00+00:00",
            "give-up": "2026-01-01T03:00:00+00:00",
            "reminder": "2026-01-01T01:00:00+00:00",
        }
        sim.advance(HOUR)
        (it,) = sides(sim, "clock")
        text = described([it], {}, {})
        assert "waits for     the handler of the timer reminder failed 1 time" in text
        assert f"dead-letters show clock.timer-{it.name}-target-reminder" in text
        (head,) = it.heads
        assert "the handler of the timer reminder failed" in one_letter.described(head, "")
        assert "timer reminder" in one_letter.table([head])


def test_both_sides_show_the_end_that_the_targets_contract_sets(sim: Simulation) -> None:
    """The initiator's contract is unlimited, the target's is not: the rows of both sides have the earlier end."""
    brief, endless = (Contract("Brief", sent_by_any=[Say], lifetime=it) for it in (2 * HOUR, None))
    sim.deploy(Service("brief", accepts=[brief], ignores=["Say"]))
    dialog = sim.peer("web").begin_dialog("brief", endless)
    dialog.send(Say(text="hello"))
    sim.advance(timedelta(minutes=1))
    shown = [*sides(sim, "web"), *sides(sim, "brief")]
    (end,) = {it.lifetime_ends for it in shown}
    assert end is not None
    assert [plain(it)["deadline"] for it in shown] == [moment(end).isoformat()] * 2
    assert ["(2026-01-01T02:00:00" in described([it], {}, {}) for it in shown] == [True, True]


def test_envelopes_that_cannot_be_sent_are_shown(sim: Simulation) -> None:
    sim.peer("stranger")
    sim.broker.forbidden.add(service_topic(sim.broker.namespace, "stranger", QUEUE))
    prefix = stranger(sim)
    for number in range(FIRST + 2):
        records.post(sim, message(prefix, number, "answer"))
    sim.run()
    it = only(sim)
    assert it.waits.delayed.records >= FIRST + 2
    assert len(it.waits.delayed.first) == FIRST
    assert ", ..." in described([it], {}, {})
    assert "cannot be sent now become dead letters" in _effect(it, Cleanup())
    assert "cannot be sent now are dropped" in _effect(it, EndWithError(5, "No."))


def test_numbers_that_never_arrived_are_listed_up_to_a_limit(sim: Simulation) -> None:
    prefix = stranger(sim)
    records.post(sim, message(prefix, 0, "a"))
    sim.run()
    ask(sim, prefix.conversation_id, prefix.reply_key, Cleanup())
    records.post(sim, message(prefix, 3 + MISSING, "z"))
    sim.run()
    it = only(sim)
    assert it.missing == tuple(range(1, MISSING + 1))
    assert it.closed is not None
    assert it.closed.told, "since its message was answered"


def test_conditions_select_sides(sim: Simulation) -> None:
    with_all(sim)
    other = records.first_of(sim, records.drawn(sim, 2), "moody", "Echo")
    records.post(sim, message(other, 0, "a"))
    sim.run()
    now = sim.clock.now() + 60_000_000
    found = {it.conversation: it for it in sides(sim)}
    waits, idle = found[records.drawn(sim).bytes], found[other.conversation_id]

    def selected(**wanted: Any) -> list[Side]:
        return [it for it in (waits, idle) if Selector(**wanted).matches(it, now)]

    assert selected() == selected(contract="Echo") == selected(peer="stranger") == [waits, idle]
    assert selected(pending=True) == [waits]
    assert selected(state=State.CONVERSING, older_than=timedelta(seconds=59)) == [waits, idle]
    assert (
        selected(older_than=HOUR) == selected(contract="E") == selected(peer="x") == selected(state=State.ERROR) == []
    )
    ask(sim, other.conversation_id, other.reply_key, Cleanup())
    idle = next(it for it in sides(sim) if it.conversation == other.conversation_id)
    assert selected() == [waits]
    assert selected(closed=True) == [waits, idle]
    assert selected(state=State.CLOSED) == [idle]


def test_a_row_that_cannot_be_read_is_left_out_with_a_warning(
    sim: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    with_all(sim)
    (table,) = state_of(sim.broker, "moody")
    own = only(sim).identity
    bad = {
        rows.ENDPOINT + b"short": b"none", rows.ENDPOINT + b"x" * 17: b"none", rows.WAITING + bytes(8): b"none",
        rows.numbered(rows.HELD, own, 9): b"none",
    }  # fmt: skip
    with caplog.at_level(logging.WARNING):
        (it,) = sides_in(table | bad, (sim.broker.namespace, "moody", 0))
    assert it.waits.held.records == 2
    assert "4 records are not understood and left out" in caplog.text


def test_an_effect_says_what_is_lost_before_it_happens(sim: Simulation) -> None:
    with_all(sim)
    it = only(sim)
    assert (_letters(it, End()), _letters(it, EndWithError(5, "No.")), _letters(it, Cleanup())) == (2, 2, 4)
    assert (
        "stranger gets an END after the messages that were sent; 2 messages of stranger become open letters"
        in _effect(it, End())
    )
    assert "with error 5; stranger gets the error" in _effect(it, EndWithError(5, "No."))
    assert "stranger is told nothing" in _effect(it, Cleanup())
    for wrong in (EndWithError(0, "No."), EndWithError(5, "")):
        with pytest.raises(LocalError):
            check(it, wrong)


def test_a_resend_says_why_it_is_not_possible(sim: Simulation) -> None:
    dialog = sim.peer("web").begin_dialog("moody", ECHO)
    dialog.send(Say(text="a"))
    sim.run()
    ((mine,), (other,)) = sides(sim, "web"), sides(sim)
    broken = replace(mine, state=State.ERROR, code=-8489, acknowledged=0)
    check(broken, Resend())
    for side, why in (
        (other, "began as the target"),
        (mine, "not broken"),
        (replace(broken, code=-8490), "codes -8490"),
        (replace(broken, code=7), "after error 7"),
        (replace(broken, acknowledged=broken.sent), "acknowledged everything"),
    ):
        with pytest.raises(DialogEnded, match=why):
            check(side, Resend())
    assert "ask moody what it has accepted" in _effect(broken, Resend())
    assert "the rest of 1 message without acknowledgement goes to a new dialog" in _effect(broken, Resend())


def test_an_operator_names_a_side_only_if_both_are_open(sim: Simulation) -> None:
    dialog = sim.peer("web").begin_dialog("moody", ECHO)
    dialog.send(Say(text="a"))
    sim.run()
    both = [*sides(sim, "web"), *sides(sim)]
    with pytest.raises(typer.BadParameter, match="both sides are open"):
        chosen(both, "", "")
    assert chosen(both, "moody", "") is chosen(both, "", "target") is both[1]
    with pytest.raises(LookupError, match="no such side"):
        chosen(both, "moody", "initiator")
    with pytest.raises(typer.BadParameter):
        chosen(both, "", "left")
    ask(sim, both[1].conversation, both[1].key, Cleanup())
    now = [*sides(sim, "web"), *sides(sim)]
    assert chosen(now, "", "").service == "web", "its other side is closed"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("cleanup", ID, "--reason", "r"), "--yes"),
        (("cleanup", ID, "--yes"), "--reason"),
        (("resend", ID), "--reason"),
        (("end", ID, "--reason", "r", "--error", "5"), "--description"),
        (("end", ID, "--reason", "r", "--description", "No."), "--error"),
        (("list", "a", "--service", "b"), "once"),
        (("list", "--older-than", "old"), "--older-than"),
    ],
)
def test_a_command_says_what_is_missing(arguments: tuple[str, ...], told: str) -> None:
    done = CliRunner().invoke(app, ["dialogs", *arguments, "--json", "--bootstrap", "127.0.0.1:1"])
    assert done.exit_code == 2
    assert told in json.loads(done.stdout)["error"]


@pytest.mark.parametrize("text", ["", "nonsense", "\x1b[31m"])
def test_what_is_no_id_is_a_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        id_of(text)


def test_a_state_is_named_as_in_the_protocol() -> None:
    assert _state("disconnected outbound") is _state("DISCONNECTED_OUTBOUND") is State.DISCONNECTED_OUTBOUND
    assert _state("") is None
    with pytest.raises(typer.BadParameter, match="conversing"):
        _state("odd")


def test_a_peer_on_another_cluster_is_told_with_the_way_to_see_it(sim: Simulation) -> None:
    with_all(sim)
    it = replace(only(sim), peer="credit")
    assert "other side    credit lives on cluster emea: --cluster emea shows it" in described(
        [it], {}, {"credit": "emea"}
    )
    assert "other side    'credit' is not in this namespace" in described([it], {}, {"loans": "emea"})
