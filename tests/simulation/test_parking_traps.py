"""Where parking meets gaps, ends, errors, timers and new releases; each of these once lost something, or kept it for ever."""

import json
from datetime import timedelta
from typing import Any

import pytest

from conversations import Dialog, Limits, PeerError, PoisonPolicy, RetryLater, Service, Then, WorkerSettings
from conversations.protocol.command import Action, Command, SetTimer, encode_command, topic_for
from conversations.protocol.envelope import Envelope, Kind, Prefix
from conversations.protocol.parked import Parked
from conversations.protocol.topics import COMMANDS
from conversations.testing import Simulation
from conversations.worker.residents import ENDPOINT_BYTES
from tests.simulation.support import records
from tests.simulation.support.services import ECHO, Say
from tests.simulation.test_decisions import HOLD, by_hand
from tests.simulation.test_parking import SECOND, Moody

HOUR = timedelta(hours=1)
FIVE = [20 * SECOND] * 5


class Prone:
    """A service that sets a timer when told "set", and whose handlers fail as often as they are told to."""

    def __init__(self, *poison: PoisonPolicy, timer: int = 0, error: int = 0, on_timer: bool = True) -> None:
        self.got: list[str] = []
        self.rings = self.errors = 0
        self.service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO], poison=poison)

        @self.service.on(Say)
        def say(body: Say, dialog: Dialog) -> None:
            self.got.append(body.text)
            if body.text == "set":
                dialog.set_timer(SECOND)

        @self.service.on_error()
        def broken(why: PeerError, dialog: Dialog) -> None:
            self.errors += 1
            if self.errors <= error:
                raise ValueError("on_error")

        if on_timer:

            @self.service.on_timer()
            def ring(dialog: Dialog) -> None:
                self.rings += 1
                if self.rings <= timer:
                    raise ValueError("on_timer")


def message(prefix: Prefix, number: int, text: str) -> Envelope:
    return records.message(prefix, number, "Say", json.dumps({"text": text}).encode())


def stranger(sim: Simulation) -> Prefix:
    """A peer that sends what it likes, in any order."""
    sim.peer("stranger")
    sim.run()
    return records.first_of(sim, records.drawn(sim), "moody", "Echo")


def outcomes(sim: Simulation) -> list[tuple[int, str]]:
    return [(letter.sequence, letter.reason) for letter in sim.dead_letters("moody")]


def only(sim: Simulation) -> Parked:
    (it,) = sim.parked("moody")
    return it


