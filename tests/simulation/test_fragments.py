"""Fragments: a large message goes in several records, and its handler gets it once, whole and in its order."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from conversations import Contract, Dialog, PeerError, PoisonPolicy, Service, Then
from conversations.config import Limits, WorkerSettings
from conversations.ports import Out
from conversations.protocol import rows
from conversations.protocol.envelope import Kind, decode, encode
from conversations.protocol.integrity import CRC, checksum
from conversations.protocol.topics import QUEUE, service_topic
from conversations.testing import Simulation
from conversations.testing.reading import visible
from conversations.worker import unacknowledged
from conversations.worker.budget import Budget
from tests.simulation.support.records import events_of, queued, rows_of
from tests.simulation.support.services import ECHO, Say
from tests.simulation.support.two_clusters import Both, Word, begin

LONG = "long" * 25
"""A text of 100 bytes: a body in four fragments of 32 bytes."""


def settings(**limits: int) -> WorkerSettings:
    return WorkerSettings(
        patience=timedelta(0),
        revocation=timedelta(0),
        limits=Limits(**({"fragment_bytes": 32, "body_bytes": 1_000} | limits)),
    )


def world(both: Both, *, far: bool = False, **more: Any) -> Simulation:
    options: dict[str, Any] = {"settings": settings()} | more
    return Simulation(both.here, both.there, far=["there"] if far else [], **options)


def fragments(sim: Simulation, service: str) -> list[tuple[int, int, int]]:
    """Return number, fragment and fragments of each MESSAGE in the queue of a service."""
    return [
        (it.seq, it.fragment, it.fragments)
        for it in queued(sim, service)
        if it.kind is Kind.MESSAGE and it.prefix.contract == "Talk"
    ]


def left(sim: Simulation) -> list[bytes]:
    """Return the keys of all rows of fragments."""
    return [key for broker in sim.brokers for name in broker.services for key in rows_of(sim, name, rows.FRAGMENT)]


@pytest.mark.parametrize("far", [False, True])
def test_a_long_message_comes_whole_between_short_ones(far: bool) -> None:
    both = Both()
    with world(both, far=far) as sim:
        begin(sim, "a", LONG, "b", "last")
        sim.run()
        sim.advance(timedelta(seconds=30))
        assert list(both.heard.values()) == list(both.answers.values()) == [["a", LONG, "b", "last"]]
        assert fragments(sim, "there") == [(0, 0, 1), (1, 0, 4), (2, 1, 4), (3, 2, 4), (4, 3, 4), (5, 0, 1), (6, 0, 1)]
        assert left(sim) == []
        sim.check_invariants()


def test_only_a_lost_fragment_is_sent_again() -> None:
    both = Both()
    with world(both, far=True) as sim:
        lost: list[int] = []

        def lose(out: Out) -> bool:
            envelope = decode(out.value or b"")
            if envelope.seq != 2 or envelope.kind is not Kind.MESSAGE or envelope.prefix.to_service != "there" or lost:
                return False
            lost.append(envelope.seq)
            return True

        sim.wire.lose = lose
        begin(sim, "a", LONG, "last")
        sim.run()
        sim.advance(timedelta(seconds=60))
        assert list(both.heard.values()) == [["a", LONG, "last"]]
        numbers = sorted(number for number, _, _ in fragments(sim, "there"))
        assert numbers == [0, 1, 2, 3, 4, 5], "the lost one was sent twice, and arrived once"
        sim.check_invariants()


def test_many_lost_fragments_that_are_asked_for_in_one_step_break_no_dialog() -> None:
    """The step may transmit two fragments, and more dialogs than two miss one: none of them hears that its fragment is not kept."""
    both = Both()
    with world(both, far=True, settings=settings(flow_bytes=FLOW), partitions=1) as sim:
        lost: set[bytes] = set()

        def lose(out: Out) -> bool:
            envelope = decode(out.value or b"")
            is_one = envelope.kind is Kind.MESSAGE and envelope.prefix.to_service == "there" and envelope.fragment == 1
            if not is_one or envelope.prefix.conversation_id in lost:
                return False
            lost.add(envelope.prefix.conversation_id)
            return True

        sim.wire.lose = lose
        for _ in range(8):
            begin(sim, LONG, "last")
        sim.run()
        sim.advance(timedelta(minutes=2))
        assert len(lost) == 8
        assert list(both.heard.values()) == [[LONG, "last"]] * 8
        sim.check_invariants()


FLOW = 400
"""Bytes of two fragments: those of ``LONG`` in a world with this limit need two steps."""


@pytest.mark.parametrize("far", [False, True])
def test_other_dialogs_go_on_between_the_fragments_that_one_step_transmits(far: bool) -> None:
    both, longer = Both(), LONG * 8
    with world(both, far=far, settings=settings(flow_bytes=FLOW), partitions=1) as sim:
        begin(sim, longer, "b", "last")
        begin(sim, "short", "last")
        sim.run()
        sim.advance(timedelta(seconds=30))
        assert sorted(both.heard.values()) == [[longer, "b", "last"], ["short", "last"]]
        order = [it.fragments for it in queued(sim, "there") if it.kind is Kind.MESSAGE]
        assert 1 in order[: max(order)], "the short one does not wait for all fragments"
        assert order[-1] == 1, "what follows comes after all fragments"
        assert rows_of(sim, "here", rows.DELAYED) == []
        sim.check_invariants()


def test_a_step_takes_only_so_many_bytes_of_fragments() -> None:
    pair = Pair(resend="off")
    with pair.world(settings=settings(flow_bytes=FLOW)) as sim:
        pair.say(sim, "a")
        sim.run()
        topic = service_topic(sim.broker.namespace, "target", QUEUE)
        forged = [forge(sim, topic, 1 + at, fragment=at, fragments=40) for at in range(39)]
        for out in forged:
            sim.broker_of("target").append(out)
        sim.worker("target").step()
        assert 3 <= len(left(sim)) <= 3 + Budget.LOOK_EVERY
        sim.run()
        assert len(left(sim)) == 39


def test_each_step_transmits_a_few_fragments() -> None:
    both, longer = Both(), LONG * 8
    with world(both, settings=settings(flow_bytes=FLOW)) as sim:
        begin(sim, longer, "last")
        waiting = [0]
        while waiting[-1] or not max(waiting):
            sim._round()
            waiting.append(len(rows_of(sim, "here", rows.DELAYED)))
        waiting = waiting[waiting.index(max(waiting)) :]
        assert len(waiting) > 10
        assert max(before - after for before, after in pairwise(waiting)) <= 3, (
            "two fragments, and what follows the last"
        )
        sim.run()
        assert list(both.heard.values()) == [[longer, "last"]]


def test_fragments_that_wait_for_the_next_step_survive_the_death_of_their_owner() -> None:
    both = Both()
    with world(both, settings=settings(flow_bytes=FLOW)) as sim:
        begin(sim, LONG, "last")
        while not rows_of(sim, "here", rows.DELAYED):
            sim._round()
        sim.crash("here")
        sim.run()
        assert list(both.heard.values()) == [[LONG, "last"]]
        assert fragments(sim, "there") == [(0, 0, 4), (1, 1, 4), (2, 2, 4), (3, 3, 4), (4, 0, 1)]
        sim.check_invariants()


def refused_for_a_while(sim: Simulation) -> None:
    """Begin a dialog with a long message while the queue there refuses records. Then the queue takes records again, before the next step."""
    begin(sim, "a")
    sim.run()
    queue = sim.broker.topics.pop(service_topic(sim.broker.namespace, "there", QUEUE))
    begin(sim, LONG, "last")
    sim.run()
    assert len(rows_of(sim, "here", rows.DELAYED)) == 5
    sim.broker.topics[service_topic(sim.broker.namespace, "there", QUEUE)] = queue


def test_fragments_keep_their_order_when_the_queue_refuses_the_first_of_them() -> None:
    both = Both()
    with world(both, settings=settings(flow_bytes=FLOW)) as sim:
        refused_for_a_while(sim)
        sim.advance(timedelta(minutes=2))
        assert sorted(both.heard.values()) == [["a"], [LONG, "last"]]
        assert fragments(sim, "there")[1:] == [(0, 0, 4), (1, 1, 4), (2, 2, 4), (3, 3, 4), (4, 0, 1)]
        sim.check_invariants()


class Pair:
    """A service that sends texts when told to, and one whose handler fails as long as a test wants. Both keep what they were given."""

    def __init__(self, poison: PoisonPolicy | None = None, resend: Any = "automatic") -> None:
        self.talk = Contract("Talk", sent_by_initiator=[Word], lifetime=timedelta(hours=1), resend=resend)
        self.fails: Callable[[str], bool] = lambda text: False
        self.heard: list[str] = []
        self.pending: list[list[str]] = []
        self.codes: list[int] = []
        self.attempts = 0
        self.source: Service[Any] = Service("source", initiates=[self.talk], accepts=[ECHO])
        self.target: Service[Any] = Service("target", accepts=[self.talk], poison=[poison] if poison else [])

        @self.source.on(Say, contract=ECHO)
        def inlet(message: Say, dialog: Dialog[Any]) -> None:
            speaker = dialog.group.begin_dialog("target", self.talk, related=False)
            for text in message.text.split():
                speaker.send(Word(text=text))

        @self.source.on_error(self.talk)
        def broken(error: PeerError, dialog: Dialog[Any]) -> None:
            self.codes.append(error.code)
            self.pending.append([it.body.text for it in dialog.pending])

        @self.target.on(Word)
        def hear(message: Word, dialog: Dialog[Any]) -> None:
            self.attempts += 1
            if self.fails(message.text):
                raise ValueError("no")
            self.heard.append(message.text)

        @self.target.on_error()
        def ended(error: PeerError, dialog: Dialog[Any]) -> None:
            self.codes.append(error.code)

    def world(self, *, far: bool = False, **more: Any) -> Simulation:
        options: dict[str, Any] = {"settings": settings(), "raise_failures": False} | more
        return Simulation(self.source, self.target, far=["target"] if far else [], **options)

    def say(self, sim: Simulation, *texts: str) -> None:
        sim.peer("web").begin_dialog("source", ECHO).send(Say(text=" ".join(texts)))


def whole_letters(sim: Simulation, service: str) -> list[tuple[str, int, str]]:
    """Return reason, number of fragments and body of each dead letter."""
    return [(it.reason, it.fragments, decode(it.value).body.decode()) for it in sim.dead_letters(service)]


def test_a_long_message_that_fails_is_tried_again_whole_and_those_behind_wait() -> None:
    pair = Pair(PoisonPolicy(delays=[timedelta(minutes=1)] * 3))
    pair.fails = lambda text: text == LONG and pair.attempts < 3
    with pair.world() as sim:
        pair.say(sim, "a", LONG, LONG + "2", "b")
        sim.run()
        sim.advance(timedelta(minutes=10))
        assert pair.heard == ["a", LONG, LONG + "2", "b"]
        assert left(sim) == []
        sim.check_invariants()


def test_a_long_message_survives_the_death_of_its_owner_in_the_middle() -> None:
    pair = Pair(PoisonPolicy(delays=[timedelta(minutes=1)] * 9))
    pair.fails = lambda text: text == LONG
    with pair.world() as sim:
        pair.say(sim, "a", LONG, "b")
        sim.run()
        assert len(left(sim)) == 3
        sim.crash("target")
        pair.fails = lambda text: False
        sim.advance(timedelta(minutes=10))
        assert pair.heard == ["a", LONG, "b"]
        assert left(sim) == []
        sim.check_invariants()


@pytest.mark.parametrize("then", [Then.SKIP, Then.END_DIALOG])
def test_the_dead_letter_of_a_long_message_is_whole(then: Then) -> None:
    pair = Pair(PoisonPolicy(delays=[], then=then))
    pair.fails = lambda text: text == LONG
    with pair.world() as sim:
        pair.say(sim, "a", LONG, "b")
        sim.run()
        ((reason, count, body), *_) = whole_letters(sim, "target")
        assert (reason, count, LONG in body) == ("handler-failed", 4, True)
        assert left(sim) == []
        sim.check_invariants()


def broken_in_the_middle(sim: Simulation, pair: Pair) -> None:
    """Let the target break a dialog of which the first fragments of a message have arrived, and the rest has not."""
    sim.wire.lose = lambda out: (it := decode(out.value or b"")).prefix.to_service == "target" and it.seq > 2
    pair.say(sim, "a", LONG, "b")
    sim.advance(timedelta(seconds=2))
    assert [number for number, *_ in fragments(sim, "target")] == [0, 1, 2]
    assert len(left(sim)) == 2
    topic = service_topic(sim.broker.namespace, "target", QUEUE)
    sim.broker_of("target").append(forge(sim, topic, -1, kind=Kind.ERROR, code=-8462, body=b""))
    sim.run()
    assert left(sim) == []


def test_a_dialog_that_breaks_in_the_middle_of_a_message_gives_it_back_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer keeps its fragments, so the new dialog has the whole message, and nothing of it is handled twice."""
    monkeypatch.setattr(unacknowledged, "ROW_BYTES", 1)  # each fragment has a row of its own, as large ones have
    pair = Pair()
    with pair.world(far=True) as sim:
        broken_in_the_middle(sim, pair)
        assert whole_letters(sim, "target") == []
        sim.wire.lose = lambda _: False
        sim.advance(timedelta(minutes=10))
        assert pair.heard == ["a", LONG, "b"]
        sim.check_invariants()


