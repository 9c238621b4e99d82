"""Timers with names: each fires once with its name, is set anew and cancelled by its name, and does not outlive its side of the dialog."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from conversations import Contract, Dialog, LocalError, PeerError, PoisonPolicy, Service, Then
from conversations.protocol import rows
from conversations.protocol.command import Action, Cleanup, End, EndWithError, Operation, SetTimer
from conversations.protocol.limits import TIMERS
from conversations.protocol.registry import Schema
from conversations.schemas import load
from conversations.testing import Simulation
from conversations.testing.peer import PeerDialog
from conversations.testing.reading import state_of
from tests.simulation.support import records
from tests.simulation.support.services import Say
from tests.simulation.test_decisions import HOLD, by_hand
from tests.simulation.test_resend import Target, contract

TALK = Contract("Talk", sent_by_any=[Say], lifetime=timedelta(hours=1))
SECOND = timedelta(seconds=1)
NAMED = Schema(load("endpoint", 4)).head
"""What the row of an endpoint with named timers begins with."""


class Desk:
    """A service whose messages say what its handler does with timers, word by word, and that keeps which timer fired after how many seconds."""

    def __init__(self, *poison: PoisonPolicy, talk: Contract = TALK) -> None:
        self.fired: list[tuple[str, int]] = []
        self.refused: list[str] = []
        self.then: dict[str, str] = {}
        """What the handler of a timer does, by its name."""
        self.broken = ""
        """What ``on_error`` does."""
        self.fails: Callable[[str], bool] = lambda name: False
        self.began: dict[str, Any] = {}
        self.service: Service[dict[str, Any]] = Service("desk", accepts=[talk], poison=poison)

        @self.service.on(Say)
        def said(message: Say, dialog: Dialog) -> None:
            self.began.setdefault(dialog.id, dialog.now)
            self.obey(message.text, dialog)

        @self.service.on_timer()
        def rang(dialog: Dialog) -> None:
            name = dialog.timer
            self.fired.append((name, round((dialog.now - self.began[dialog.id]).total_seconds())))
            self.obey(self.then.get(name, ""), dialog)
            if self.fails(name):
                raise ValueError(name)

        @self.service.on_error()
        def broken(error: PeerError, dialog: Dialog) -> None:
            self.obey(self.broken, dialog)

    def obey(self, text: str, dialog: Dialog) -> None:
        for word in text.split():
            verb, _, rest = word.partition(":")
            name, _, seconds = rest.partition("=")
            try:
                if verb == "set":
                    dialog.set_timer(int(seconds) * SECOND, name=name)
                elif verb == "cancel":
                    dialog.cancel_timer(name=name)
                elif verb == "fail":
                    raise ValueError(word)
                elif verb == "error":
                    dialog.end_with_error(7, "enough")
                else:
                    dialog.end()
            except LocalError as error:
                self.refused.append(f"{word} {error.code}")

    def tell(self, sim: Simulation, text: str) -> PeerDialog:
        dialog = sim.peer("web").begin_dialog("desk", TALK)
        dialog.send(Say(text=text))
        sim.run()
        return dialog


def to_desk(sim: Simulation, dialog: PeerDialog, *operations: Operation) -> None:
    """Let a client or an operator of the desk act on its side."""
    records.command(sim, "desk", UUID(dialog.id), *operations, initiator=False)


def endpoint_rows(sim: Simulation) -> list[bytes]:
    found = (row for table in state_of(sim.broker, "desk") for key, row in table.items() if key[:1] == rows.ENDPOINT)
    return [row for row in found if not rows.is_tombstone(row)]


def retries(sim: Simulation) -> int:
    return len(records.rows_of(sim, "desk", rows.RETRY))


def test_each_timer_fires_once_at_its_time_with_its_name() -> None:
    """The dialog timer has no name. All of them survive the death of the worker, and the row is as before when the last named one has fired."""
    desk = Desk()
    with Simulation(desk.service) as sim:
        desk.tell(sim, "set:=20 set:reminder=10 set:give-up=30 set:same=10")
        (row,) = endpoint_rows(sim)
        assert row.startswith(NAMED)
        for _ in range(4):
            sim.crash("desk")
            sim.advance(10 * SECOND)
        assert desk.fired == [("reminder", 10), ("same", 10), ("", 20), ("give-up", 30)]
        (row,) = endpoint_rows(sim)
        assert not row.startswith(NAMED)
        sim.check_invariants()


def test_a_timer_is_set_anew_and_cancelled_by_its_name_alone() -> None:
    desk = Desk()
    with Simulation(desk.service) as sim:
        dialog = desk.tell(sim, "set:a=10 set:b=10 set:=10 set:c=10")
        dialog.send(Say(text="set:a=15 cancel:b cancel:nobody"))
        sim.run()
        sim.advance(12 * SECOND)
        assert desk.fired == [("", 10), ("c", 10)]
        dialog.send(Say(text="cancel:"))
        sim.advance(10 * SECOND)
        assert desk.fired[2:] == [("a", 15)]
        assert desk.refused == []


@pytest.mark.parametrize("name", ["", "again"])
def test_a_timer_that_its_own_handler_sets_anew_is_kept(name: str) -> None:
    """The handler's success ends the timer that fired, and not the one that the handler has set."""
    desk = Desk()
    desk.then[name] = f"set:{name}=10"
    with Simulation(desk.service) as sim:
        desk.tell(sim, f"set:{name}=10 set:other=25")
        for _ in range(3):
            sim.advance(10 * SECOND)
            sim.crash("desk")
        assert desk.fired == [(name, 10), (name, 20), ("other", 25), (name, 30)]


