"""Resend: what the target has not accepted is sent again on a new dialog, once, or comes back to the initiator."""

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from conversations import Contract, Dialog, PeerError, PoisonPolicy, Service, Then
from conversations.config import Limits, WorkerSettings
from conversations.durations import SECOND
from conversations.memory.record import MemoryRecord
from conversations.ports import Out
from conversations.protocol import rows
from conversations.protocol.codes import END_REFUSED, LIFETIME
from conversations.protocol.command import Report, Resend
from conversations.protocol.envelope import Envelope, Kind, decode
from conversations.protocol.topics import QUEUE, service_topic
from conversations.testing import Simulation
from conversations.testing.ledger import Handled
from conversations.testing.peer import PeerDialog
from tests.simulation.support import records
from tests.simulation.support.services import Say
from tests.simulation.test_decisions import HOLD

HOUR = timedelta(hours=1)


def contract(resend: str = "automatic", lifetime: timedelta = HOUR) -> Contract:
    return Contract("Talk", sent_by_any=[Say], lifetime=lifetime, resend=resend)  # type: ignore[arg-type]


class Target:
    """A service that keeps what it handles: the text and the id of each message."""

    def __init__(self, talk: Contract, poison: PoisonPolicy | None = None) -> None:
        self.handled: list[str] = []
        self.ids: list[str] = []
        self.codes: list[int] = []
        self.fails: Callable[[str], bool] = lambda text: False
        self.service = service = Service("target", accepts=[talk], poison=[poison] if poison is not None else [])

        @service.on(Say)
        def said(message: Say, dialog: Dialog) -> None:
            if self.fails(message.text):
                raise ValueError(message.text)
            self.handled.append(message.text)
            self.ids.append(dialog.message.id)
            if message.text == "end":
                dialog.end()
            if message.text == "error":
                dialog.end_with_error(7, "enough")

        @service.on_error()
        def broken(error: PeerError, dialog: Dialog) -> None:
            self.codes.append(error.code)


class Source:
    """A service that speaks when a text comes by its inlet, and that keeps what its ``on_error`` is given."""

    def __init__(self, talk: Contract, *, by_hand: bool = False, poison: Sequence[PoisonPolicy] = ()) -> None:
        self.fails = False
        self.codes: list[int] = []
        self.pending: list[list[str]] = []
        self.replies: list[str] = []
        self.inlet = Contract("Inlet", sent_by_initiator=[Say], lifetime=None)
        self.service = service = Service("source", accepts=[self.inlet], initiates=[talk], poison=poison)

        @service.on(Say, contract=self.inlet)
        def inlet(message: Say, dialog: Dialog) -> None:
            group = dialog.group
            open_ones = [it for it in group.dialogs(talk) if it.is_open]
            speaker = open_ones[0] if open_ones else group.begin_dialog("target", talk, wait_for_service=True)
            for text in message.text.split():
                if text == "bye":
                    speaker.end()
                elif text == "oops":
                    speaker.end_with_error(9, "oops")
                else:
                    speaker.send(Say(text=text))

        @service.on(Say, contract=talk)
        def reply(message: Say, dialog: Dialog) -> None:
            self.replies.append(message.text)

        @service.on_error(talk)
        def broken(error: PeerError, dialog: Dialog) -> None:
            if self.fails:
                raise ValueError(error.code)
            self.codes.append(error.code)
            self.pending.append([message.body.text for message in dialog.pending])
            if by_hand and error.can_resend and dialog.pending:
                dialog.resend()


def test_a_dialog_that_breaks_goes_on_with_what_was_not_accepted() -> None:
    """-8489 while two of four messages are on their way: the new dialog has exactly these two, and nobody is told of an error."""
    talk = contract(lifetime=timedelta(minutes=5))
    target, source = Target(talk), Source(talk)
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a b"))
        sim.run()
        sim.broker.stop = records.is_to("target", 2, 3)
        web.send(Say(text="c d"))
        sim.run()
        sim.advance(timedelta(minutes=6))
        sim.broker.resume()
        sim.run()
        assert target.handled == ["a", "b", "c", "d"]
        assert source.codes == []
        first = target.ids[0].split(":")[0]
        assert target.ids == [f"{first}:i:{number}" for number in range(4)]
        assert sim.dead_letters("source") == sim.dead_letters("target") == []
        sim.check_invariants()


