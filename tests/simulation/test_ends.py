"""How dialogs end: agreement, errors, lifetimes, refusals, breaches, poison; who is told, and where the bytes are."""

import itertools
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from conversations import Contract, Dialog, MessageType, PeerError, PoisonPolicy, Service
from conversations.protocol.command import Cleanup, Command, encode_command, topic_for
from conversations.protocol.envelope import Kind
from conversations.testing import Simulation
from tests.simulation.support import records, services
from tests.simulation.support.services import COUNTING, ECHO, NOTICES, Add, Grumble, Heard, Say, Total

SILENT = Contract("Silent", sent_by_any=[Say], lifetime=timedelta(minutes=10))


class Anything(BaseModel):
    text: int = 3
    amount: str = "much"
    other: str = ""


def stubborn(contract: Contract, name: str = "stubborn") -> tuple[Service[dict[str, object]], list[int]]:
    """A service that answers nothing, and the codes its dialogs broke with."""
    service = Service(name, accepts=[contract], ignores=["Say", "Heard"])
    codes: list[int] = []

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog) -> None:
        codes.append(error.code)

    return service, codes


# -- agreement ---------------------------------------------------------------------------------------------------


def test_an_end_that_crosses_an_end_closes_both_sides() -> None:
    """Both sides end before they have heard of the other: nobody waits for anybody."""
    with Simulation() as sim:
        web, shop = sim.peer("web"), sim.peer("shop", accepts=[ECHO])
        ours = web.begin_dialog("shop", ECHO)
        ours.send(Say(text="hello"))
        sim.run()
        theirs = shop.dialog()
        theirs.send(Say(text="last"))
        theirs.end()
        ours.end()
        sim.run()
        kinds = {name: [e.kind for e in records.queued(sim, name)] for name in ("web", "shop")}
        assert Kind.END in kinds["web"]
        assert Kind.END in kinds["shop"]
        assert sim.open_dialogs() == []
        sim.check_invariants()


def test_fire_and_forget_delivers_everything_before_the_end() -> None:
    """Send and END in one breath: the receiver has all of it, nothing stays open."""
    with Simulation(services.sink()) as sim:
        dialog = sim.peer("web").begin_dialog("sink", NOTICES)
        for number in range(5):
            dialog.send(Heard(text=str(number)))
        dialog.end()
        sim.run()
        assert [entry.number for entry in sim.broker.ledger.handled] == [0, 1, 2, 3, 4]
        assert sim.open_dialogs() == []
        assert sim.dead_letters("sink") == []


def test_a_dialog_that_was_begun_and_ended_without_a_word_tells_nobody() -> None:
    """Before the first message the other side knows nothing, so there is nothing to tell it."""
    with Simulation(services.echo()) as sim:
        sim.peer("web").begin_dialog("echo", ECHO).end()
        sim.run()
        assert records.queued(sim, "echo") == []
        assert sim.open_dialogs() == []


def test_a_cleanup_tells_nobody_and_nothing_begins_the_dialog_again() -> None:
    """The peer learns with -8462, when it sends; a replay of the first message makes no endpoint and runs no handler."""
    with Simulation(services.echo()) as sim:
        dialog = sim.peer("web").begin_dialog("echo", ECHO)
        dialog.send(Say(text="a"))
        sim.run()
        told = len(records.queued(sim, "web"))
        cleanup = Command(b"c" * 16, UUID(dialog.id).bytes, False, dialog.id, "", "echo", sim.clock.now(), (Cleanup(),))
        sim.broker.append_keyed("echo", topic_for(cleanup), dialog.id.encode(), encode_command(cleanup))
        sim.run()
        records.replay(sim, "echo")
        sim.run()
        assert [entry.number for entry in sim.broker.ledger.handled if entry.service == "echo"] == [0]
        assert [it.kind for it in records.queued(sim, "web")[told:]] == [Kind.ACK], "a repetition is acknowledged again"
        dialog.send(Say(text="b"))
        sim.run()
        assert dialog.error
        assert dialog.error.code == -8462
        assert dialog.received() == [Say(text="a")]
        assert sim.dead_letters("echo") == []
        assert [(letter.sequence, letter.reason) for letter in sim.dead_letters("web")] == [(1, "undeliverable")]
        assert sim.open_dialogs() == []