def test_the_handler_of_one_timer_sets_and_cancels_others_that_are_due_with_it() -> None:
    desk = Desk()
    desk.then["a"] = "cancel:b set:c=50"
    with Simulation(desk.service) as sim:
        desk.tell(sim, "set:a=10 set:b=10 set:c=10 set:d=10")
        sim.advance(20 * SECOND)
        assert desk.fired == [("a", 10), ("d", 10)]
        sim.advance(60 * SECOND)
        assert desk.fired[2:] == [("c", 60)]


def test_a_handler_that_fails_is_tried_again_for_its_timer_alone() -> None:
    """The others fire meanwhile. The wait survives a crash, and a parked handler of one name hides no other."""
    desk = Desk(PoisonPolicy(delays=[20 * SECOND]))
    desk.fails = lambda name: name in ("", "bad") and desk.fired.count((name, 10)) == 1 and (name, 30) not in desk.fired
    with Simulation(desk.service, raise_failures=False) as sim:
        desk.tell(sim, "set:bad=10 set:=10 set:good=10 set:later=15")
        sim.advance(10 * SECOND)
        assert retries(sim) == 2
        sim.crash("desk")
        sim.advance(10 * SECOND)
        assert sorted(desk.fired) == [("", 10), ("bad", 10), ("good", 10), ("later", 15)]
        assert {(it.timer, it.letter.rpartition("target")[2]) for it in sim.parked("desk")} == {
            ("", ""),
            ("bad", "-bad"),
        }
        sim.check_invariants()
        sim.advance(20 * SECOND)
        assert sorted(desk.fired[4:]) == [("", 30), ("bad", 30)]
        assert retries(sim) == 0
        (row,) = endpoint_rows(sim)
        assert not row.startswith(NAMED)
        sim.check_invariants()


def test_a_timer_set_anew_or_cancelled_ends_the_wait_of_its_handler_alone() -> None:
    desk = Desk(HOLD)
    desk.fails = lambda name: desk.fired.count((name, 1)) == 1 and len(desk.fired) <= 3
    with Simulation(desk.service, raise_failures=False) as sim:
        dialog = desk.tell(sim, "set:a=1 set:b=1 set:c=1")
        sim.advance(2 * SECOND)
        assert retries(sim) == 3
        dialog.send(Say(text="set:a=60 cancel:b"))
        sim.run()
        assert [it.timer for it in sim.parked("desk")] == ["c"]
        sim.advance(2 * timedelta(minutes=1))
        assert len(desk.fired) == 4
        assert desk.fired[3][0] == "a"


