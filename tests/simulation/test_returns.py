"""Much that the peer of an ended dialog has not accepted comes back over several steps: each message once, in order, whatever happens meanwhile."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from conversations.config import WorkerSettings
from conversations.protocol import codes, rows
from conversations.protocol.endpoint import NEVER
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.returning import decode_returning
from conversations.protocol.rows import Tombstone
from conversations.protocol.topics import DEAD_LETTER, QUEUE, service_topic
from conversations.testing import Simulation
from conversations.testing.reading import endpoints, state_of, visible
from conversations.worker import returns, unacknowledged
from conversations.worker.budget import Budget
from conversations.worker.transmission import Refusal
from conversations_ops.operate.open_letters import letter_in
from tests.simulation.support.records import events_of, queued, rows_of
from tests.simulation.test_fragments import LONG, Pair, settings
from tests.support.forms import python_form

SAID = ["a", LONG, *(f"m{number}" for number in range(9)), LONG + "2", "b"]
"""Two messages of four fragments among eleven of one."""
NUMBERS = [0, 4, *range(5, 14), 17, 18]
"""The numbers of their last fragments."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part has two short messages, or one long message."""
    monkeypatch.setattr(returns, "PART_BYTES", 200)
    monkeypatch.setattr(unacknowledged, "ROW_BYTES", 300)


def narrow() -> WorkerSettings:
    """Return settings with which a step has no room beyond the part that it may always have."""
    return settings(step_bytes=1)


def parts(sim: Simulation, *, crash: bool = False) -> Iterator[int]:
    """Step the source until nothing is left to come back. Yield the number of letters after each step that wrote some."""
    before = len(sim.dead_letters("source"))
    for _ in range(1_000):
        if not before:
            sim.clock.advance(1_000_000)
        sim.worker("source").step(0)
        now = len(sim.dead_letters("source"))
        if now > before:
            yield now - before
            if crash:
                sim.crash("source")
        elif before and not rows_of(sim, "source", rows.RETURNING):
            return
        before = now
    raise AssertionError("it goes on for ever")


def check_all_is_back(sim: Simulation) -> None:
    letters = sim.dead_letters("source")
    assert [(it.reason, it.sequence) for it in letters] == [("undeliverable", number) for number in NUMBERS]
    assert [decode(it.value).body.decode() for it in letters] == [f'{{"text":"{text}"}}' for text in SAID]
    assert [it.fragments for it in letters] == [4 if text.startswith(LONG) else 1 for text in SAID]
    (event,) = events_of(sim, "UNDELIVERED")
    assert event["envelopes"] == len(SAID)
    (tombstone,) = [it for it in endpoints(sim.broker, "source").values() if isinstance(it, Tombstone) and it.returned]
    assert tombstone.returned == len(SAID)
    for kind in (rows.RETURNING, rows.UNACKNOWLEDGED, rows.DELAYED):
        assert rows_of(sim, "source", kind) == []
    (partition,) = sim.worker("source").partitions.values()
    assert partition.unacknowledged.bytes == partition.waiting.delayed.bytes == 0


@pytest.mark.parametrize("crash", [False, True])
def test_what_another_cluster_did_not_accept_comes_back_in_parts(crash: bool) -> None:
    pair = Pair()
    with pair.world(far=True, settings=narrow(), partitions=1) as sim:
        sim.wire.lose = lambda out: decode(out.value or b"").prefix.to_service == "target"
        pair.say(sim, *SAID)
        sim.advance(timedelta(minutes=59))
        assert sim.dead_letters("source") == []
        found = list(parts(sim, crash=crash))
        assert len(found) > 5
        assert max(found) <= 2
        sim.run()
        check_all_is_back(sim)
        sim.check_invariants()


@pytest.mark.parametrize("crash", [False, True])
def test_what_a_queue_did_not_take_comes_back_in_parts(crash: bool) -> None:
    pair = Pair(resend="off")
    with pair.world(settings=narrow(), partitions=1) as sim:
        sim.broker.forbidden.add(service_topic(sim.broker.namespace, "target", QUEUE))
        pair.say(sim, *SAID)
        sim.advance(timedelta(minutes=59))
        assert len(rows_of(sim, "source", rows.DELAYED)) == NUMBERS[-1] + 1
        done = 0
        for count in parts(sim, crash=crash):
            done += count
            assert done == len(SAID) or queued(sim, "target") == []
            sim.broker.forbidden.clear()  # in the middle, the queue takes records again
            sim.clock.advance(60_000_000)
        sim.advance(timedelta(minutes=3))
        assert [it.kind for it in queued(sim, "target")] == [], "both sides know the end of the lifetime"
        check_all_is_back(sim)
        sim.check_invariants()


def test_what_comes_back_is_not_refused_as_well() -> None:
    """An envelope of the dialog is refused for good meanwhile. The messages are dead letters for one reason."""
    pair = Pair(resend="off")
    with pair.world(settings=narrow(), partitions=1) as sim:
        queue = service_topic(sim.broker.namespace, "target", QUEUE)
        sim.broker.forbidden.add(queue)
        pair.say(sim, *SAID)
        sim.advance(timedelta(minutes=59))
        (partition,) = sim.worker("source").partitions.values()
        for _ in parts(sim):
            for own in partition.transmission.returning:
                partition.transmission.give_up(own, Refusal(queue, codes.NOT_PERMITTED, "no"))
        sim.run()
        assert {it.code for it in sim.dead_letters("source")} == {-8489}
        assert partition.transmission.refused == {}
        check_all_is_back(sim)