SAID = (Kind.MESSAGE, Kind.END)


def undelivered(sim: Simulation, service: str = "source") -> list[tuple[int, str, int]]:
    return sorted((it.sequence, it.reason, it.code) for it in sim.dead_letters(service))


def test_a_message_whose_acknowledgement_is_lost_is_not_sent_again() -> None:
    """The target has accepted it, and says so when it is asked. Service Broker would send it twice here (seed 000)."""
    talk = contract(lifetime=timedelta(minutes=5))
    target, source = Target(talk), Source(talk)
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a"))
        sim.run()
        records.lose(
            sim,
            lambda to, kind, number: (to == "source" and kind is Kind.ACK) or (to == "target" and number == 2),
            only_first=True,
        )
        web.send(Say(text="b c"))
        sim.run()
        sim.advance(timedelta(minutes=6))
        records.pass_all(sim)
        sim.run()
        assert target.handled == ["a", "b", "c"]
        sim.check_invariants()


@pytest.mark.parametrize("by_hand", [True, False])
def test_on_error_sees_what_is_pending_and_may_send_it_again(by_hand: bool) -> None:
    """Without resend() it becomes dead letters of its sender, with its bytes."""
    talk = contract("by-hand", lifetime=timedelta(minutes=5))
    target, source = Target(talk), Source(talk, by_hand=by_hand)
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a"))
        sim.run()
        records.lose(
            sim,
            lambda to, kind, number: (
                to == "target"
                and number
                in (
                    1,
                    2,
                )
            ),
            only_first=True,
        )
        web.send(Say(text="b c"))
        sim.run()
        sim.advance(timedelta(minutes=6))
        records.pass_all(sim)
        sim.run()
        sim.advance(timedelta(minutes=1))
        assert source.codes == [-8489]
        assert source.pending == [["b", "c"]]
        assert target.handled == (["a", "b", "c"] if by_hand else ["a"])
        assert undelivered(sim) == ([] if by_hand else [(1, "undeliverable", -8489), (2, "undeliverable", -8489)])
        assert sim.dead_letters("target") == []
        sim.check_invariants()


def test_an_operator_sends_again_what_a_failed_handler_of_errors_leaves() -> None:
    """The handler does not run again: its letter is closed, and the new dialog has the rest."""
    talk = contract("by-hand", lifetime=timedelta(minutes=5))
    target, source = Target(talk), Source(talk, poison=[HOLD])
    source.fails = True
    with Simulation(target.service, source.service, raise_failures=False, partitions=1) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a"))
        sim.run()
        begun = uuid.UUID(target.ids[0].split(":")[0])
        early = order_resend(sim, begun)
        assert (early["event"], early["code"]) == ("COMMAND_REFUSED", END_REFUSED.number), "it is not broken"
        records.lose(sim, lambda to, kind, number: to == "target" and number in (1, 2), only_first=True)
        web.send(Say(text="b c"))
        sim.run()
        sim.advance(timedelta(minutes=6))
        records.pass_all(sim)
        sim.run()
        assert len(records.rows_of(sim, "source", rows.RETRY)) == 1, "the failed handler waits for a decision"
        assert target.handled == ["a"]
        records.lose(sim, lambda to, kind, number: kind is Kind.FENCED)
        done = order_resend(sim, begun)
        assert done["event"] == "COMMAND_DONE", done
        assert records.rows_of(sim, "source", rows.RETRY) == [], "nobody can decide about it while the target is asked"
        records.pass_all(sim)
        sim.advance(timedelta(minutes=1))
        assert target.handled == ["a", "b", "c"]
        assert [it["messages"] for it in records.events_of(sim, "RENEWED")] == [2]
        assert order_resend(sim, begun)["event"] == "COMMAND_REFUSED", "it is over"
        sim.check_invariants()


