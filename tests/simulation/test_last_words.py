"""The last word of a side reaches its peer, also if something was dropped before: no side waits for an answer that nobody will give."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

import pytest

from conversations.config import Limits, WorkerSettings
from conversations.ports import Out
from conversations.protocol import rows
from conversations.protocol.command import (
    Begin,
    Cleanup,
    Command,
    End,
    EndWithError,
    Operation,
    Send,
    encode_command,
    topic_for,
)
from conversations.protocol.contract import Resend
from conversations.protocol.envelope import Kind
from conversations.protocol.topics import QUEUE, service_topic
from conversations.testing import Simulation
from conversations.testing.reading import endpoints
from conversations.testing.said import said
from conversations.worker import returns
from tests.simulation.support import records
from tests.simulation.support.matrix.services import CONTRACTS, services

SECOND = timedelta(seconds=1)
LONG = timedelta(minutes=3)
"""Longer than all pauses between two attempts, and shorter than an initiator asks its peer."""
PLAIN, FAILING = 3, 1
"""The last digit of an id: its handler of errors does nothing, or fails and waits for an operator."""


class Dialog:
    """A dialog of an unlimited lifetime between ``caller`` and ``desk``, whose first message is handled."""

    def __init__(self, sim: Simulation, *, on_error: int, resend: Resend) -> None:
        self.sim = sim
        number = next(it for it in range(64) if records.drawn(sim, it).int % 4 == on_error)
        self.conversation: UUID = records.drawn(sim, number)
        self.said = 0
        self.ask("caller", Begin("desk", CONTRACTS[resend, False].name, -1, ""), self.line())
        sim.advance(SECOND)

    def line(self, size: int = 1) -> Send:
        """Return the operation that sends the next message."""
        self.said += 1
        return Send("Line", "application/json", b'{"text":"i%d %s"}' % (self.said, b"x" * size))

    def ask(self, service: str, *operations: Operation) -> None:
        """Let a side do something, in the next ``run``."""
        key = str(self.conversation)
        command = Command(
            self.sim.chance.random.randbytes(16), self.conversation.bytes, service == "caller", key, "", service,
            self.sim.clock.now(), operations,
        )  # fmt: skip
        self.sim.broker.append_keyed(service, topic_for(command), key.encode(), encode_command(command))

    def do(self, service: str, *operations: Operation) -> None:
        """Let a side do something now."""
        self.ask(service, *operations)
        self.sim.run()

    @contextmanager
    def away(self, service: str) -> Iterator[None]:
        """Let the queue of a service take no records for a while. Afterwards nothing waits for it any more."""
        topic = service_topic(self.sim.broker.namespace, service, QUEUE)
        self.sim.broker.forbidden.add(topic)
        yield
        self.sim.broker.forbidden.clear()
        self.sim.advance(LONG)

    def lose(self, size: int = 1) -> None:
        """Let the next message of the caller be missing at the desk."""

        def is_missing(out: Out) -> bool:
            return said(out.value)[2:] == (Kind.MESSAGE, 1)

        self.sim.broker.stop = is_missing
        self.do("caller", self.line(size))

    def break_while_the_end_is_tried_again(self, size: int = 1) -> None:
        """Let the desk end after a message of a size, and break in the step that tries its delayed END again. The caller's queue is away."""
        self.lose()
        self.do("caller", self.line())
        self.sim.advance(SECOND)
        self.do("desk", self.line(size), End())
        self.sim.advance(8 * SECOND)
        self.sim.clock.advance(25_000_000)  # the desk does no step meanwhile, so that several deadlines pass together
        self.sim.run()

    @property
    def tombstones(self) -> dict[str, rows.Tombstone]:
        """What is left of both sides, which must be over."""
        assert self.sim.open_dialogs() == []
        found = {service: end for service in ("caller", "desk") for end in endpoints(self.sim.broker, service).values()}
        return {service: end for service, end in found.items() if isinstance(end, rows.Tombstone)}

    @property
    def returned(self) -> list[tuple[int, bool]]:
        """Numbers of the messages that came back to the caller, and if that is uncertain."""
        letters = self.sim.dead_letters("caller")
        return [(it.sequence, it.is_uncertain) for it in letters if it.reason == "undeliverable"]


STEP = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), limits=Limits(step_bytes=1))
"""Settings with which a step has room for one thing only."""


