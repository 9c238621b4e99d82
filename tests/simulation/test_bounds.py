"""Invariant 8 where a peer would like it to end: what is kept for whom has limits in bytes, and work is only done for who needs it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from random import Random
from types import FrameType
from typing import Any

import pytest

from conversations import Contract, Dialog, MessageType, Service
from conversations.config import Limits, WorkerSettings
from conversations.protocol import rows
from conversations.protocol.envelope import Kind
from conversations.protocol.topics import QUEUE, STATE, partition_of
from conversations.testing import Simulation, bounds
from conversations.worker.transmission import Transmission
from tests.bad_input.support.forging import Forged, Known, stranger
from tests.bad_input.support.logs import Memory
from tests.bad_input.support.services import PARTITIONS, shop, web
from tests.bad_input.test_wire import known
from tests.support.forms import python_form

BYTES = "application/octet-stream"


def place(**limits: int) -> Memory:
    settings = WorkerSettings(
        patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000, limits=replace(Limits(), **limits)
    )
    return Memory(Simulation(shop(), web(), partitions=PARTITIONS, raise_failures=False, settings=settings))


@contextmanager
def counted(function: Callable[..., object]) -> Iterator[list[int]]:
    """Count the calls of a function while it is used, without touching it."""
    code, calls = function.__code__, [0]

    def look(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code is code:
            calls[0] += 1

    sys.setprofile(look)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def blob(dialog: Known, number: int, size: int) -> Forged:
    return dialog.record(dialog.message(bytes(size), "Blob", seq=number, content_type=BYTES))


def row_of(where: Memory, dialog: Known) -> bytes:
    """The last row of a dialog's target side."""
    key = rows.ENDPOINT + rows.identity(dialog.conversation.bytes, False)
    return [r.value() for r in where.read(where.topic("shop", STATE)) if r.key() == key][-1] or b""


def test_a_refused_number_says_nothing_of_those_before_it() -> None:
    """A record of two hundred bytes leaves no tombstone of four thousand; what comes later is kept once, and again told apart."""
    where = place()
    other = stranger(where.now(), Random(1))
    other.prefix = replace(other.prefix, contract="Gossip")
    where.throw("shop", QUEUE, [other.record(other.message(seq=2_000))])
    where.sim.run()
    assert len(row_of(where, other)) < 200
    where.throw("shop", QUEUE, [other.record(other.message(seq=number)) for number in (0, 2, 1, 2, 0)])
    where.sim.run()
    assert [letter.reason for found in where.letters("shop").values() for letter in found] == ["refused"] + [
        "after-end"
    ] * 3


@pytest.mark.parametrize("begun", [False, True])
def test_a_dialog_that_is_over_misses_only_so_many_numbers(begun: bool) -> None:
    """Each number may jump ahead; together they may not: its row would outgrow its topic, and no worker could go on."""
    where = place()
    other = stranger(where.now(), Random(1))
    if begun:
        where.throw("shop", QUEUE, [other.record(other.message())])
        where.sim.run()
    where.throw("shop", QUEUE, [other.record(other.said(Kind.ERROR, seq=5, code=7, description="enough"))])
    where.throw("shop", QUEUE, [other.record(other.message(seq=number)) for number in range(2_000, 200_000, 2_000)])
    where.sim.run()
    assert len(row_of(where, other)) < 5_000
    assert len(where.letters("shop")) == 99
    bounds.check_at_rest(where.sim.worker("shop"))


@python_form
def test_the_row_of_a_group_is_made_once_in_a_step() -> None:
    """However many dialogs join it: else the work of a thousand grows with their square."""
    where = place()
    key = next(k for i in range(9) if partition_of(k := b"group-%d" % i, PARTITIONS) == 0)
    strangers = [stranger(where.now(), Random(number)) for number in range(300)]
    for it in strangers:
        it.prefix = replace(it.prefix, reply_key=key.decode())
    where.throw("shop", QUEUE, [replace(it.record(it.message()), key=key) for it in strangers])
    with counted(rows.encode_group) as calls:
        where.sim.worker("shop").step()
        where.sim.run()
    assert where.sim.worker("shop").counts.accepted == 300
    assert calls[0] < 20


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("crash", [False, True])
def test_a_dialog_holds_only_so_many_bytes_behind_a_gap(crash: bool, kept: bool) -> None:
    """The one too many breaks it, also when those before it were held by a process before. All of them are kept, by this side or by their sender."""
    where = place(dialog_bytes=100_000)
    dialog = known(where, 1)
    dialog.prefix = replace(dialog.prefix, resends=kept)
    where.throw("shop", QUEUE, [blob(dialog, n, 30_000) for n in range(2, 5)])
    where.sim.run()
    if crash:
        where.sim.crash("shop")
        where.sim.run()
    where.throw("shop", QUEUE, [blob(dialog, 5, 30_000)])
    where.sim.run()
    assert not where.letters("shop")
    where.throw("shop", QUEUE, [blob(dialog, 6, 30_000)])
    where.sim.run()
    assert [it.reason for found in where.letters("shop").values() for it in found] == (
        [] if kept else ["held-at-end"] * 5
    )
    assert [e.code for e in where.sent("web") if e.kind is Kind.ERROR] == [-8462]
    bounds.check_at_rest(where.sim.worker("shop"))