def order_resend(sim: Simulation, conversation: uuid.UUID) -> dict[str, Any]:
    """Order a resend as an operator, and return the event of the owner's answer."""
    before = len(records.events_of(sim, "COMMAND_DONE")) + len(records.events_of(sim, "COMMAND_REFUSED"))
    records.command(sim, "source", conversation, Resend(), Report())
    sim.run()
    answers = records.events_of(sim, "COMMAND_DONE") + records.events_of(sim, "COMMAND_REFUSED")
    assert len(answers) == before + 1
    return max(answers, key=lambda it: int(it["at"]))


def test_without_resend_the_target_keeps_what_it_does_not_accept() -> None:
    """resend="off": no row at the initiator, and the bytes are in the target's letters."""
    talk = contract("off", lifetime=timedelta(minutes=5))
    target, source = Target(talk), Source(talk)
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a error"))
        sim.run()
        assert not records.rows_of(sim, "source", b"U")
        web.send(Say(text="b"))
        sim.run()
        sim.advance(timedelta(minutes=30))
        assert source.codes == [7, -8489]
        assert sim.dead_letters("source") == []
        sim.check_invariants()


def test_a_target_that_never_answers_is_asked_for_ten_minutes() -> None:
    """Then on_error is called, and the letters say that the target may have accepted their messages."""
    talk = contract(lifetime=timedelta(minutes=5))
    source = Source(talk)
    with Simulation(source.service) as sim:
        sim.broker.create_service("target", 3)
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a b"))
        sim.run()
        sim.advance(timedelta(minutes=12))
        assert source.codes == []
        fences = [it for it in records.queued(sim, "target") if it.kind is Kind.FENCE]
        assert 5 <= len(fences) <= 15
        sim.advance(timedelta(minutes=5))
        assert source.codes == [-8489]
        assert undelivered(sim) == [(0, "undeliverable", -8489), (1, "undeliverable", -8489)]
        assert all(it.is_uncertain for it in sim.dead_letters("source"))
        late = Target(talk)
        sim.deploy(late.service)
        sim.run()
        assert late.handled == []
        sim.check_invariants()


def test_the_fourth_generation_does_not_begin() -> None:
    """A target that never gets the messages breaks three replacements; then they are dead letters of the initiator."""
    talk = contract(lifetime=timedelta(minutes=5))
    target, source = Target(talk), Source(talk)
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a"))
        sim.run()
        records.lose(sim, lambda to, kind, number: to == "target" and kind in SAID)
        web.send(Say(text="b bye"))
        sim.run()
        for _ in range(5):
            sim.advance(timedelta(minutes=8))
        assert source.codes == [-8489]
        assert source.pending == [["b"]]
        assert undelivered(sim) == [(0, "undeliverable", -8489)]
        conversations = {it.prefix.conversation_id for it in records.queued(sim, "target")}
        assert len(conversations) == 4
        assert target.handled == ["a"]
        sim.check_invariants()


def test_the_end_is_sent_again_too() -> None:
    """What the initiator had said before the dialog broke is complete on the new dialog, its END included."""
    talk = contract(lifetime=timedelta(minutes=5))
    target, source = Target(talk), Source(talk)
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a"))
        sim.run()
        records.lose(sim, lambda to, kind, number: to == "target" and kind in SAID, only_first=True)
        web.send(Say(text="b bye"))
        sim.run()
        sim.advance(timedelta(minutes=6))
        records.pass_all(sim)
        sim.run()
        sim.advance(timedelta(minutes=1))
        assert target.handled == ["a", "b"]
        assert source.codes == []
        assert [name for name in sim.open_dialogs() if name != web.id] == []
        sim.check_invariants()


def test_what_is_sent_while_the_target_is_asked_goes_to_the_new_dialog() -> None:
    """The application does not notice that the dialog broke: it may send, and its messages follow in order."""
    talk = contract(lifetime=timedelta(minutes=5))
    target, source = Target(talk), Source(talk)
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a"))
        sim.run()
        records.lose(
            sim, lambda to, kind, number: to == "target" and (kind is Kind.FENCE or number == 1), only_first=True
        )
        web.send(Say(text="b"))
        sim.run()
        sim.advance(timedelta(minutes=6))
        web.send(Say(text="c d"))
        sim.run()
        assert target.handled == ["a"]
        records.pass_all(sim)
        sim.advance(timedelta(minutes=2))
        assert target.handled == ["a", "b", "c", "d"]
        assert source.codes == []
        sim.check_invariants()