def test_what_comes_back_is_not_forgotten_with_its_dialog() -> None:
    """The worker is away after the first part, until log time has passed the grace of the tombstone."""
    pair = Pair(resend="off")
    with pair.world(settings=narrow(), partitions=1) as sim:
        sim.broker.forbidden.add(service_topic(sim.broker.namespace, "target", QUEUE))
        pair.say(sim, *SAID)
        sim.advance(timedelta(minutes=59))
        assert next(parts(sim)) < len(SAID)
        sim.crash("source")
        sim.clock.advance(24 * 3_600_000_000)
        pair.say(sim, "x")  # log time moves
        sim.run()
        sim.advance(timedelta(minutes=3))
        assert [it.sequence for it in sim.dead_letters("source")][: len(NUMBERS)] == NUMBERS
        assert rows_of(sim, "source", rows.RETURNING) == []


@pytest.mark.parametrize("size", [12_000, 20_000])
def test_what_is_refused_in_the_step_that_ends_its_dialog_comes_back(size: int) -> None:
    """The step releases some delayed envelopes, ends their dialog, and its commit is refused. They are delayed again, in front of the others."""
    pair, count = Pair(resend="off"), 140
    with pair.world(settings=settings(step_bytes=size, flow_bytes=100), partitions=1) as sim:
        sim.broker.forbidden.add(service_topic(sim.broker.namespace, "target", QUEUE))
        pair.say(sim, *(f"m{number}" for number in range(count)))
        sim.advance(timedelta(minutes=59))
        (partition,) = sim.worker("source").partitions.values()
        while not sim.dead_letters("source"):
            sim.clock.advance(1_000_000)
            if partition.next_deadline() <= sim.clock.now():
                partition.context.destinations.blocked.clear()  # its pause ends in this very step
            sim.worker("source").step(0)
        sim.broker.forbidden.clear()
        sim.advance(timedelta(minutes=5))
        back = sorted(it.sequence for it in sim.dead_letters("source"))
        sent = sorted(it.seq for it in queued(sim, "target") if it.kind is Kind.MESSAGE)
        assert sorted(back + sent) == list(range(count))
        sim.check_invariants()


@pytest.mark.parametrize("dialogs", [1, 3])
def test_no_two_letters_have_the_same_source(dialogs: int) -> None:
    """Operators tell letters apart by their source. Each part, or each dialog, has another owner."""
    pair = Pair()
    with pair.world(far=True, settings=narrow(), partitions=1) as sim:
        sim.wire.lose = lambda out: decode(out.value or b"").prefix.to_service == "target"
        for _ in range(dialogs):
            pair.say(sim, *SAID)
            sim.advance(timedelta(minutes=59))
            for _ in range(100 if dialogs == 1 else 1):
                sim.clock.advance(60_000_000)
                sim.worker("source").step(0)
                sim.crash("source")
            sim.advance(timedelta(minutes=30))
        records = visible(sim.broker, service_topic(sim.broker.namespace, "source", DEAD_LETTER))
        sources = [letter_in("source", it) for it in records]
        assert len({(it.topic, it.partition, it.offset) for it in sources}) == len(sources) == dialogs * len(SAID)


def test_a_part_takes_the_room_that_the_step_has() -> None:
    pair = Pair()
    with pair.world(far=True, partitions=1) as sim:
        sim.wire.lose = lambda out: decode(out.value or b"").prefix.to_service == "target"
        pair.say(sim, *SAID)
        sim.advance(timedelta(minutes=59))
        assert list(parts(sim)) == [len(SAID)]
        check_all_is_back(sim)


@python_form
def test_a_step_whose_time_ends_in_the_middle_of_a_message_takes_the_whole_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has room at the first fragment of the second message, and none at the others."""
    looks: list[int] = []

    def is_read(_: Budget, _until: int = NEVER) -> bool:
        looks.append(len(looks))
        return len(looks) % 2 == 0

    pair = Pair(resend="off")
    with pair.world(partitions=1) as sim:
        sim.broker.forbidden.add(service_topic(sim.broker.namespace, "target", QUEUE))
        pair.say(sim, *SAID)
        sim.advance(timedelta(minutes=59))
        monkeypatch.setattr(Budget, "is_read", is_read)
        monkeypatch.setattr(returns, "PART_BYTES", 1)
        assert len(list(parts(sim))) > 5
        check_all_is_back(sim)


def test_the_row_says_how_far_it_is() -> None:
    pair = Pair()
    with pair.world(far=True, settings=narrow(), partitions=1) as sim:
        sim.wire.lose = lambda out: decode(out.value or b"").prefix.to_service == "target"
        pair.say(sim, *SAID)
        sim.advance(timedelta(minutes=59))
        assert next(parts(sim)) == 2
        ((key, row),) = [
            it for table in state_of(sim.broker, "source") for it in table.items() if it[0][:1] == rows.RETURNING
        ]
        found = decode_returning(row)
        assert (found.after, found.returned, found.code, found.is_uncertain) == (NUMBERS[1], 2, -8489, True)
        assert key[1:] == rows.identity(key[1:17], True)