def test_a_cleanup_keeps_the_bytes_of_what_is_parked_and_of_what_waits_for_its_destination() -> None:
    """Messages accepted from the peer are dead letters, and so are messages that could not be sent to it."""
    service = Service("shaky", accepts=[ECHO], poison=[PoisonPolicy(delays=[])])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        if body.text == "poison":
            raise Grumble
        dialog.send(body)

    with Simulation(service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("shaky", ECHO)
        dialog.send(Say(text="a"))
        sim.run()
        queue = sim.broker.topics.pop("conv.web.queue")
        for text in ("b", "poison", "c"):
            dialog.send(Say(text=text))
        sim.run()
        assert [it.behind for it in sim.parked("shaky")] == [1]
        cleanup = Command(
            b"c" * 16, UUID(dialog.id).bytes, False, dialog.id, "", "shaky", sim.clock.now(), (Cleanup(),)
        )
        sim.broker.append_keyed("shaky", topic_for(cleanup), dialog.id.encode(), encode_command(cleanup))
        sim.run()
        letters = [(letter.sequence, letter.reason) for letter in sim.dead_letters("shaky")]
        parked = [(2, "handler-failed"), (2, "parked-at-end"), (3, "parked-at-end")]
        assert letters == [*parked, (1, "undeliverable")]
        sim.broker.topics["conv.web.queue"] = queue
        sim.advance(timedelta(minutes=2))
        assert dialog.received() == [Say(text="a")]


# -- errors ------------------------------------------------------------------------------------------------------


def test_an_application_error_reaches_the_other_side_with_its_code() -> None:
    """END WITH ERROR: the peer's on_error has code and description, then its side ends too."""
    with Simulation(services.moody()) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        dialog.send(Say(text="error"))
        sim.run()
        assert dialog.error
        assert (dialog.error.code, dialog.error.description) == (7, "offended")
        assert sim.open_dialogs() == []
        sim.check_invariants()


def test_an_error_needs_no_predecessor() -> None:
    """An ERROR is taken across a gap; what was held behind the gap is kept as dead letters."""
    with Simulation() as sim:
        web, shop = sim.peer("web"), sim.peer("shop", accepts=[ECHO])
        ours = web.begin_dialog("shop", ECHO)
        ours.send(Say(text="0"))
        sim.run()
        sim.broker.stop = records.is_to("shop", 1)
        for text in "123":
            ours.send(Say(text=text))
        ours.end_with_error(9, "enough")
        sim.run()
        theirs = shop.dialog()
        assert theirs.received() == [Say(text="0")]
        assert theirs.error
        assert theirs.error.code == 9
        letters = sim.dead_letters("shop")
        assert [(letter.sequence, letter.reason) for letter in letters] == [(2, "held-at-end"), (3, "held-at-end")]
        assert sim.open_dialogs() == []


# -- time ----------------------------------------------------------------------------------------------------------


def test_a_lifetime_ends_on_both_sides_with_8489() -> None:
    """Each side's on_error is called with -8489 when the lifetime is over, without any record travelling."""
    service, codes = stubborn(SILENT)
    with Simulation(service) as sim:
        dialog = sim.peer("web").begin_dialog("stubborn", SILENT)
        dialog.send(Say(text="anybody?"))
        sim.advance(timedelta(minutes=9))
        assert not dialog.ended
        sim.advance(timedelta(minutes=2))
        assert dialog.error
        assert dialog.error.code == -8489
        assert codes == [-8489]
        assert sim.open_dialogs() == []
        sim.check_invariants()


@pytest.mark.parametrize(("minutes", "handled"), [(2, True), (10, False)])
def test_a_service_that_comes_up_handles_only_dialogs_that_still_live(minutes: int, handled: bool) -> None:
    """The sender of the other one was told -8489: its message is refused with the same, and comes back to its sender."""
    service, codes = stubborn(ECHO)
    with Simulation() as sim:
        sim.broker.create_service("stubborn", 3)
        dialog = sim.peer("web").begin_dialog("stubborn", ECHO, lifetime=timedelta(minutes=5))
        dialog.send(Say(text="anybody?"))
        sim.advance(timedelta(minutes=minutes))
        sim.deploy(service)
        sim.run()
        assert sim.worker("stubborn").counts.handled == handled
        sim.advance(timedelta(minutes=10))
        assert dialog.error is not None
        assert dialog.error.code == -8489
        assert codes == [-8489] * handled
        letters = [(letter.reason, letter.code, letter.is_uncertain) for letter in sim.dead_letters("web")]
        assert letters == ([] if handled else [("undeliverable", -8489, False)])
        assert sim.dead_letters("stubborn") == []
        assert sim.open_dialogs() == []
        sim.check_invariants()


def test_a_timer_is_of_one_side_and_neither_is_sent_nor_changes_the_lifetime() -> None:
    """Each side has its own. The end of the lifetime comes when it was to come."""
    with Simulation() as sim:
        web, shop = sim.peer("web"), sim.peer("shop", accepts=[SILENT])
        ours = web.begin_dialog("shop", SILENT)
        ours.send(Say(text="hello"))
        sim.run()
        theirs = shop.dialog()
        sim.advance(timedelta(seconds=10))
        sent = len(records.queued(sim, "web")), len(records.queued(sim, "shop"))
        ours.set_timer(timedelta(seconds=5))
        theirs.set_timer(timedelta(minutes=2))
        sim.advance(timedelta(minutes=1))
        assert (ours.timers, theirs.timers) == (1, 0)
        sim.advance(timedelta(minutes=2))
        assert (ours.timers, theirs.timers) == (1, 1)
        assert (len(records.queued(sim, "web")), len(records.queued(sim, "shop"))) == sent
        assert not ours.ended
        sim.advance(timedelta(minutes=7))
        assert [it.error and it.error.code for it in (ours, theirs)] == [-8489, -8489]


def test_a_lifetime_of_the_dialog_wins_over_the_contracts() -> None:
    """A dialog may be begun with a lifetime of its own: a shorter one than its contract sets, and any if the contract sets none."""
    service, codes = stubborn(SILENT)
    other, more_codes = stubborn(ECHO, "other")
    with Simulation(service, other) as sim:
        brief = sim.peer("web").begin_dialog("stubborn", SILENT, lifetime=timedelta(minutes=2))
        long = sim.peer("web").begin_dialog("other", ECHO, lifetime=timedelta(days=3))
        for dialog in (brief, long):
            dialog.send(Say(text="anybody?"))
        sim.advance(timedelta(minutes=3))
        assert (brief.ended, codes) == (True, [-8489])
        sim.advance(timedelta(days=2))
        assert (long.ended, more_codes) == (False, [])
        sim.advance(timedelta(days=1))
        assert (long.ended, more_codes) == (True, [-8489])


# -- refusals --------------------------------------------------------------------------------------------------------


def test_a_contract_that_is_not_accepted_is_refused_once() -> None:
    """-8408: one error for the conversation, however many messages follow; every message comes back to its sender."""
    with Simulation(services.echo()) as sim:
        dialog = sim.peer("web").begin_dialog("echo", COUNTING)
        for amount in range(3):
            dialog.send(Add(amount=amount))
        sim.run()
        assert dialog.error
        assert dialog.error.code == -8408
        assert [e.code for e in records.queued(sim, "web") if e.kind is Kind.ERROR] == [-8408]
        assert sim.dead_letters("echo") == []
        assert [(it.sequence, it.reason) for it in sim.dead_letters("web")] == [
            (at, "undeliverable") for at in range(3)
        ]
        assert sim.open_dialogs() == []


def test_a_first_message_that_comes_too_late_is_refused() -> None:
    """-8462: a record whose log time has passed accept_until creates no endpoint."""
    with Simulation(services.echo()) as sim:
        dialog = sim.peer("web").begin_dialog("echo", ECHO)
        sim.broker.stop = records.is_to("echo", 0, 1)
        dialog.send(Say(text="slow post"))
        dialog.send(Say(text="slower post"))
        sim.advance(timedelta(hours=1))
        sim.broker.resume()
        sim.run()
        assert dialog.error
        assert dialog.error.code == -8462
        assert [e.code for e in records.queued(sim, "web") if e.kind is Kind.ERROR] == [-8462]
        assert [letter.sequence for letter in sim.dead_letters("web")] == [0, 1]
        assert sim.open_dialogs() == []


# -- breaches ---------------------------------------------------------------------------------------------------------


def ending(service: Service[Any]) -> Service[Any]:
    """Let the policy of a service end dialogs. Otherwise it holds a message that does not fit."""
    service.poison = (PoisonPolicy.service_broker(),)
    return service


def test_an_invalid_body_from_the_initiator_breaks_the_dialog_with_9615() -> None:
    """The sender is told which field is wrong; the bytes are kept; no handler runs and no attempt is counted."""
    loose = Contract("Echo", sent_by_any=[MessageType("Say", Anything)])
    with Simulation(ending(services.echo())) as sim:
        dialog = sim.peer("web").begin_dialog("echo", loose)
        dialog.send(Anything())
        sim.run()
        assert dialog.error
        assert dialog.error.code == -9615
        assert "text: Input should be a valid string" in dialog.error.description
        (letter,) = sim.dead_letters("echo")
        assert (letter.reason, letter.code, letter.attempts) == ("breach", -9615, 0)
        assert letter.value.endswith(Anything().model_dump_json().encode() + b"\0")
        assert sim.worker("echo").counts.failures == 0
        assert sim.open_dialogs() == []
        sim.check_invariants()


def test_an_invalid_body_from_the_target_breaks_the_dialog_with_9616() -> None:
    """The same towards the initiator has Service Broker's other number."""
    asker = Service("asker", accepts=[NOTICES], initiates=[ECHO], ignores=[Say], poison=[PoisonPolicy.service_broker()])

    @asker.on(Heard)
    def ask(body: Heard, dialog: Dialog) -> None:
        dialog.group.begin_dialog("oracle", ECHO).send(Say(text=body.text))

    loose = Contract("Echo", sent_by_any=[MessageType("Say", Anything)])
    with Simulation(asker) as sim:
        oracle = sim.peer("oracle", accepts=[loose])
        sim.peer("web").begin_dialog("asker", NOTICES).send(Heard(text="3"))
        sim.run()
        # What the oracle took for valid is the asker's body; what it answers is not what the asker knows.
        oracle.dialog().send(Anything())
        sim.run()
        error = oracle.dialog().error
        assert error
        assert error.code == -9616
        assert "text:" in error.description


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(Contract("Counting", sent_by_initiator=[Add, Total]), -8457, id="only the target may send it"),
        pytest.param(Contract("Counting", sent_by_initiator=[Add, Say]), -8498, id="the contract does not know it"),
    ],
)
def test_a_message_the_receivers_contract_does_not_allow_breaks_the_dialog(sent: Contract, code: int) -> None:
    """The receiver checks with its own definitions and tells the sender which rule was broken."""
    bodies = {"Total": Total(total=1), "Say": Say(text="")}
    other = next(name for name in sent.by_initiator if name != "Add")
    with Simulation(ending(services.counter())) as sim:
        dialog = sim.peer("web").begin_dialog("counter", sent)
        dialog.send(bodies[other])
        sim.run()
        assert dialog.error
        assert dialog.error.code == code
        (letter,) = sim.dead_letters("counter")
        assert (letter.reason, letter.sequence, letter.code) == ("breach", 0, code)
        assert sim.open_dialogs() == []