def test_a_message_that_the_peer_took_only_in_part_is_pending_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unacknowledged, "ROW_BYTES", 1)
    pair = Pair(resend="by-hand")
    with pair.world(far=True) as sim:
        broken_in_the_middle(sim, pair)
        sim.wire.lose = lambda _: False
        sim.advance(timedelta(minutes=10))
        assert pair.pending == [[LONG, "b"]]
        assert [(reason, count) for reason, count, _ in whole_letters(sim, "source")] == [
            ("undeliverable", 4),
            ("undeliverable", 1),
        ]
        assert pair.heard == ["a"]
        sim.check_invariants()


@pytest.mark.parametrize("flow", [FLOW, 100_000])
@pytest.mark.parametrize(
    ("far", "most"), [(far, most) for far in (False, True) for most in range(350 if far else 150, 850, 50)]
)
def test_a_message_is_kept_whole_or_not_at_all(far: bool, flow: int, most: int) -> None:
    """A limit may be reached while fragments of the message before are still to be transmitted, or in the middle of a message."""
    pair = Pair(resend="by-hand")
    limits = {"flow_bytes": flow, "unacknowledged_bytes" if far else "dialog_bytes": most}
    with pair.world(far=far, settings=settings(**limits), partitions=1) as sim:
        said: dict[int, bool] = {}

        def stop(out: Out) -> bool:
            is_said = out.topic.endswith((".target.queue", ".transmission"))
            envelope = decode(out.value or b"") if is_said else None
            if envelope is None or envelope.kind is not Kind.MESSAGE or envelope.prefix.to_service != "target":
                return False
            said.setdefault(envelope.seq, envelope.prefix.resends)
            return True

        if far:
            sim.wire.lose = stop
        else:
            sim.broker.stop = stop
        pair.say(sim, "a", LONG, LONG + "2", LONG + "3", "b")
        sim.run()
        (event,) = events_of(sim, "NOT_KEPT")
        assert event["sequence"] in (1, 5, 9, 13), "the first number of a message"
        assert said == {number: number < event["sequence"] for number in range(14)}