def test_a_partition_holds_only_so_many_bytes_and_a_dialog_without_a_gap_goes_on() -> None:
    """Whoever comes when it is full does not find room for what is ahead of a gap, and nobody else notices."""
    where = place(held_bytes=100_000)
    greedy, late, healthy = (known(where, number) for number in (1, 2, 3))
    where.throw("shop", QUEUE, [blob(greedy, n, 30_000) for n in range(2, 6)])
    where.throw("shop", QUEUE, [blob(late, 2, 100), healthy.record(healthy.message(seq=1))])
    where.sim.run()
    assert [e.prefix.conversation_id for e in where.sent("web") if e.kind is Kind.ERROR] == [late.conversation.bytes]
    assert where.sim.worker("shop").counts.handled == 4
    bounds.check_at_rest(where.sim.worker("shop"))


ASK, ANSWER = MessageType("Ask", None), MessageType("Answer", "bytes")
BULK = Contract("Bulk", sent_by_initiator=[ASK], sent_by_target=[ANSWER])


def bulky(size: int) -> Service[dict[str, Any]]:
    service = Service("shop", accepts=[BULK])

    @service.on(ASK)
    def answer(_body: None, dialog: Dialog) -> None:
        dialog.send(bytes(size), type="Answer")

    del answer
    return service


def asking(sim: Simulation, who: str, number: int, seq: int = 0) -> Forged:
    other = stranger(sim.clock.now(), Random(number))
    other.prefix = replace(other.prefix, contract="Bulk", from_service=who)
    return other.record(other.message(b"", "Ask", content_type="", seq=seq))


def test_answers_wait_for_a_queue_that_takes_none_up_to_a_limit_and_then_their_questions_do() -> None:
    """Nothing is lost: what does not fit waits as its question, in its place, until the queue takes records again."""
    settings = WorkerSettings(
        patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000, limits=Limits(delayed_bytes=500_000)
    )
    with Simulation(bulky(90_000), partitions=PARTITIONS, settings=settings, raise_failures=False) as sim:
        sim.broker.create_service("web", PARTITIONS)
        where, worker = Memory(sim), sim.worker("shop")
        queue = where.topic("web", QUEUE)
        gone = sim.broker.topics.pop(queue)
        for number in range(20):
            where.throw("shop", QUEUE, [asking(sim, "web", number)])
            sim.run()
        sim.advance(timedelta(minutes=5))
        kept = sum(partition.waiting.delayed.bytes for partition in worker.partitions.values())
        assert 400_000 < kept < 700_000
        assert not where.letters("shop")
        sim.broker.topics[queue] = gone
        sim.advance(timedelta(minutes=5))
        assert sum(e.kind is Kind.MESSAGE for e in where.sent("web")) == 20
        assert worker.counts.failures > 0
        bounds.check_at_rest(worker)


@python_form
def test_only_what_may_be_sent_again_is_looked_at() -> None:
    """Dialogs that wait for a destination cost nothing in the steps in which another one comes back."""
    with Simulation(bulky(10), partitions=PARTITIONS) as sim:
        where = Memory(sim)
        for name in ("web", "gone"):
            sim.broker.create_service(name, PARTITIONS)
        topics = {name: sim.broker.topics.pop(where.topic(name, QUEUE)) for name in ("web", "gone")}
        where.throw("shop", QUEUE, [asking(sim, "gone", number) for number in range(50)])
        where.throw("shop", QUEUE, [asking(sim, "web", 99)])
        sim.run()
        sim.broker.topics[where.topic("web", QUEUE)] = topics["web"]
        sim.worker("shop").context.destinations.blocked[where.topic("gone", QUEUE)] += 600_000_000
        with counted(Transmission._release_dialog) as calls:
            sim.advance(timedelta(minutes=2))
        assert [e.kind for e in where.sent("web") if e.kind is Kind.MESSAGE] == [Kind.MESSAGE]
        assert calls[0] < 10
        sim.broker.topics[where.topic("gone", QUEUE)] = topics["gone"]
        sim.advance(timedelta(minutes=20))
        assert sum(e.kind is Kind.MESSAGE for e in where.sent("gone")) == 50