def test_messages_are_not_sent_again_if_the_target_gave_up_on_accepted_ones() -> None:
    """The target held an accepted message, which is now its dead letter. To send the later ones without it would break the order."""
    talk = contract(lifetime=timedelta(minutes=5))
    target, source = Target(talk, PoisonPolicy(delays=[], then=Then.HOLD)), Source(talk)
    target.fails = lambda text: text == "a"
    with Simulation(target.service, source.service, raise_failures=False) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a"))
        sim.run()
        records.lose(sim, lambda to, kind, number: to == "target" and number == 1, only_first=True)
        web.send(Say(text="b"))
        sim.run()
        sim.advance(timedelta(minutes=6))
        records.pass_all(sim)
        sim.advance(timedelta(minutes=2))
        assert source.codes == [-8489]
        assert source.pending == [["b"]]
        assert target.handled == []
        assert undelivered(sim) == [(1, "undeliverable", -8489)]
        sim.check_invariants()


def test_a_breach_is_never_sent_again() -> None:
    """-8408: the target does not know the contract. Its messages come back to the application, and to the operators."""
    talk, other = contract(), Contract("Other", sent_by_any=[Say])
    target, source = Target(other), Source(talk)
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a b"))
        sim.run()
        sim.advance(timedelta(minutes=1))
        assert source.codes == [-8408]
        assert source.pending == [["a", "b"]]
        assert undelivered(sim) == [(0, "undeliverable", -8408), (1, "undeliverable", -8408)]
        assert sim.dead_letters("target") == []
        sim.check_invariants()


@pytest.mark.parametrize("word", ["end", "error"])
def test_what_meets_the_targets_end_comes_back(word: str) -> None:
    """The target ended its side: its END, or its ERROR, says what it has accepted. Nobody needs to ask."""
    talk = contract("by-hand")
    target, source = Target(talk), Source(talk)
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        records.lose(sim, lambda to, kind, number: to == "target" and number == 1)
        web.send(Say(text=f"{word} late bye"))
        sim.run()
        sim.broker.resume()
        sim.run()
        sim.advance(timedelta(minutes=1))
        assert target.handled == [word]
        assert source.codes == ([7] if word == "error" else [])
        code = 7 if word == "error" else 0
        assert undelivered(sim) == [(1, "undeliverable", code)]
        assert [it for it in records.queued(sim, "target") if it.kind is Kind.FENCE] == []
        assert [name for name in sim.open_dialogs() if name != web.id] == []
        sim.check_invariants()


def lose_the_second(sim: Simulation, web: PeerDialog) -> None:
    """Lose the second message of the source, and send two behind it."""
    records.lose(sim, lambda to, kind, number: to == "target" and number == 1)
    web.send(Say(text="b"))
    sim.run()
    records.pass_all(sim)
    web.send(Say(text="c d"))
    sim.run()


def test_a_missing_message_is_transmitted_again() -> None:
    """RESEND: the initiator still has the row. The dialog goes on, in order."""
    talk = contract("by-hand")
    target, source = Target(talk), Source(talk)
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a"))
        sim.run()
        lose_the_second(sim, web)
        sim.advance(timedelta(seconds=10))
        assert target.handled == ["a", "b", "c", "d"]
        assert source.codes == []
        sim.check_invariants()


def test_rows_go_when_their_messages_are_acknowledged() -> None:
    """Nothing is left of a dialog that both sides have ended."""
    talk = contract()
    target, source = Target(talk), Source(talk)
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a b c"))
        sim.run()
        assert records.rows_of(sim, "source", b"U")
        sim.advance(timedelta(seconds=10))
        assert not records.rows_of(sim, "source", b"U")
        assert sim.worker("source").partitions[0].unacknowledged.bytes == 0
        sim.check_invariants()