@pytest.mark.parametrize("action", [Action.RETRY, Action.SKIP])
def test_an_operator_decides_about_the_failed_handler_of_one_timer(action: Action) -> None:
    desk = Desk(HOLD)
    desk.fails = lambda name: len(desk.fired) <= 2
    with Simulation(desk.service, raise_failures=False) as sim:
        desk.tell(sim, "set:a=1 set:b=1")
        sim.advance(SECOND)
        sim.crash("desk")
        found = {it.timer: it for it in sim.parked("desk")}
        assert found.keys() == {"a", "b"}
        sim.decide(found["b"], by_hand(action))
        sim.advance(SECOND)
        assert [it.timer for it in sim.parked("desk")] == ["a"]
        assert [name for name, _ in desk.fired[2:]] == (["b"] if action is Action.RETRY else [])
        sim.check_invariants()


ENDS: list[Callable[[Simulation, PeerDialog], object]] = [
    lambda _, dialog: dialog.send(Say(text="end")),
    lambda _, dialog: dialog.send(Say(text="error")),
    lambda _, dialog: dialog.end(),
    lambda _, dialog: dialog.end_with_error(7, "enough"),
    lambda sim, _: sim.advance(timedelta(hours=2)),
]


@pytest.mark.parametrize("failed", [False, True], ids=["set", "failed"])
@pytest.mark.parametrize("end", ENDS, ids=["ended", "error", "peer-ended", "peer-error", "lifetime"])
def test_no_named_timer_outlives_its_side_of_the_dialog(
    end: Callable[[Simulation, PeerDialog], object], failed: bool
) -> None:
    """Neither its time nor the wait of its handler is left, and no handler is called."""
    desk = Desk(HOLD)
    desk.fails = lambda _: True
    with Simulation(desk.service, raise_failures=False) as sim:
        dialog = desk.tell(sim, "set:a=1 set:b=1" if failed else "set:a=3000 set:b=3000")
        sim.advance(2 * SECOND)
        assert retries(sim) == (2 if failed else 0)
        del desk.fired[:]
        if end is ENDS[-1] and not failed:
            dialog.send(Say(text="cancel:a cancel:b set:c=3590"))
            sim.run()
            sim.crash("desk")
            sim.clock.advance(2 * 3_600_000_000)  # the lifetime is over before the next worker looks
            sim.run()
        else:
            end(sim, dialog)
        sim.run()
        sim.crash("desk")
        sim.advance(timedelta(hours=1))
        assert desk.fired == []
        assert endpoint_rows(sim) == []
        assert retries(sim) == 0
        sim.check_invariants()


@pytest.mark.parametrize("word", ["end", "error"])
def test_a_side_that_has_ended_and_waits_for_its_peer_fires_no_timer(word: str) -> None:
    """Its END or ERROR is not acknowledged yet, so its row is that of an endpoint: without timers."""
    desk = Desk()
    with Simulation(desk.service) as sim:
        dialog = desk.tell(sim, "set:a=10 set:b=10")
        sim.broker.stop = records.is_to("web", 0)
        dialog.send(Say(text=word))
        sim.run()
        (row,) = endpoint_rows(sim)
        assert not row.startswith(NAMED)
        sim.crash("desk")
        sim.advance(20 * SECOND)
        assert desk.fired == []
        sim.broker.resume()
        sim.run()
        assert endpoint_rows(sim) == []


def test_a_broken_dialog_keeps_no_timer_from_before() -> None:
    """``on_error`` fails, so the side stays, and what the handler has set is dropped with its other requests."""
    desk = Desk(HOLD)
    desk.broken = "set:new=5 fail"
    with Simulation(desk.service, raise_failures=False) as sim:
        dialog = desk.tell(sim, "set:a=10 set:b=10")
        dialog.end_with_error(7, "enough")
        sim.advance(20 * SECOND)
        assert desk.fired == []
        (row,) = endpoint_rows(sim)
        assert not row.startswith(NAMED)


