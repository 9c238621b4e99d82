"""Receipts that arrive alone wait for other work, and share its transaction; what they are and how long they wait."""

from datetime import timedelta
from typing import Any

import pytest

from conversations import Dialog, Service, WorkerSettings
from conversations.protocol.envelope import Envelope, Kind
from conversations.protocol.topics import QUEUE, service_topic
from conversations.testing import PeerDialog, Simulation
from conversations.testing.reading import visible
from conversations.worker.receipts import FEW
from tests.simulation.support import records
from tests.simulation.support.services import ECHO, Say

HOLD = timedelta(milliseconds=50)


def echo() -> Service[dict[str, Any]]:
    service: Service[dict[str, Any]] = Service("echo", accepts=[ECHO])

    @service.on(Say)
    def say(body: Say, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.send(Say(text=body.text))

    return service


def world(service: Service[dict[str, Any]], hold: timedelta = HOLD) -> Simulation:
    settings = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), hold=hold)
    return Simulation(service, partitions=1, settings=settings)


def steps(sim: Simulation) -> int:
    """Let the peer send what it has, and let the worker do steps, at one moment. Return the transactions of the worker."""
    for _ in range(5):
        sim.worker("web").step()
    worker = sim.worker("echo")
    before = worker.counts.commits
    for _ in range(5):
        worker.step()
    return worker.counts.commits - before


def opened(sim: Simulation, count: int = 1) -> list[PeerDialog]:
    """Return as many dialogs that have had their answers."""
    dialogs = [sim.peer("web").begin_dialog("echo", ECHO) for _ in range(count)]
    for dialog in dialogs:
        dialog.send(Say(text="x"))
    sim.run()
    return dialogs


def test_an_end_that_comes_alone_waits_for_the_next_work_and_shares_its_transaction() -> None:
    with world(echo()) as sim:
        first, second = opened(sim, 2)
        first.end()
        assert steps(sim) == 0, "the END waits"
        assert len(sim.worker("echo").assignment.backlog) == 1
        second.send(Say(text="y"))
        assert steps(sim) == 1, "both are in one transaction"
        assert not sim.worker("echo").assignment.backlog
        sim.run()
        assert [it.text for it in second.received() if isinstance(it, Say)] == ["x", "y"]


def test_an_end_waits_no_longer_than_the_setting() -> None:
    with world(echo()) as sim:
        (dialog,) = opened(sim)
        dialog.end()
        assert steps(sim) == 0
        worker = sim.worker("echo")
        assert worker.receipts.until == worker.context.clock.now() + HOLD // timedelta(microseconds=1)
        sim.clock.advance(HOLD // timedelta(microseconds=1) - 1)
        assert steps(sim) == 0
        sim.clock.advance(1)
        assert steps(sim) == 1
        sim.run()
        assert sim.open_dialogs() == []


@pytest.mark.parametrize("hold", [timedelta(0), HOLD])
def test_with_no_hold_and_among_many_ends_none_waits(hold: timedelta) -> None:
    count = 1 if not hold else FEW + 1
    with world(echo(), hold) as sim:
        for dialog in opened(sim, count):
            dialog.end()
        assert steps(sim) == 1


def test_an_end_does_not_wait_for_a_service_that_handles_it() -> None:
    service, ended = echo(), []

    @service.on_end()
    def over(dialog: Dialog[dict[str, Any]]) -> None:
        ended.append(dialog.id)

    with world(service) as sim:
        (dialog,) = opened(sim)
        dialog.end()
        assert steps(sim) == 1
        assert ended == [dialog.id]


def test_a_receipt_that_waits_when_its_worker_dies_is_read_by_the_next_one() -> None:
    """It was not routed, so its position was not committed."""
    with world(echo()) as sim:
        (dialog,) = opened(sim)
        dialog.end()
        assert steps(sim) == 0
        sim.crash("echo")
        sim.run()
        assert sim.open_dialogs() == []


def test_no_receipt_waits_while_the_records_before_a_crash_are_suspect() -> None:
    """It is announced before it is decoded, and the worker would do step after step until it is taken."""
    with world(echo()) as sim:
        (dialog,) = opened(sim)
        dialog.end()
        assert steps(sim) == 0
        sim.crash("echo")
        assert sum(steps(sim) for _ in range(4)) > 0
        worker = sim.worker("echo")
        assert [it.work.suspicion for it in worker.partitions.values()] == [None]
        assert not worker.assignment.backlog
        assert not worker.busy()


@pytest.mark.parametrize("skipped", [(), (0,)])
def test_an_acknowledgement_waits_unless_it_tells_of_skipped_messages(skipped: tuple[int, ...]) -> None:
    """A handler ``on_skipped`` may have work with it."""
    with world(echo()) as sim:
        sim.peer("web")
        prefix = records.first_of(sim, records.drawn(sim), "echo", ECHO.name)
        records.post(sim, Envelope(prefix, Kind.ACK, -1, 0, skipped=skipped))
        topic = service_topic(sim.broker.namespace, "echo", QUEUE)
        (record,) = visible(sim.broker, topic)
        assert sim.worker("echo").receipts.wait([record]) is not bool(skipped)