def test_a_timer_that_waits_survives_messages_of_its_dialog() -> None:
    prone = Prone(PoisonPolicy(delays=[60 * SECOND]), timer=1)
    with Simulation(prone.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        dialog.send(Say(text="set"))
        sim.advance(2 * SECOND)
        dialog.send(Say(text="other"))
        sim.advance(HOUR)
        assert prone.rings == 2
        sim.check_invariants()


def test_a_timer_that_is_skipped_loses_nothing_that_is_held_behind_a_gap() -> None:
    prone = Prone(PoisonPolicy(delays=[], then=Then.SKIP), timer=9)
    with Simulation(prone.service, raise_failures=False, partitions=1) as sim:
        prefix = stranger(sim)
        for number, text in ((0, "set"), (2, "c")):
            records.post(sim, message(prefix, number, text))
            sim.run()
        sim.advance(1.5 * SECOND)
        for number, text in ((1, "b"), (3, "d")):
            records.post(sim, message(prefix, number, text))
            sim.run()
        assert prone.got == ["set", "b", "c", "d"]
        sim.advance(HOUR)
        assert outcomes(sim) == []


def test_a_release_without_the_handler_of_a_timer_that_waits_lets_the_dialog_go_on() -> None:
    prone = Prone(PoisonPolicy(delays=[20 * SECOND]), timer=9)
    with Simulation(prone.service, raise_failures=False, partitions=1) as sim:
        prefix = stranger(sim)
        records.post(sim, message(prefix, 0, "set"))
        sim.advance(2 * SECOND)
        later = Prone(on_timer=False)
        sim.deploy(later.service)
        sim.advance(17 * SECOND)
        records.post(sim, message(prefix, 2, "c"))
        sim.advance(4 * SECOND)
        records.post(sim, message(prefix, 1, "b"))
        sim.advance(10 * SECOND)
        assert later.got == ["b", "c"]
        assert sim.parked("moody") == []


def test_an_end_that_came_before_its_predecessor_waits_as_well() -> None:
    moody = Moody(PoisonPolicy(delays=[3600 * SECOND]))
    with Simulation(moody.service, raise_failures=False, partitions=1) as sim:
        prefix = stranger(sim)
        records.post(sim, message(prefix, 0, "a 1"))
        sim.run()
        records.post(sim, Envelope(prefix, Kind.END, 2, -1))
        sim.run()
        records.post(sim, message(prefix, 1, "b"))
        sim.advance(50 * 60 * SECOND)
        assert (only(sim).behind, moody.errors) == (2, [])
        sim.crash("moody")
        sim.advance(HOUR)
        assert moody.handled == ["a", "b", "END"]


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("number", [-1, 1])
@pytest.mark.parametrize("action", [Action.RETRY, Action.SKIP, Action.END])
def test_an_error_whose_handler_is_held_waits_for_the_decision_and_then_is_over(
    action: Action, number: int, crash: bool
) -> None:
    prone = Prone(HOLD, error=1)
    few = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), limits=Limits(cached_bytes=4 * ENDPOINT_BYTES))
    with Simulation(prone.service, raise_failures=False, partitions=1, settings=few) as sim:
        prefix = stranger(sim)
        records.post(sim, message(prefix, 0, "a"))
        records.post(sim, Envelope(prefix, Kind.ERROR, number, -1, code=7, description="broken"))
        sim.run()
        if crash:
            sim.crash("moody")
        for _ in range(20):  # it leaves the memory, and comes back
            sim.peer("web").begin_dialog("moody", ECHO).send(Say(text="z"))
        sim.advance(timedelta(minutes=5))
        assert (prone.errors, only(sim).what) == (1, "ERROR")
        sim.decide(only(sim), by_hand(action, code=5, description="enough"))
        sim.run()
        assert prone.errors == (2 if action is Action.RETRY else 1)
        assert sim.parked("moody") == []
        assert prefix.reply_key not in sim.open_dialogs()


def test_a_timer_set_or_cancelled_does_not_stop_an_error_from_being_handled() -> None:
    prone = Prone(PoisonPolicy(delays=[10 * SECOND] * 5), error=1)
    with Simulation(prone.service, raise_failures=False, partitions=1) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO, lifetime=60 * SECOND)
        dialog.send(Say(text="a"))
        sim.advance(61 * SECOND)
        command(sim, only(sim), SetTimer(-1))
        sim.advance(HOUR)
        assert prone.errors == 2
        assert sim.open_dialogs() == []


def command(sim: Simulation, it: Parked, *operations: Any) -> None:
    own = bytes.fromhex(it.conversation.replace("-", ""))
    asked = Command(b"x" * 16, own, it.initiator, it.key, "", "me", sim.clock.now(), operations)
    sim.broker.append_keyed("moody", topic_for(asked), it.key.encode(), encode_command(asked))


def test_a_head_whose_dialog_broke_before_its_turn_is_kept_once() -> None:
    service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO], poison=[PoisonPolicy(delays=[10 * SECOND])])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        raise ValueError("say")

    @service.on_error()
    def broken(why: PeerError, dialog: Dialog) -> None:
        raise ValueError("on_error")

    with Simulation(service, raise_failures=False, partitions=1) as sim:
        prefix = stranger(sim)
        records.post(sim, message(prefix, 0, "a"))
        sim.run()
        sim.clock.advance(10_000_000)
        records.post(sim, Envelope(prefix, Kind.ERROR, 1, -1, code=7, description="x"))
        sim.run()
        assert outcomes(sim) == [(0, "parked-at-end")]