def test_large_messages_come_back_one_after_the_other() -> None:
    """All of them become dead letters in one transaction. They are in memory, and besides them one row at a time: here, of ten messages."""
    pair, count, size = Pair(), 12, 60_000
    with pair.world(far=True, settings=settings(fragment_bytes=6_000, body_bytes=1_000_000), partitions=1) as sim:
        sim.wire.lose = lambda out: decode(out.value or b"").prefix.to_service == "target"
        pair.say(sim, *("x" * size for _ in range(count)))
        sim.advance(timedelta(minutes=59))
        letters = sim.dead_letters("source")
        tracemalloc.start()
        try:
            while not letters:
                sim.advance(timedelta(minutes=1))
                letters = sim.dead_letters("source")
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert [(it.reason, it.fragments) for it in letters] == [("undeliverable", 11)] * count
        assert most < 3.5 * count * size


@pytest.mark.parametrize(("most", "not_kept"), [(150, [4]), (300, [])])
def test_what_a_queue_refuses_and_the_sender_keeps_is_transmitted_as_kept(most: int, not_kept: list[int]) -> None:
    """Its bytes count already, so they do not count a second time when the queue takes records again."""
    both = Both()
    with world(both, settings=settings(dialog_bytes=most)) as sim:
        refused_for_a_while(sim)
        assert len(rows_of(sim, "here", rows.UNACKNOWLEDGED)) == 1, "they are kept as well"
        sim.advance(timedelta(minutes=2))
        said = [it for it in queued(sim, "there") if it.kind is Kind.MESSAGE]
        assert [it.seq for it in said] == [0, *range(5)]
        assert [it.seq for it in said if not it.prefix.resends] == not_kept
        assert [it["sequence"] for it in events_of(sim, "NOT_KEPT")] == not_kept