def test_above_a_limit_messages_are_sent_but_not_kept() -> None:
    """The event NOT_KEPT says so. What the target does not accept then is kept by the target."""
    talk = contract("by-hand")
    target, source = Target(talk), Source(talk)
    limits = Limits(dialog_bytes=1_500)
    with Simulation(target.service, source.service, settings=WorkerSettings(limits=limits)) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        texts = [f"{number}" for number in range(30)]
        web.send(Say(text=" ".join(["error", *texts])))
        sim.run()
        sim.advance(timedelta(minutes=1))
        assert target.handled == ["error"]
        (event,) = records.events_of(sim, "NOT_KEPT")
        returned = [it.sequence for it in sim.dead_letters("source")]
        kept = [it.sequence for it in sim.dead_letters("target")]
        assert returned == list(range(1, event["sequence"]))
        assert sorted(kept) == list(range(event["sequence"], 31))
        sim.check_invariants()


@pytest.mark.parametrize("resend", ["automatic", "by-hand"])
@pytest.mark.parametrize("arrived", [0, 1, 3])
def test_what_is_not_kept_does_not_acknowledge_what_is_kept(resend: str, arrived: int) -> None:
    """The target is over, leaves to the sender what the sender keeps, and accepts the rest. Nothing of either is lost, nor sent again without the rest."""
    talk = contract(resend, lifetime=timedelta(minutes=5))
    target, source = Target(talk), Source(talk, by_hand=resend == "by-hand")
    settings = WorkerSettings(limits=Limits(dialog_bytes=1_500))
    with Simulation(target.service, source.service, settings=settings) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        texts = [f"{number}" for number in range(31)]
        sim.broker.stop = records.is_to("target", -1, *range(arrived, 31))
        web.send(Say(text=" ".join(texts)))
        sim.run()
        (event,) = records.events_of(sim, "NOT_KEPT")
        assert 10 < event["sequence"] < 30
        sim.advance(timedelta(minutes=6))
        sim.broker.resume()
        sim.advance(timedelta(minutes=15))
        assert target.handled == texts[:arrived]
        assert [it.sequence for it in sim.dead_letters("source")] == list(range(arrived, event["sequence"]))
        assert sorted(it.sequence for it in sim.dead_letters("target")) == list(range(event["sequence"], 31))
        sim.check_invariants()


def test_an_error_behind_what_is_not_kept_does_not_acknowledge_what_is_kept() -> None:
    """The target is over, which the sender does not know yet. The sender ends with an error, and still keeps what the target has not accepted."""
    talk = contract("by-hand")
    target, source = Target(talk), Source(talk)
    settings = WorkerSettings(limits=Limits(dialog_bytes=1_500))
    with Simulation(target.service, source.service, settings=settings) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        sim.broker.stop = lambda out: out.topic.endswith(".source.queue") and said_by(out) == "target"
        web.send(Say(text=" ".join(["error", *(f"{number}" for number in range(30))])))
        sim.run()
        (event,) = records.events_of(sim, "NOT_KEPT")
        web.send(Say(text="oops"))
        sim.run()
        (error,) = [it for it in records.queued(sim, "target") if it.kind is Kind.ERROR]
        assert error.prefix.resends, "the sender still keeps messages"
        sim.broker.resume()
        sim.advance(timedelta(minutes=15))
        assert max(it.ack for it in records.queued(sim, "source") if it.prefix.from_service == "target") == 0
        assert target.handled == ["error"]
        assert [it.sequence for it in sim.dead_letters("source")] == list(range(1, event["sequence"]))
        assert sorted(it.sequence for it in sim.dead_letters("target")) == list(range(event["sequence"], 31))
        sim.check_invariants()


def test_there_is_no_new_dialog_without_the_messages_that_were_not_kept() -> None:
    """The target is asked before they arrive. A new dialog would go on without them, and they would become letters behind its back."""
    talk = contract(lifetime=timedelta(minutes=5))
    target, source = Target(talk), Source(talk)
    settings = WorkerSettings(limits=Limits(dialog_bytes=1_500))
    with Simulation(target.service, source.service, settings=settings) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        sim.broker.stop = records.is_to("target", *range(31))
        web.send(Say(text=" ".join(f"{number}" for number in range(31))))
        sim.run()
        (event,) = records.events_of(sim, "NOT_KEPT")
        sim.advance(timedelta(minutes=15))
        assert source.codes == [LIFETIME.number]
        sim.broker.resume()
        sim.advance(timedelta(minutes=15))
        assert target.handled == []
        assert [it.sequence for it in sim.dead_letters("source")] == list(range(event["sequence"]))
        assert sorted(it.sequence for it in sim.dead_letters("target")) == list(range(event["sequence"], 31))
        sim.check_invariants()