def test_an_end_that_is_parked_when_this_side_gives_up_is_heard() -> None:
    """Its peer answers nothing more: nobody else would tell this side."""
    moody = Moody(PoisonPolicy(delays=[60 * SECOND], then=Then.END_DIALOG))
    with Simulation(moody.service, raise_failures=False) as sim:
        sim.broker.create_service("stranger", 1)
        prefix = records.first_of(sim, records.drawn(sim), "moody", "Echo")
        records.post(sim, message(prefix, 0, "b 9"))
        records.post(sim, Envelope(prefix, Kind.END, 1, -1))
        sim.run()
        assert len(sim.parked("moody")) == 1
        sim.advance(120 * SECOND)
        assert sim.open_dialogs() == []
        sim.check_invariants()


def test_a_timer_of_a_dialog_that_broke_in_the_same_moment_is_not_called() -> None:
    prone = Prone(PoisonPolicy(delays=FIVE), timer=9)
    with Simulation(prone.service, raise_failures=False, partitions=1) as sim:
        prefix = stranger(sim)
        for number, text in ((0, "a"), (2, "c")):
            records.post(sim, message(prefix, number, text))
            sim.run()
        while sum(it.kind is Kind.RESEND for it in records.queued(sim, "stranger")) < 3:
            sim.advance(SECOND)
        own = prefix.conversation_id
        value = encode_command(
            Command(b"x" * 16, own, False, prefix.reply_key, "", "me", sim.clock.now(), (SetTimer(1_000_000),))
        )
        sim.broker.append_keyed("moody", COMMANDS, prefix.reply_key.encode(), value)
        sim.run()
        sim.clock.advance(3_600_000_000)
        sim.run()
        assert (prone.rings, prone.errors) == (0, 1)
        assert sim.parked("moody") == []


def test_a_handler_that_asks_to_be_called_again_at_once_lets_time_pass() -> None:
    asked: list[int] = []
    service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        asked.append(1)
        raise RetryLater(timedelta(0))

    with Simulation(service, raise_failures=False) as sim:
        sim.peer("web").begin_dialog("moody", ECHO).send(Say(text="a"))
        sim.advance(SECOND)
        assert len(asked) == 11


@pytest.mark.parametrize("skipped", [tuple(range(101)), (-1,)])
def test_an_acknowledgement_that_tells_of_too_much_is_set_aside(skipped: tuple[int, ...]) -> None:
    prone = Prone()
    with Simulation(prone.service, partitions=1) as sim:
        prefix = stranger(sim)
        records.post(sim, message(prefix, 0, "a"))
        records.post(sim, Envelope(prefix, Kind.ACK, -1, -1, -1, skipped))
        sim.run()
        assert sim.worker("moody").counts.set_aside == 1


def test_one_dialog_with_much_behind_its_message_keeps_no_other_waiting() -> None:
    moody = Moody(HOLD)
    little = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), limits=Limits(parked_bytes=3_000))
    with Simulation(moody.service, raise_failures=False, partitions=1, settings=little) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        dialog.send(Say(text="b 9"))
        for _ in range(20):
            dialog.send(Say(text="x" * 200))
        sim.run()
        sim.peer("web").begin_dialog("moody", ECHO).send(Say(text="healthy"))
        sim.run()
        assert moody.handled == ["healthy"]
        assert dialog.error
        # The first was held, then its dialog broke. What was not accepted before comes back to its sender.
        returned = [letter.sequence for letter in sim.dead_letters("web")]
        assert returned
        assert sorted([*(number for number, _ in outcomes(sim)), *returned]) == [0, *range(21)]
        sim.check_invariants()
