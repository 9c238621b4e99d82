"""A message that fails is tried again in its place: its dialog waits behind it, whatever else happens, and nothing else does."""

from datetime import timedelta
from typing import Any

import pytest

from conversations import (
    Dialog,
    Limits,
    PeerError,
    PoisonPolicy,
    RetryLater,
    Service,
    Then,
    WorkerSettings,
)  # fmt: skip
from conversations.protocol.envelope import Kind
from conversations.testing import Simulation
from conversations.testing.reading import visible
from tests.simulation.support import records
from tests.simulation.support.services import ECHO, Say

SECOND = timedelta(seconds=1)
SLOW = [5 * SECOND, 60 * SECOND]


class Moody:
    """A service whose messages say how often they fail: "a 2" fails twice; "a later" asks to be called in 30 s, once."""

    def __init__(self, *poison: PoisonPolicy, name: str = "moody") -> None:
        self.service: Service[dict[str, Any]] = Service(name, accepts=[ECHO], poison=poison)
        self.tried: list[tuple[str, int]] = []
        self.handled: list[str] = []
        self.ids: list[str] = []
        self.errors: list[int] = []
        self.mended = False
        self.service.on(Say)(self.say)
        self.service.on_error()(self.broken)
        self.service.on_end()(self.ended)

    def say(self, body: Say, dialog: Dialog) -> None:
        self.tried.append((body.text, dialog.message.attempt))
        self.ids.append(dialog.message.id)
        name, _, times = body.text.partition(" ")
        if times == "later" and self.tried.count((body.text, 1)) == 1:
            raise RetryLater(30 * SECOND, "not before 30 s")
        dialog.send(Say(text=name))
        if times.isdigit() and dialog.message.attempt <= int(times) and not self.mended:
            raise ValueError(body.text)
        self.handled.append(name)
        if times == "end":
            dialog.end()

    def broken(self, error: PeerError, dialog: Dialog) -> None:
        self.errors.append(error.code)

    def ended(self, dialog: Dialog) -> None:
        self.handled.append("END")
        if self.handled.count("END") <= 2 and "stubborn" in self.handled:
            raise ValueError("on_end")


def texts(dialog: Any) -> list[str]:
    return [body.text for body in dialog.received()]


def test_a_dialog_waits_behind_its_failed_message_and_no_other_does() -> None:
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False, partitions=1) as sim:
        web = sim.peer("web")
        poisoned, healthy = web.begin_dialog("moody", ECHO), web.begin_dialog("moody", ECHO)
        for text in ("a", "b 2", "c", "d 1", "e"):
            poisoned.send(Say(text=text))
        sim.run()
        healthy.send(Say(text="x"))
        sim.run()
        assert moody.handled == ["a", "x"]
        sim.check_invariants()
        sim.advance(5 * SECOND)
        assert moody.tried[-1] == ("b 2", 2)
        poisoned.send(Say(text="f"))
        poisoned.end()
        sim.advance(59 * SECOND)
        assert moody.handled == ["a", "x"]
        sim.advance(1 * SECOND)
        assert moody.handled == ["a", "x", "b", "c"]
        sim.advance(5 * SECOND)
        assert moody.handled == ["a", "x", "b", "c", "d", "e", "f", "END"]
        assert texts(poisoned) == ["a"], "who has ended hears no more"
        assert sim.dead_letters("moody") == []
        assert poisoned.id not in sim.open_dialogs()
        sim.check_invariants()


def test_what_waits_and_how_often_it_failed_survive_a_crash() -> None:
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        for text in ("a 2", "b", "c"):
            dialog.send(Say(text=text))
        sim.advance(2 * SECOND)
        sim.crash("moody")
        sim.run()
        assert moody.tried == [("a 2", 1)], "a restart is no reason to try again"
        dialog.send(Say(text="d"))
        sim.advance(3 * SECOND)
        assert moody.tried[1:] == [("a 2", 2)]
        sim.crash("moody")
        sim.advance(61 * SECOND)
        assert moody.tried[2:] == [("a 2", 3), ("b", 1), ("c", 1), ("d", 1)]
        assert moody.handled == ["a", "b", "c", "d"]
        sim.check_invariants()


@pytest.mark.parametrize("off", [False, True], ids=["held by its policy", "the queue is off"])
def test_what_is_parked_is_acknowledged(off: bool) -> None:
    """An acknowledgement says that a message was received, and nothing of its handler."""
    moody = Moody(PoisonPolicy(delays=[], then=Then.HOLD))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        if off:
            sim.turn_queue("moody", on=False)
            sim.run()
        for text in ("a 9", "b", "c"):
            dialog.send(Say(text=text))
        sim.advance(10 * SECOND)
        assert moody.handled == []
        (it,) = sim.parked("moody")
        assert (it.number, it.behind) == (0, 2)
        assert [e.ack for e in records.queued(sim, "web") if e.kind is Kind.ACK][-1:] == [2]
        sim.check_invariants()