def test_an_operator_closes_a_side_with_its_timers() -> None:
    desk = Desk(HOLD)
    desk.fails = lambda _: True
    with Simulation(desk.service, raise_failures=False) as sim:
        dialog = desk.tell(sim, "set:a=1 set:b=3000")
        sim.advance(SECOND)
        to_desk(sim, dialog, Cleanup())
        sim.run()
        assert (endpoint_rows(sim), retries(sim)) == ([], 0)
        sim.advance(timedelta(hours=1))
        assert len(desk.fired) == 1


@pytest.mark.parametrize("operation", [End(), EndWithError(7, "enough")])
def test_no_timer_is_set_on_a_side_that_is_over(operation: Operation) -> None:
    """8458, in a handler and in a command."""
    desk = Desk()
    with Simulation(desk.service) as sim:
        dialog = desk.tell(sim, "end set:a=1 set:=1")
        assert desk.refused == ["set:a=1 8458", "set:=1 8458"]
        other = desk.tell(sim, "")
        to_desk(sim, other, operation, SetTimer(1_000_000, "a"))
        sim.run()
        (letter,) = [it for it in sim.dead_letters("desk") if it.reason == "command-refused"]
        assert letter.code == 8458
        assert dialog.ended
        assert not other.ended


def test_sixteen_timers_have_names_and_no_more() -> None:
    """A handler and a command are refused the seventeenth. A timer that is cancelled, set anew, or whose handler runs makes room."""
    desk = Desk()
    full = " ".join(f"set:t{n}=100" for n in range(TIMERS))
    with Simulation(desk.service) as sim:
        dialog = desk.tell(sim, f"{full} set:=100 set:x=5 set:t3=90 cancel:t4 set:x=5 set:y=5")
        assert desk.refused == ["set:x=5 0", "set:y=5 0"]
        desk.then["x"] = "set:z=200 set:w=1"
        sim.advance(6 * SECOND)
        assert desk.refused[2:] == ["set:w=1 0"]
        to_desk(sim, dialog, SetTimer(1, "w"))
        to_desk(sim, dialog, SetTimer(1, "not a name"))
        to_desk(sim, dialog, SetTimer(-1, "not set"))
        sim.run()
        assert [it.reason for it in sim.dead_letters("desk")] == ["command-refused"] * 3
        to_desk(sim, dialog, SetTimer(-1, "z"), SetTimer(1_000_000, "w"))
        sim.advance(2 * SECOND)
        assert [name for name, _ in desk.fired] == ["x", "w"]
        sim.advance(timedelta(minutes=5))
        assert len(desk.fired) == 2 + (TIMERS - 1) + 1
        assert len(set(desk.fired)) == len(desk.fired)


def test_a_client_sets_and_cancels_timers_by_name() -> None:
    """The peer is a client of its own side: its requests are commands."""
    with Simulation(Target(TALK).service) as sim:
        dialog = sim.peer("web").begin_dialog("target", TALK)
        dialog.send(Say(text="hello"))
        for name in ("a", "b", ""):
            dialog.set_timer(5 * SECOND, name=name)
        dialog.cancel_timer(name="b")
        sim.crash("web")
        sim.advance(6 * SECOND)
        assert dialog.timers == 2


def test_a_renewed_dialog_keeps_its_timers() -> None:
    """The target ends the dialog after two minutes, and a new one carries on: the timers of the old one fire on the new one."""
    talk, short = contract(lifetime=timedelta(minutes=5)), contract(lifetime=timedelta(minutes=2))
    begun: list[str] = []
    fired: list[tuple[str, bool]] = []
    inlet = Contract("Inlet", sent_by_initiator=[Say], lifetime=None)
    source: Service[dict[str, Any]] = Service("source", accepts=[inlet], initiates=[talk], ignores=[Say])

    @source.on(Say, contract=inlet)
    def say(message: Say, dialog: Dialog) -> None:
        speakers = dialog.group.dialogs(talk)
        speaker = speakers[0] if speakers else dialog.group.begin_dialog("target", talk)
        speaker.send(message)
        if not speakers:
            begun.append(speaker.id)
            speaker.set_timer(timedelta(seconds=200), name="late")
            speaker.set_timer(timedelta(seconds=210))
            speaker.set_timer(timedelta(seconds=60), name="early")

    @source.on_timer()
    def rang(dialog: Dialog) -> None:
        fired.append((dialog.timer, dialog.id in begun))

    target = Target(short)
    with Simulation(target.service, source) as sim:
        web = sim.peer("web").begin_dialog("source", inlet)
        web.send(Say(text="a"))
        sim.advance(timedelta(seconds=10))
        sim.broker.stop = records.is_to("target", 1)
        web.send(Say(text="b"))
        sim.advance(timedelta(seconds=130))
        sim.broker.resume()
        sim.run()
        sim.crash("source")
        sim.advance(timedelta(seconds=100))
        assert target.handled == ["a", "b"]
        assert fired == [("early", True), ("late", False), ("", False)]
        sim.check_invariants()


