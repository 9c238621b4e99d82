"""Laws of skipped messages: the sender's handler learns each number one time, and its failures follow the policy."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from conversations import Contract, DeclarationError, Dialog, PeerError, PoisonPolicy, Service, Then
from conversations.ports import Out
from conversations.protocol.command import Failed
from conversations.protocol.envelope import decode
from conversations.protocol.topics import QUEUE, service_topic
from conversations.testing import Faults, Simulation
from conversations.testing.peer import PeerDialog
from tests.simulation.support.services import Say


class Go(BaseModel):
    texts: list[str]


class Noted(BaseModel):
    numbers: list[int] = []
    error: int = 0


GO = Contract("Go", sent_by_initiator=[Go], lifetime=None)
TALK = Contract("Talk", sent_by_any=[Say], lifetime=None)
LATER = timedelta(minutes=5)


def picky() -> Service[dict[str, Any]]:
    """A service that skips each message with the text "bad"."""
    service = Service("picky", accepts=[TALK], poison=[PoisonPolicy(delays=[], then=Then.SKIP)])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        if body.text == "bad":
            raise ValueError(body.text)

    return service


def maker(*policies: PoisonPolicy, fails: int = 0, handles: bool = True) -> Service[Noted]:
    """A service that sends texts, and notes in its state which were skipped. This handler fails ``fails`` times."""
    service = Service("maker", accepts=[GO], initiates=[TALK], state=Noted, ignores=[Say], poison=policies)
    runs: list[tuple[int, ...]] = []

    @service.on(Go)
    def go(body: Go, dialog: Dialog[Noted]) -> None:
        talk = next(iter(dialog.group.dialogs(TALK)), None) or dialog.group.begin_dialog("picky", TALK)
        for text in body.texts:
            talk.send(Say(text=text))

    if not handles:
        return service

    @service.on_skipped(TALK)
    def skipped(numbers: tuple[int, ...], dialog: Dialog[Noted]) -> None:
        dialog.group.state.numbers.extend(numbers)
        runs.append(numbers)
        if len(runs) <= fails:
            raise ValueError("not yet")

    @service.on_error(TALK)
    def broken(error: PeerError, dialog: Dialog[Noted]) -> None:
        dialog.group.state.error = error.code

    return service


def began(sim: Simulation, *texts: str) -> PeerDialog:
    dialog = sim.peer("web").begin_dialog("maker", GO)
    dialog.send(Go(texts=list(texts)))
    return dialog


def noted(sim: Simulation, dialog: PeerDialog) -> Noted:
    found = sim.state("maker", dialog.id, begun_by="web")
    return Noted() if found is None else found.value


def test_the_sender_learns_the_numbers_of_skipped_messages() -> None:
    with Simulation(maker(), picky(), raise_failures=False) as sim:
        dialog = began(sim, "fine", "bad", "fine", "bad")
        sim.run()
        assert noted(sim, dialog).numbers == [1, 3]
        sim.check_invariants()


def test_a_message_that_an_operator_skips_is_told_as_well() -> None:
    holding = Service("picky", accepts=[TALK], poison=[PoisonPolicy(delays=[], then=Then.HOLD)])

    @holding.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        raise ValueError(body.text)

    with Simulation(maker(), holding, raise_failures=False) as sim:
        dialog = began(sim, "bad")
        sim.run()
        assert noted(sim, dialog).numbers == []
        sim.decide(sim.parked("picky")[0], "skip")
        sim.run()
        assert noted(sim, dialog).numbers == [0]


def test_a_copy_of_the_notice_changes_nothing() -> None:
    """The notice has no number of its own: a row keeps the copy from calling the handler again."""
    with Simulation(maker(), picky(), raise_failures=False) as sim:
        dialog = began(sim, "bad")
        sim.run()
        topic = service_topic(sim.broker.namespace, "maker", QUEUE)
        for number, records in enumerate(sim.broker.topics[topic]):
            for record in list(records):
                value = record.value() or b""
                if record.visible and decode(value).skipped:
                    sim.broker.append(Out(topic, number, record.key(), value, record.headers()))
        sim.run()
        assert noted(sim, dialog).numbers == [0]
        assert sim.worker("maker").counts.duplicates == 1


@pytest.mark.parametrize("seed", range(25))
def test_each_number_is_told_one_time_whatever_the_wire_does(seed: int) -> None:
    faults = Faults(seed=seed, duplicate=0.3, reorder=0.3, crash=0.15)
    with Simulation(maker(), picky(), faults=faults, raise_failures=False, workers=2) as sim:
        dialogs = [began(sim, "bad", "fine", "bad", "bad") for _ in range(3)]
        sim.run()
        sim.advance(LATER)
        assert [sorted(noted(sim, dialog).numbers) for dialog in dialogs] == [[0, 2, 3]] * 3
        sim.check_invariants()


@pytest.mark.parametrize("crashes", [False, True])
def test_a_failed_handler_is_called_again_and_gets_what_was_skipped_meanwhile(crashes: bool) -> None:
    policy = PoisonPolicy(delays=[LATER], then=Then.HOLD)
    with Simulation(maker(policy, fails=1), picky(), raise_failures=False) as sim:
        dialog = began(sim, "bad", "fine")
        sim.run()
        (waits,) = sim.parked("maker")
        assert (waits.handler, waits.what, waits.number, waits.attempts) == (Failed.SKIPPED, "SKIPPED", -1, 1)
        assert noted(sim, dialog).numbers == []
        dialog.send(Go(texts=["bad"]))
        sim.run()
        assert noted(sim, dialog).numbers == [], "the new number waits with the first one"
        if crashes:
            sim.crash("maker")
        sim.advance(LATER)
        assert noted(sim, dialog).numbers == [0, 2]
        assert sim.parked("maker") == []
        sim.check_invariants()


@pytest.mark.parametrize(("action", "expected"), [("retry", [0]), ("skip", [])])
def test_an_operator_decides_about_a_handler_that_is_held(action: str, expected: list[int]) -> None:
    policy = PoisonPolicy(delays=[], then=Then.HOLD)
    with Simulation(maker(policy, fails=1), picky(), raise_failures=False) as sim:
        dialog = began(sim, "bad")
        sim.run()
        sim.decide(sim.parked("maker")[0], action)
        sim.run()
        assert noted(sim, dialog).numbers == expected
        assert sim.parked("maker") == []
        dialog.send(Go(texts=["bad"]))
        sim.run()
        assert noted(sim, dialog).numbers == [*expected, 1], "the dialog goes on, and so does its handler"


def test_a_policy_may_end_the_dialog_of_a_failed_handler() -> None:
    policy = PoisonPolicy(delays=[], then=Then.END_DIALOG, code=1409)
    with Simulation(maker(policy, fails=1), picky(), raise_failures=False) as sim:
        dialog = began(sim, "bad")
        sim.run()
        assert noted(sim, dialog) == Noted()
        assert sim.parked("maker") == []
        assert len(sim.open_dialogs()) == 1, "only the dialog with web is open"
        sim.check_invariants()


def test_a_queue_that_is_off_keeps_the_numbers_until_it_is_on() -> None:
    with Simulation(maker(), picky(), raise_failures=False) as sim:
        dialog = began(sim, "fine")
        sim.run()
        holds = sim.worker("picky")
        assert holds.counts.handled == 1
        sim.turn_queue("picky", on=False)
        sim.run()
        dialog.send(Go(texts=["bad"]))
        sim.run()
        sim.turn_queue("maker", on=False)
        sim.run()
        sim.turn_queue("picky", on=True)
        sim.run()
        assert noted(sim, dialog).numbers == []
        sim.crash("maker")
        sim.turn_queue("maker", on=True)
        sim.run()
        assert noted(sim, dialog).numbers == [1]


def test_without_a_handler_a_skipped_message_is_an_event_only() -> None:
    with Simulation(maker(handles=False), picky(), raise_failures=False) as sim:
        dialog = began(sim, "bad", "fine")
        sim.run()
        assert noted(sim, dialog) == Noted()
        assert sim.parked("maker") == []
        sim.check_invariants()


def test_a_service_has_one_such_handler_for_a_contract() -> None:
    service = maker()
    with pytest.raises(DeclarationError, match="on_skipped for Talk already"):

        @service.on_skipped(TALK)
        def again(numbers: tuple[int, ...], dialog: Dialog[Noted]) -> None: ...