def test_a_message_behind_a_failed_one_fails_since_it_did_so_itself() -> None:
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        for text in ("a 1", "b 2"):
            dialog.send(Say(text=text))
        sim.run()
        (head,) = sim.parked("moody")
        sim.advance(5 * SECOND)
        (second,) = sim.parked("moody")
        assert moody.tried == [("a 1", 1), ("a 1", 2), ("b 2", 1)]
        assert second.since == head.since + 5_000_000
        sim.advance(5 * SECOND)
        (again,) = sim.parked("moody")
        assert (again.attempts, again.since) == (2, second.since)


def test_given_up_on_after_its_schedule_head_and_followers_are_kept_in_order() -> None:
    moody = Moody(PoisonPolicy(delays=SLOW, then=Then.END_DIALOG, code=7, description="Tried three times."))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        for text in ("a", "b 9", "c", "d"):
            dialog.send(Say(text=text))
        sim.advance(66 * SECOND)
        assert [attempt for _, attempt in moody.tried[1:]] == [1, 2, 3]
        assert dialog.error
        assert (dialog.error.code, texts(dialog)) == (7, ["a"])
        kept = [(letter.sequence, letter.reason, letter.attempts) for letter in sim.dead_letters("moody")]
        assert kept == [(1, "handler-failed", 3), (2, "parked-at-end", 0), (3, "parked-at-end", 0)]
        sim.check_invariants()


def test_skip_goes_on_with_the_next_and_tells_the_peers_operators() -> None:
    moody = Moody(PoisonPolicy(delays=[5 * SECOND], then=Then.SKIP))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        for text in ("a", "b 9", "c"):
            dialog.send(Say(text=text))
        sim.advance(6 * SECOND)
        assert moody.handled == ["a", "c"]
        assert texts(dialog) == ["a", "c"]
        assert [letter.sequence for letter in sim.dead_letters("moody")] == [1]
        assert dialog.id in sim.open_dialogs()
        sim.check_invariants()


def test_hold_keeps_the_dialog_waiting_until_its_lifetime_ends() -> None:
    moody = Moody(PoisonPolicy(delays=[], then=Then.HOLD))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO, lifetime=timedelta(hours=1))
        for text in ("a", "b 9", "c"):
            dialog.send(Say(text=text))
        sim.advance(timedelta(minutes=59))
        assert moody.handled == ["a"]
        assert [letter.sequence for letter in sim.dead_letters("moody")] == [1]
        sim.check_invariants()
        sim.advance(timedelta(minutes=2))
        assert [(it.sequence, it.reason) for it in sim.dead_letters("moody")][1:] == [
            (1, "parked-at-end"), (2, "parked-at-end"),
        ]  # fmt: skip
        assert moody.errors == [-8489]
        sim.check_invariants()


def test_retry_later_is_no_failed_attempt() -> None:
    moody = Moody(PoisonPolicy(delays=[], then=Then.END_DIALOG))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        for text in ("a later", "b"):
            dialog.send(Say(text=text))
        sim.advance(29 * SECOND)
        assert moody.handled == []
        sim.advance(1 * SECOND)
        assert moody.tried == [("a later", 1), ("a later", 1), ("b", 1)]
        assert texts(dialog) == ["a", "b"]
        sim.check_invariants()


def test_a_peer_that_breaks_the_dialog_passes_what_is_parked() -> None:
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        for text in ("a 2", "b"):
            dialog.send(Say(text=text))
        sim.run()
        dialog.end_with_error(12, "changed my mind")
        sim.run()
        assert moody.errors == [12]
        assert [letter.reason for letter in sim.dead_letters("moody")] == ["parked-at-end"] * 2
        sim.advance(timedelta(minutes=5))
        assert moody.handled == []
        sim.check_invariants()


def test_a_handler_of_an_end_that_fails_is_tried_again_later() -> None:
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        dialog.send(Say(text="stubborn"))
        dialog.end()
        sim.run()
        sim.crash("moody")
        sim.advance(65 * SECOND)
        assert moody.handled == ["stubborn", "END", "END", "END"]
        assert sim.open_dialogs() == []
        sim.check_invariants()


def test_a_message_that_ends_its_dialog_when_it_succeeds_leaves_the_rest_as_letters() -> None:
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        for text in ("a 1", "b end", "c", "d"):
            dialog.send(Say(text=text))
        sim.advance(5 * SECOND)
        assert moody.handled == ["a", "b"]
        assert [(it.sequence, it.reason) for it in sim.dead_letters("moody")] == [
            (2, "parked-at-end"), (3, "parked-at-end"),
        ]  # fmt: skip
        sim.check_invariants()


def test_a_dialog_with_more_behind_its_message_than_allowed_breaks() -> None:
    moody = Moody(PoisonPolicy(delays=SLOW))
    settings = WorkerSettings(
        patience=timedelta(0), revocation=timedelta(0), limits=Limits(parked_messages=2, parked_bytes=100_000)
    )
    with Simulation(moody.service, raise_failures=False, settings=settings) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        for text in ("a 9", "b", "c", "d"):
            dialog.send(Say(text=text))
        sim.run()
        assert dialog.error
        assert dialog.error.code < 0
        assert [letter.sequence for letter in sim.dead_letters("moody")] == [0, 1, 2, 3]
        sim.check_invariants()