def test_what_is_transmitted_again_is_kept_although_the_dialog_has_stopped_keeping() -> None:
    talk = contract()
    target, source = Target(talk), Source(talk)
    settings = WorkerSettings(limits=Limits(dialog_bytes=1_500))
    with Simulation(target.service, source.service, settings=settings) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        records.lose(sim, lambda to, kind, number: to == "target" and number == 27)
        web.send(Say(text=" ".join(f"{number}" for number in range(31))))
        sim.run()
        assert records.events_of(sim, "NOT_KEPT")
        records.pass_all(sim)
        sim.advance(timedelta(seconds=30))
        assert len(target.handled) == 31
        assert [it.prefix.resends for it in records.queued(sim, "target") if it.seq == 27] == [True]


class Hand:
    """A stranger that writes its envelopes by hand: it keeps some of its messages, and not others."""

    def __init__(self, sim: Simulation, first: str) -> None:
        self.sim = sim
        sim.broker.create_service("stranger", 1)
        self.prefix = records.first_of(sim, records.drawn(sim), "target", "Talk")
        self.message(0, first)

    def message(self, number: int, text: str = "x", *, kept: bool = True) -> None:
        body = json.dumps({"text": text}).encode()
        records.post(self.sim, records.message(replace(self.prefix, resends=kept), number, "Say", body))
        self.sim.run()

    def stops_keeping(self) -> None:
        """Say three messages, the last of which is not kept."""
        for number in (1, 2):
            self.message(number)
        self.message(3, kept=False)

    def say(self, kind: Kind, number: int = -1, code: int = 0) -> list[Envelope]:
        """Post an envelope whose sender keeps what it has sent. Return the answers."""
        before = len(records.queued(self.sim, "stranger"))
        prefix = replace(self.prefix, resends=True)
        records.post(self.sim, Envelope(prefix, kind, number, -1, code=code, description="gone"))
        self.sim.run()
        return records.queued(self.sim, "stranger")[before:]

    def accepted(self) -> int:
        """Ask what the target has accepted."""
        (answer,) = [it for it in self.say(Kind.FENCE, code=-8462) if it.kind is Kind.FENCED]
        assert answer.extras is not None
        assert answer.extras.fence is not None
        return answer.extras.fence.accepted


def test_a_closed_side_leaves_an_error_to_a_sender_that_still_keeps_messages() -> None:
    target = Target(contract(lifetime=timedelta(minutes=5)))
    with Simulation(target.service, partitions=1) as sim:
        hand = Hand(sim, "a")
        sim.advance(timedelta(minutes=6))
        assert target.codes == [LIFETIME.number]
        hand.stops_keeping()
        hand.message(1)
        (answer,) = hand.say(Kind.ERROR, 4, code=9)
        assert (answer.kind, answer.ack) == (Kind.ERROR, 0), "the dialog is over, and the sender forgets nothing"
        assert hand.accepted() == 0
        assert [it.sequence for it in sim.dead_letters("target")] == [3]


def test_what_is_held_when_a_side_ends_is_left_to_a_sender_that_keeps_it() -> None:
    """A message that nobody keeps comes after it, before the handler of the error has finished."""
    target = Target(contract())
    with Simulation(target.service, partitions=1) as sim:
        hand = Hand(sim, "a")
        hand.message(2)  # 1 is missing
        prefix = replace(hand.prefix, resends=True)
        records.post(sim, Envelope(prefix, Kind.ERROR, -1, -1, code=-8462, description="gone"))
        records.post(sim, records.message(hand.prefix, 3, "Say", b'{"text":"x"}'))
        sim.run()
        assert target.codes == [-8462]
        assert hand.accepted() == 0
        assert [it.sequence for it in sim.dead_letters("target")] == [3]


def test_an_error_that_comes_after_the_end_of_this_side_takes_over_nothing() -> None:
    target = Target(contract())
    with Simulation(target.service, partitions=1) as sim:
        hand = Hand(sim, "end")
        hand.stops_keeping()
        hand.say(Kind.ERROR, 4, code=9)
        sim.advance(timedelta(minutes=1))
        assert target.codes == [9]
        assert hand.accepted() == 0