@pytest.fixture(params=[False, True], ids=["whole", "parts"], autouse=True)
def one_by_one(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """True: each message that comes back needs a step of its own, and everything else of its dialog waits meanwhile."""
    if request.param:
        monkeypatch.setattr(returns, "PART_BYTES", 1)
    return bool(request.param)


@contextmanager
def begun(*, on_error: int = PLAIN, resend: Resend = Resend.BY_HAND, roomy: bool = False) -> Iterator[Dialog]:
    """A dialog of two services. In the end the invariants must hold. If ``roomy``, a step always has room for everything that is due."""
    settings = STEP if returns.PART_BYTES == 1 and not roomy else None
    with Simulation(*services(), raise_failures=False, partitions=1, settings=settings) as sim:
        yield Dialog(sim, on_error=on_error, resend=resend)
        sim.check_invariants()


@pytest.mark.parametrize("resend", Resend)
@pytest.mark.parametrize(("ends", "cleaned_up"), [("caller", "desk"), ("desk", "caller")])
def test_an_error_after_a_cleanup_of_the_peer_is_answered(ends: str, cleaned_up: str, resend: Resend) -> None:
    with begun(resend=resend) as dialog:
        dialog.do(cleaned_up, Cleanup())
        dialog.do(ends, EndWithError(7, "enough"))
        assert dialog.tombstones[ends].code == 0, "it is acknowledged, and no error comes back"


def test_an_error_after_a_cleanup_leaves_its_sender_what_the_sender_keeps() -> None:
    with begun() as dialog:
        dialog.do("desk", Cleanup())
        dialog.do("caller", dialog.line(), EndWithError(7, "enough"))
        assert dialog.tombstones["desk"].accepted == 0
        assert dialog.returned == [(1, False)]


def test_an_error_that_meets_an_error_leaves_its_sender_what_the_sender_keeps() -> None:
    with begun(on_error=FAILING) as dialog:
        with dialog.away("caller"):
            dialog.do("desk", EndWithError(8, "enough"))
            dialog.do("caller", dialog.line(), EndWithError(7, "enough"))
        dialog.do("desk", End())
        dialog.do("caller", End())
        assert dialog.tombstones["caller"].code == 8
        assert dialog.returned == [(1, False)]


def test_the_delayed_end_of_a_target_is_the_last_word_for_its_initiator() -> None:
    with begun() as dialog:
        with dialog.away("caller"):
            dialog.do("desk", End())
            dialog.do("caller", dialog.line(), End())
        assert dialog.tombstones["caller"].code == 0
        assert dialog.returned == [(1, False)]


def test_a_side_whose_peer_could_not_be_told_of_a_break_is_told_later() -> None:
    with begun() as dialog:
        with dialog.away("caller"):
            dialog.lose()
            dialog.do("caller", dialog.line())
            dialog.sim.advance(20 * SECOND)
            records.pass_all(dialog.sim)
        assert dialog.tombstones["caller"].code == -8462
        assert dialog.returned == [(1, False), (2, False)]


def test_an_error_behind_messages_that_come_back_leaves_after_them(one_by_one: bool) -> None:
    """The queue takes records again in the middle: the messages come back all the same, and the error reaches the peer."""
    with begun() as dialog:
        sim = dialog.sim
        with dialog.away("caller"):
            dialog.do("desk", *(dialog.line() for _ in range(4)))
            dialog.lose()
            dialog.do("caller", dialog.line())
            while sim.open_dialogs() and not sim.dead_letters("desk"):
                sim.clock.advance(1_000_000)
                sim.worker("desk").step(0)
            assert len(records.rows_of(sim, "desk", rows.RETURNING)) == one_by_one
            sim.broker.forbidden.clear()
            sim.clock.advance(60_000_000)
            (partition,) = sim.worker("desk").partitions.values()
            partition.context.destinations.try_again(sim.clock.now())
            partition.context.budget.go_on()
            partition.transmission.release(1_000_000)  # as in a step that has room left
            sim.run()
            assert [it.sequence for it in sim.dead_letters("desk")] == [0, 1, 2, 3]
            assert records.rows_of(sim, "desk", rows.DELAYED) == []
            records.pass_all(sim)
        assert {side: (it.code, it.returned) for side, it in dialog.tombstones.items()} == {
            "caller": (-8462, 2),
            "desk": (-8462, 4),
        }


def test_an_error_that_waits_outlives_the_end_of_its_side() -> None:
    with begun(on_error=FAILING) as dialog:
        with dialog.away("caller"):
            dialog.lose()
            dialog.do("caller", dialog.line())
            dialog.sim.advance(20 * SECOND)
            records.pass_all(dialog.sim)
            assert [it.what for it in dialog.sim.parked("desk")] == ["ERROR"]
            dialog.do("desk", EndWithError(7, "enough"))
        assert [it.what for it in dialog.sim.parked("caller")] == ["ERROR"], "the caller is told"
        dialog.do("caller", End())
        assert dialog.tombstones["caller"].code == -8462


def test_a_break_after_a_delayed_end_is_told() -> None:
    with begun() as dialog:
        with dialog.away("caller"):
            dialog.lose()
            dialog.do("caller", dialog.line())
            dialog.do("desk", End())
            dialog.sim.advance(20 * SECOND)
            records.pass_all(dialog.sim)
        assert dialog.tombstones["caller"].code == -8462
        assert dialog.returned == [(1, False), (2, False)]


def test_a_side_that_has_ended_is_told_of_a_cleanup_although_its_end_came_early() -> None:
    with begun() as dialog:
        dialog.lose()
        dialog.do("caller", End())
        dialog.do("desk", Cleanup())
        records.pass_all(dialog.sim)
        assert dialog.tombstones["caller"].code == -8462
        assert dialog.returned == [(1, False)]


def test_a_delayed_end_that_a_cleanup_drops_is_counted() -> None:
    with begun() as dialog:
        with dialog.away("desk"):
            dialog.do("caller", End())
            dialog.do("caller", Cleanup())
            dialog.do("desk", Cleanup())
        tombstone = dialog.tombstones["caller"]
        assert (tombstone.transmitted, tombstone.discarded, tombstone.code) == (1, 1, 0)


def test_a_delay_after_the_first_message_does_not_move_its_deadline() -> None:
    with begun() as dialog:
        with dialog.away("caller"), dialog.away("desk"):
            dialog.do("caller", dialog.line())
        assert (
            len({it.prefix.accept_until for it in records.queued(dialog.sim, "desk") if it.kind is Kind.MESSAGE}) == 1
        )


def test_a_refused_message_has_one_letter() -> None:
    """It came back once, although its row of unacknowledged envelopes was written with it."""
    with begun() as dialog:
        dialog.sim.broker.limits[service_topic(dialog.sim.broker.namespace, "desk", QUEUE)] = 1_000
        dialog.do("caller", dialog.line(2_000))
        dialog.sim.advance(LONG)
        assert dialog.tombstones["caller"].code == -8459
        assert dialog.returned == [(1, False)]


def test_a_repetition_that_is_refused_leaves_its_message_to_the_end_of_the_dialog() -> None:
    """The message was accepted before its repetition was refused, so it is no dead letter."""
    with begun() as dialog:
        dialog.lose(2_000)
        dialog.do("caller", dialog.line())
        with dialog.away("desk"):
            dialog.sim.advance(2 * SECOND)
            assert records.rows_of(dialog.sim, "caller", rows.DELAYED), "the repetition waits"
            dialog.sim.broker.resume()
            dialog.sim.run()
            dialog.sim.broker.limits[service_topic(dialog.sim.broker.namespace, "desk", QUEUE)] = 1_000
        assert dialog.returned == []


def test_a_refused_message_with_an_end_behind_it_leaves_both_in_letters() -> None:
    with begun() as dialog:
        dialog.sim.broker.limits[service_topic(dialog.sim.broker.namespace, "desk", QUEUE)] = 1_000
        dialog.do("caller", dialog.line(2_000), End())
        dialog.sim.advance(LONG)
        assert dialog.tombstones["caller"].code == -8459
        assert sorted(dialog.returned) == [(1, False), (2, False)]


@pytest.mark.parametrize(("on_error", "learns"), [(PLAIN, 0), (FAILING, -8462)])
def test_a_break_in_the_step_that_tries_a_delayed_end_again_is_told(on_error: int, learns: int) -> None:
    """The row of the END is gone in this step, and comes back when the queue refuses the END again."""
    with begun(on_error=on_error, roomy=True) as dialog:
        sim = dialog.sim
        with dialog.away("caller"):
            dialog.break_while_the_end_is_tried_again()
            for it in sim.parked("desk"):
                sim.decide(it, "skip")
            sim.run()
            assert {it.code for it in endpoints(sim.broker, "desk").values() if isinstance(it, rows.Tombstone)} == {
                -8462
            }
            records.pass_all(sim)
        for it in sim.parked("caller"):
            sim.decide(it, "skip")
        sim.advance(LONG)
        assert dialog.tombstones["caller"].code == learns, "the END arrives if the desk is over in this step"


def test_a_broken_side_whose_delayed_end_is_dropped_with_a_refused_message_tells_its_peer() -> None:
    with begun(on_error=FAILING) as dialog:
        sim = dialog.sim
        with dialog.away("caller"):
            dialog.break_while_the_end_is_tried_again(2_000)
            assert [it.what for it in sim.parked("desk")] == ["ERROR"]
            records.pass_all(sim)
            sim.broker.limits[service_topic(sim.broker.namespace, "caller", QUEUE)] = 1_000
        assert [it.what for it in sim.parked("caller")] == ["ERROR"], "the caller is told"
        for service in ("desk", "caller"):
            for it in sim.parked(service):
                sim.decide(it, "skip")
        sim.advance(LONG)
        assert {side: it.code for side, it in dialog.tombstones.items()} == {"caller": -8462, "desk": -8462}


def test_a_message_that_is_refused_with_the_end_of_a_target_behind_it_breaks_the_dialog_on_both_sides() -> None:
    with begun() as dialog:
        dialog.sim.broker.limits[service_topic(dialog.sim.broker.namespace, "caller", QUEUE)] = 1_000
        dialog.do("desk", dialog.line(2_000), End())
        dialog.sim.advance(LONG)
        assert dialog.tombstones["caller"].code == -8459