def test_only_a_handler_of_timers_knows_which_timer_fired() -> None:
    seen: list[str] = []
    service: Service[dict[str, Any]] = Service("desk", accepts=[TALK])

    @service.on(Say)
    def said(message: Say, dialog: Dialog) -> None:
        with pytest.raises(LocalError, match="on_timer"):
            _ = dialog.timer
        for name in ("two words", "a" * 65, "a.b", 7, None):
            with pytest.raises(LocalError, match="name of a timer"):
                dialog.set_timer(SECOND, name=name)  # type: ignore[arg-type]  # what somebody in a hurry writes
            with pytest.raises(LocalError, match="name of a timer"):
                dialog.cancel_timer(name=name)  # type: ignore[arg-type]  # the same
        dialog.set_timer(SECOND, name="a" * 64)

    @service.on_timer()
    def rang(dialog: Dialog) -> None:
        seen.append(dialog.timer)
        seen.append(dialog.group.opened_by.timer)

    with Simulation(service) as sim:
        sim.peer("web").begin_dialog("desk", TALK).send(Say(text="x"))
        sim.advance(SECOND)
        assert seen == ["a" * 64] * 2


def test_a_release_without_the_handler_of_timers_lets_go_of_a_failed_named_timer() -> None:
    desk = Desk(PoisonPolicy(delays=[20 * SECOND]))
    desk.fails = lambda _: True
    with Simulation(desk.service, raise_failures=False) as sim:
        desk.tell(sim, "set:a=1 set:b=300")
        sim.advance(SECOND)
        assert retries(sim) == 1
        later: Service[dict[str, Any]] = Service("desk", accepts=[TALK], ignores=[Say])
        sim.deploy(later)
        sim.advance(timedelta(minutes=10))
        assert retries(sim) == 0
        (row,) = endpoint_rows(sim)
        assert not row.startswith(NAMED)
        sim.check_invariants()


def test_a_view_tells_of_the_failed_handler_of_a_named_timer() -> None:
    handles: list[str] = []
    service: Service[dict[str, Any]] = Service("desk", accepts=[TALK], poison=[HOLD])

    @service.on(Say)
    def said(message: Say, dialog: Dialog) -> None:
        handles.append(dialog.handle)
        dialog.set_timer(SECOND, name="a")

    @service.on_timer()
    def rang(dialog: Dialog) -> None:
        raise ValueError(dialog.timer)

    with Simulation(service, raise_failures=False) as sim:
        sim.peer("web").begin_dialog("desk", TALK).send(Say(text="x"))
        sim.advance(SECOND)
        waits = sim.reader("desk").dialog(handles[0]).waiting_for
        assert waits == "an operator to decide about the handler on_timer: ValueError: a"


def test_a_policy_that_skips_a_failed_timer_ends_this_timer_alone() -> None:
    desk = Desk(PoisonPolicy(delays=[], then=Then.SKIP))
    desk.fails = lambda name: name == "a"
    with Simulation(desk.service, raise_failures=False) as sim:
        desk.tell(sim, "set:a=1 set:b=5")
        sim.advance(10 * SECOND)
        assert desk.fired == [("a", 1), ("b", 5)]
        assert retries(sim) == 0