def test_fragments_of_a_sender_that_keeps_nothing_become_dead_letters_one_by_one() -> None:
    pair = Pair(resend="off")
    with pair.world() as sim:
        pair.say(sim, "a", LONG)
        sim.run()
        topic = service_topic(sim.broker.namespace, "target", QUEUE)
        assert pair.heard == ["a", LONG]
        forged = forge(sim, topic, 5, fragment=0, fragments=3), forge(sim, topic, 6, fragment=1, fragments=3)
        for out in (*forged, forge(sim, topic, -1, kind=Kind.ERROR, code=-8462, body=b"")):
            sim.broker_of("target").append(out)
        sim.run()
        assert [(it.reason, it.sequence) for it in sim.dead_letters("target")] == [
            ("held-at-end", 5),
            ("held-at-end", 6),
        ]
        assert left(sim) == []


@pytest.mark.parametrize(
    "wrong",
    [
        [{"fragment": 1, "fragments": 3}],
        [{"fragment": 0, "fragments": 3}, {"fragment": 2, "fragments": 3}],
        [{"fragment": 0, "fragments": 3}, {"fragment": 1, "fragments": 4}],
        [{"fragment": 0, "fragments": 3}, {"fragment": 1, "fragments": 3, "message_type": "Other"}],
        [{"fragment": 0, "fragments": 3}, {"fragment": 0, "fragments": 1}],
        [{"fragment": 0, "fragments": 3}, {"fragment": 1, "fragments": 3, "body": b"x" * 2_000}],
    ],
)
def test_what_is_not_the_next_fragment_breaks_the_dialog(wrong: list[dict[str, Any]]) -> None:
    pair = Pair(resend="off")
    with pair.world() as sim:
        pair.say(sim, "a")
        sim.run()
        topic = service_topic(sim.broker.namespace, "target", QUEUE)
        for number, fields in enumerate(wrong, 1):
            sim.broker_of("target").append(forge(sim, topic, number, **fields))
        sim.run()
        assert pair.codes == [-8462, -8462], "both sides are told"
        assert len(sim.dead_letters("target")) == len(wrong), "all bytes are kept"
        assert left(sim) == []


def test_too_many_bytes_of_fragments_break_the_dialog_of_the_next_message() -> None:
    pair = Pair(PoisonPolicy(delays=[]), resend="off")
    pair.fails = lambda text: text == LONG
    with pair.world(settings=settings(assembled_bytes=50)) as sim:
        pair.say(sim, "a", LONG)
        sim.run()
        assert pair.codes == []
        for partition in range(6):
            pair.say(sim, str(partition), LONG + "2")
            sim.run()
        assert -8462 in pair.codes
        assert set(pair.codes) == {-8462}
        refused = [it for it in sim.dead_letters("target") if it.reason == "breach"]
        assert len(refused) == len(pair.codes) // 2
        assert pair.heard.count(LONG + "2") == 6 - len(refused)
        sim.check_invariants()


def forge(sim: Simulation, topic: str, number: int, **fields: Any) -> Out:
    """Return a record like the first of a queue, with this number and these fields."""
    record = next(iter(visible(sim.broker_of("target"), topic)))
    value = encode(replace(decode(record.value() or b""), seq=number, **fields))
    return Out(
        topic,
        record.partition(),
        record.key(),
        value,
        [(CRC, checksum(record.key(), value))],
    )