def test_a_target_that_sends_what_only_the_initiator_may_breaks_the_dialog() -> None:
    """-8437, found at the initiator, told to the target."""
    wide = Contract("Counting", sent_by_any=[Add], sent_by_target=[Total])
    asker = Service("asker", accepts=[NOTICES], initiates=[COUNTING], ignores=[Total])

    @asker.on(Heard)
    def ask(body: Heard, dialog: Dialog) -> None:
        dialog.group.begin_dialog("adder", COUNTING).send(Add(amount=1))

    with Simulation(asker) as sim:
        adder = sim.peer("adder", accepts=[wide])
        sim.peer("web").begin_dialog("asker", NOTICES).send(Heard(text="go"))
        sim.run()
        adder.dialog().send(Add(amount=2))
        sim.run()
        error = adder.dialog().error
        assert error
        assert error.code == -8437


# -- poison -----------------------------------------------------------------------------------------------------------


def test_the_fourth_failure_ends_the_dialog_with_error_500() -> None:
    """Service Broker's sample: three more tries, then ERROR 500 and a dead letter with the bytes and the exception."""
    with Simulation(services.moody(), raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        dialog.send(Say(text="a"))
        dialog.send(Say(text="poison"))
        sim.run()
        assert dialog.received() == [Say(text="a")]
        assert dialog.error
        assert (dialog.error.code, dialog.error.description) == (500, "Unable to process message.")
        (letter,) = sim.dead_letters("moody")
        assert letter.reason == "handler-failed"
        assert letter.exception == f"{Grumble.__module__}.Grumble"
        assert (letter.attempts, letter.sequence, letter.message_type) == (4, 1, "Say")
        assert letter.value.endswith(b'{"text":"poison"}\0')
        assert sim.worker("moody").counts.failures == 4
        assert sim.open_dialogs() == []
        sim.check_invariants()


def test_what_follows_a_poison_message_is_kept_as_dead_letters() -> None:
    """Followers are not handled out of order: their sender keeps their bytes."""
    with Simulation(services.moody(), raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        for text in ("poison", "b", "c"):
            dialog.send(Say(text=text))
        sim.run()
        letters = sim.dead_letters("moody")
        assert [(letter.sequence, letter.reason) for letter in letters] == [
            (0, "handler-failed"),
        ]
        assert [(it.sequence, it.reason) for it in sim.dead_letters("web")] == [
            (1, "undeliverable"),
            (2, "undeliverable"),
        ]
        sim.check_invariants()


def test_poison_delays_no_other_dialog() -> None:
    """Invariant 6: the neighbours of a poisoned dialog get their answers."""
    with Simulation(services.moody(), raise_failures=False, partitions=1) as sim:
        dialogs = [sim.peer("web").begin_dialog("moody", ECHO) for _ in range(3)]
        for dialog, text in zip(dialogs, ("a", "poison", "b"), strict=True):
            dialog.send(Say(text=text))
        sim.run()
        assert [dialog.received() for dialog in dialogs] == [[Say(text="a")], [], [Say(text="b")]]


def test_a_failed_run_leaves_nothing_behind() -> None:
    """What a handler asked for before it raised is undone: state, sends, timers and new dialogs."""
    service = Service("shaky", accepts=[ECHO], initiates=[NOTICES], poison=[PoisonPolicy.service_broker()])
    tries = itertools.count(1)

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        state = dialog.group.state
        state["runs"] = state.get("runs", 0) + 1
        dialog.send(Say(text=f"run {state['runs']} of attempt {dialog.attempt}"))
        dialog.group.begin_dialog("sink", NOTICES).send(Heard(text="x"))
        dialog.set_timer(timedelta(seconds=1))
        if next(tries) < 4:
            raise Grumble

    service.on_timer()(lambda _: None)
    with Simulation(service, services.sink(), raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("shaky", ECHO)
        dialog.send(Say(text=""))
        sim.run()
        assert dialog.received() == [Say(text="run 1 of attempt 4")]
        assert len(records.queued(sim, "sink")) == 1
        assert sim.dead_letters("shaky") == []


def test_by_default_a_handlers_exception_reaches_the_test() -> None:
    """A simulation does not hide what a handler raised behind a dead letter."""
    with Simulation(services.moody()) as sim:
        sim.peer("web").begin_dialog("moody", ECHO).send(Say(text="poison"))
        with pytest.raises(Grumble):
            sim.run()