def test_a_step_takes_on_only_so_many_bytes_and_leaves_nothing_out() -> None:
    """Small questions with large answers: many small transactions instead of one of them all, each answer once, in order."""
    limits = Limits(step_bytes=1_000_000)
    settings = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000, limits=limits)
    with Simulation(bulky(90_000), partitions=PARTITIONS, settings=settings) as sim:
        sim.broker.create_service("web", PARTITIONS)
        where, worker = Memory(sim), sim.worker("shop")
        sim.run()
        before = worker.counts.commits
        where.throw("shop", QUEUE, [asking(sim, "web", 1, number) for number in range(100)])
        worker.step()
        assert 10 <= worker.counts.handled <= 13
        sim.run()
        assert worker.counts.handled == 100
        assert worker.counts.commits - before >= 8
        assert [e.seq for e in where.sent("web") if e.kind is Kind.MESSAGE] == list(range(100))
        bounds.check_at_rest(worker)


def test_what_a_step_reads_is_bounded_too() -> None:
    """What waits behind a gap is written as it is read: so much of it at a time."""
    where = place(step_bytes=1_000_000)
    dialog, worker = known(where, 1), where.sim.worker("shop")
    where.throw("shop", QUEUE, [blob(dialog, number, 90_000) for number in range(2, 102)])
    before = worker.partitions[0].waiting.held.bytes
    worker.step()
    assert 0 < worker.partitions[0].waiting.held.bytes - before < 1_300_000
    where.sim.run()
    assert worker.partitions[0].waiting.held.bytes > 9_000_000
    bounds.check_at_rest(worker)


def test_a_step_that_took_too_long_leaves_the_rest_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this simulation passes a second with every look: a few records are taken, and nothing counts as read that is not."""
    where = place()
    dialog, worker = known(where, 1), where.sim.worker("shop")
    where.throw("shop", QUEUE, [dialog.record(dialog.message(seq=number)) for number in range(1, 201)])
    clock = where.sim.clock
    look = type(clock).now

    def passing(self: object) -> int:
        clock.advance(1_000_000)
        return look(clock)

    with monkeypatch.context() as patched:
        patched.setattr(type(clock), "now", passing)
        worker.step()
        worker.step()  # it finds the end of the queue, at which it has not arrived
    assert worker.counts.handled < 100
    assert worker.partitions[0].read_to() < 201
    assert worker.busy()
    where.sim.run()
    assert worker.counts.handled == 201
    bounds.check_at_rest(worker)


def test_a_queue_that_is_turned_on_takes_up_only_so_much_in_a_step() -> None:
    """However much waited for it: each step handles some of it, in the order of its dialogs, and nothing is left."""
    where = place(step_bytes=1_000_000)
    dialogs, worker = [known(where, number) for number in range(20)], where.sim.worker("shop")
    where.sim.turn_queue("shop", on=False)
    where.sim.run()
    where.throw("shop", QUEUE, [blob(dialog, number, 90_000) for number in (1, 2, 3) for dialog in dialogs])
    where.sim.run()
    before = worker.partitions[0].parking.bytes
    assert before > 60 * 90_000
    handled = worker.counts.handled
    where.sim.turn_queue("shop", on=True)
    steps = 0
    while worker.partitions[0].parking.bytes:
        left = worker.partitions[0].parking.bytes
        worker.step()
        assert left - worker.partitions[0].parking.bytes < 1_300_000
        steps += 1
    assert steps >= 5
    assert worker.counts.handled - handled == 60
    where.sim.run()
    bounds.check_at_rest(worker)


def test_a_group_that_ends_writes_little_of_each_of_its_dialogs() -> None:
    """They end in one transaction, so that is what bounds it, with the number of dialogs that a group may have."""
    service = bulky(0)

    @service.on_end(BULK)
    def ended(dialog: Dialog) -> None:
        for member in dialog.group.dialogs():
            member.end()

    del ended

    with Simulation(service, partitions=1) as sim:
        sim.broker.create_service("web", 1)
        where, worker = Memory(sim), sim.worker("shop")
        strangers = [stranger(where.now(), Random(number)) for number in range(300)]
        for other in strangers:
            other.prefix = replace(other.prefix, contract="Bulk", reply_key="together")
            asked = other.record(other.message(b"", "Ask", content_type=""))
            where.throw("shop", QUEUE, [replace(asked, key=b"together")])
        sim.run()
        assert worker.counts.accepted == 300
        sizes = [
            sum(len(r.value() or b"") for r in where.read(where.topic("shop", STATE))),
            sum(len(r.value() or b"") for r in where.read(where.topic("web", QUEUE))),
        ]
        (first, *_) = strangers
        where.throw("shop", QUEUE, [replace(first.record(first.said(Kind.END, seq=1)), key=b"together")])
        sim.run()
        assert sum(e.kind is Kind.END for e in where.sent("web")) == 299, (
            "the peer that ended first needs to be told nothing"
        )
        added = sum(
            len(r.value() or b"") for kind in (("shop", STATE), ("web", QUEUE)) for r in where.read(where.topic(*kind))
        )
        assert (added - sum(sizes)) / 300 < 1_500