def said_by(out: Out) -> str:
    """Return the service that has sent an envelope."""
    return decode(out.value or b"").prefix.from_service


def test_a_worker_that_dies_while_it_asks_goes_on_asking() -> None:
    """FENCING is a state of the row: the next owner asks again, and the messages are sent once."""
    talk = contract(lifetime=timedelta(minutes=5))
    target, source = Target(talk), Source(talk)
    with Simulation(target.service, source.service) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a"))
        sim.run()
        records.lose(
            sim, lambda to, kind, number: to == "target" and (kind is Kind.FENCE or number == 1), only_first=True
        )
        web.send(Say(text="b"))
        sim.run()
        sim.advance(timedelta(minutes=6))
        sim.crash("source")
        sim.run()
        web.send(Say(text="c"))
        sim.run()
        records.pass_all(sim)
        sim.advance(timedelta(minutes=2))
        assert target.handled == ["a", "b", "c"]
        sim.check_invariants()


def test_a_fence_that_comes_before_its_dialog_keeps_the_dialog_from_beginning() -> None:
    """The answer was "nothing accepted". A first message that arrives after it must not make this untrue."""
    talk = contract()
    target = Target(talk)
    with Simulation(target.service) as sim:
        sim.peer("stranger")
        conversation = records.drawn(sim)
        prefix = replace(records.first_of(sim, conversation, "target", "Talk"), resends=True)
        records.post(sim, Envelope(prefix, Kind.FENCE, -1, -1, code=-8462, description="gone"))
        sim.run()
        records.post(sim, records.message(prefix, 0, "Say", b'{"text":"a"}'))
        sim.run()
        assert target.handled == []
        (answer,) = [it for it in records.queued(sim, "stranger") if it.kind is Kind.FENCED]
        assert answer.extras is not None
        assert answer.extras.fence is not None
        assert answer.extras.fence.accepted == -1


def test_delayed_messages_of_one_dialog_are_released_in_slices() -> None:
    """A destination was away, and much waits for it: one transaction may not hold all of it."""
    talk = contract()
    target, source = Target(talk), Source(talk)
    limits = Limits(step_bytes=60_000)
    with Simulation(target.service, source.service, settings=WorkerSettings(limits=limits), partitions=1) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        topic = service_topic(sim.broker.namespace, "target", QUEUE)
        sim.broker.forbidden.add(topic)
        for _ in range(20):
            web.send(Say(text=" ".join(["x" * 200] * 20)))
            sim.run()
        sim.broker.forbidden.clear()
        sizes = []
        commit = sim.broker.ledger.commit

        def weigh(service: str, handled: Sequence[Handled], records: Sequence[MemoryRecord]) -> None:
            sizes.append(sum(len(it.value() or b"") for it in records if it.topic() == topic))
            commit(service, handled, records)

        sim.broker.ledger.commit = weigh  # type: ignore[method-assign] # only looks at what is committed
        sim.advance(timedelta(minutes=2))
        assert len(target.handled) == 400
        assert max(sizes) < 100_000
        sim.check_invariants()


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("cached", [3_000, 1_000_000])
def test_a_missing_message_is_asked_for_although_the_endpoint_leaves_memory(cached: int, restarts: bool) -> None:
    """Its row has the end of the wait. If each load began the wait anew, nobody would ever ask."""
    talk = contract("by-hand")
    target, source = Target(talk), Source(talk)
    settings = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), limits=Limits(cached_bytes=cached))
    with Simulation(target.service, source.service, settings=settings, partitions=2) as sim:
        web = sim.peer("web").begin_dialog("source", source.inlet)
        web.send(Say(text="a"))
        sim.advance(timedelta(seconds=10))  # it is acknowledged
        lose_the_second(sim, web)
        if restarts:
            sim.clock.advance(2 * SECOND)
            sim.crash("target")
            sim.run()
            asked = [it for it in records.queued(sim, "source") if it.kind is Kind.RESEND]
            assert asked == [], "the message may be on its way, so the new owner waits first"
        sim.advance(timedelta(seconds=10))
        assert target.handled == ["a", "b", "c", "d"]
        assert source.codes == []
        sim.check_invariants()