def test_a_long_queue_behind_a_message_drains_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conversations.worker.turns.SLICE", 3)
    moody = Moody(PoisonPolicy(delays=[5 * SECOND]))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        dialog.send(Say(text="a 1"))
        for number in range(20):
            dialog.send(Say(text=f"b{number}"))
        sim.run()
        before = sim.worker("moody").counts.commits
        sim.advance(5 * SECOND)
        assert moody.handled == ["a", *(f"b{number}" for number in range(20))]
        assert sim.worker("moody").counts.commits - before >= 7
        sim.check_invariants()


class Ringing:
    """A service whose timer fails as often as it is told to."""

    def __init__(self, times: int, *poison: PoisonPolicy) -> None:
        self.times = times
        self.rings: list[int] = []
        self.service: Service[dict[str, Any]] = Service("ringing", accepts=[ECHO], poison=poison)

        @self.service.on(Say)
        def say(body: Say, dialog: Dialog) -> None:
            dialog.set_timer(float(body.text) * SECOND)

        @self.service.on_timer()
        def ring(dialog: Dialog) -> None:
            self.rings.append(len(self.rings))
            if len(self.rings) <= self.times:
                raise ValueError("ring")
            dialog.send(Say(text="rang"))


@pytest.mark.parametrize("crashes", [False, True])
def test_a_timer_follows_its_policy_without_parking(crashes: bool) -> None:
    ringing = Ringing(2, PoisonPolicy(delays=SLOW))
    with Simulation(ringing.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("ringing", ECHO)
        dialog.send(Say(text="1"))
        sim.advance(1 * SECOND)
        if crashes:
            sim.crash("ringing")
        sim.advance(4 * SECOND)
        assert len(ringing.rings) == 1, "a restart neither tries again nor forgets"
        sim.advance(1 * SECOND)
        assert len(ringing.rings) == 2
        if crashes:
            sim.crash("ringing")
        sim.advance(60 * SECOND)
        assert (len(ringing.rings), texts(dialog)) == (3, ["rang"])
        sim.advance(timedelta(minutes=10))
        assert len(ringing.rings) == 3
        sim.check_invariants()


def test_a_timer_does_not_wait_for_what_is_parked() -> None:
    ringing = Ringing(0, PoisonPolicy(delays=SLOW))
    with Simulation(ringing.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("ringing", ECHO)
        for text in ("2", "no number"):
            dialog.send(Say(text=text))
        sim.run()
        (it,) = sim.parked("ringing")
        assert (ringing.rings, it.number) == ([], 1)
        sim.advance(2 * SECOND)
        assert (ringing.rings, texts(dialog)) == ([0], ["rang"])
        assert [it.number for it in sim.parked("ringing")] == [1]
        sim.check_invariants()


def test_a_timer_that_is_set_anew_forgets_that_it_failed() -> None:
    ringing = Ringing(1, PoisonPolicy(delays=[60 * SECOND]))
    with Simulation(ringing.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("ringing", ECHO)
        dialog.send(Say(text="1"))
        sim.advance(2 * SECOND)
        dialog.send(Say(text="10"))
        sim.crash("ringing")
        sim.advance(9 * SECOND)
        assert len(ringing.rings) == 1
        sim.advance(1 * SECOND)
        assert (len(ringing.rings), texts(dialog)) == (2, ["rang"])
        sim.advance(timedelta(minutes=2))
        assert len(ringing.rings) == 2
        sim.check_invariants()


def test_what_waits_is_shown_on_the_topic_of_its_delay() -> None:
    moody = Moody(PoisonPolicy(delays=SLOW, jitter=SECOND))
    with Simulation(moody.service, raise_failures=False) as sim:
        sim.peer("web").begin_dialog("moody", ECHO).send(Say(text="a 2"))
        sim.advance(7 * SECOND)
        sim.peer("web").begin_dialog("moody", ECHO).send(Say(text="b later"))
        sim.run()
        shown = {
            delay: [dict(record.headers() or ()) for record in visible(sim.broker, f"conv.moody.retry.{delay}")]
            for delay in ("5s", "1m")
        }
        assert [(head["dl.attempts"], head["dl.reason"]) for head in shown["1m"]] == [(b"2", b"waits")]
        assert [head["dl.attempts"] for head in shown["5s"]] == [b"1", b"0"], (
            "30 s are shown as the longest delay below"
        )
        due = int(shown["1m"][0]["dl.due"])
        assert due == min(it.due or 0 for it in sim.parked("moody") if it.attempts == 2)


@pytest.mark.parametrize("when", ["from the start", "while it runs"])
def test_a_wait_needs_no_topic_to_be_shown_on(when: str) -> None:
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False) as sim:
        if when == "while it runs":
            sim.run()
        for delay in ("5s", "1m"):
            del sim.broker.topics[f"conv.moody.retry.{delay}"]
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        for text in ("a 2", "b"):
            dialog.send(Say(text=text))
        sim.advance(66 * SECOND)
        assert texts(dialog) == ["a", "b"]
        sim.check_invariants()
