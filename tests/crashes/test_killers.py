"""A message that kills the process that handles it is found, and given up on, while everything else is handled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from conversations import Contract, Dialog, PoisonPolicy, Service, Then, WorkerSettings
from conversations.errors import InDoubt
from conversations.memory.connection import MemoryConnection
from conversations.ports import Produced
from conversations.protocol.command import Send
from conversations.protocol.topics import events_topic
from conversations.testing import Simulation
from conversations.testing.reading import dead_letters, visible
from tests.crashes.support.mortal_workers import Job, MortalService, die, until
from tests.simulation.support.services import ECHO, Heard, Say
from tests.support.forms import python_form

pytestmark = python_form

BOTH = Contract("Both", sent_by_initiator=[Say, Heard])


@pytest.fixture
def mortal() -> Iterator[MortalService]:
    made = MortalService()
    yield made
    made.let_go.set()


def send_many(mortal: MortalService, killer: int, of: int) -> None:
    for number in range(of):
        mortal.send(Job(n=number, stuck=number == killer))


def send_row(mortal: MortalService) -> None:
    """The killer waits as a row, behind which others wait."""
    mortal.send(Job(n=3, stuck=True), Job(n=4))
    for number in range(3):
        mortal.send(Job(n=number))
    worker = mortal.worker()
    until(mortal.begun.is_set, worker)
    until(lambda: any(p.waiting.bytes for p in worker.partitions.values()) and not worker.step(), worker)
    worker.close()


def live_and_die(mortal: MortalService, settled: Callable[[], Any], look: Callable[[], None] = lambda: None) -> int:
    """Run workers that die when a stuck handler begins, until one lives to see all settled; return how many died."""
    for deaths in range(20):
        mortal.begun.clear()
        worker = mortal.worker()
        until(lambda: mortal.begun.is_set() or settled(), worker)
        if not mortal.begun.is_set():
            worker.close()
            return deaths
        look()
        die(worker)
    raise AssertionError("it dies on and on")


@pytest.mark.parametrize("of", [1, 5, 200])
def test_a_message_that_kills_is_given_up_on_after_its_deaths(mortal: MortalService, of: int) -> None:
    send_many(mortal, of // 2, of)
    deaths = live_and_die(mortal, lambda: dead_letters(mortal.broker, "slow") and len(set(mortal.handled)) == of - 1)
    (letter,) = dead_letters(mortal.broker, "slow")
    assert letter.exception == "conversations.errors.ProcessDied"
    assert letter.code == 500
    assert deaths <= WorkerSettings().deaths + 2, (
        "one that nobody expected, one among others, and those it is charged with"
    )
    assert set(mortal.handled) == set(range(of)) - {of // 2}
    assert all(row.announced for row in mortal.rows_seen[1:]), "committed before the handler began"
    worker = mortal.opened()
    until(lambda: mortal.row().unclean_starts == 0 and not mortal.row().deaths, worker)
    worker.close()


def test_a_message_that_kills_when_it_is_given_back_is_held_again_and_its_decision_is_not_blamed() -> None:
    """The message is tried in the step of the decision, so the first death leaves nothing of the decision in the state."""
    mortal = MortalService(policy=PoisonPolicy(delays=[], then=Then.HOLD))
    mortal.send(Job(n=0, stuck=True, fails=True), Job(n=1))
    worker = mortal.opened()
    until(lambda: [it.behind for it in mortal.parked()] == [1], worker)
    worker.close()
    mortal.mended.set()
    mortal.give_back(*mortal.parked())
    deaths = live_and_die(mortal, lambda: [it.exception for it in mortal.parked()] == ["ProcessDied"])
    assert 1 < deaths <= WorkerSettings().deaths + 2
    assert [it.reason for it in dead_letters(mortal.broker, "slow")] == ["handler-failed"] * 2, (
        "the letters of a held message"
    )
    told = [json.loads(it.value() or b"") for it in visible(mortal.broker, events_topic(mortal.broker.namespace))]
    said = [
        (it["event"], it.get("outcome"))
        for it in told
        if it["event"] in ("RESOLVED", "RETURNED", "COMMAND_REFUSED", "SET_ASIDE")
    ]
    assert said == [("RESOLVED", None), ("RETURNED", "failed")]
    mortal.let_go.set()
    mortal.give_back(*mortal.parked())
    worker = mortal.worker()
    until(lambda: 1 in mortal.handled and not mortal.parked(), worker)
    worker.close()


def test_a_row_that_kills_is_given_up_on_too(mortal: MortalService) -> None:
    send_row(mortal)
    live_and_die(mortal, lambda: len(dead_letters(mortal.broker, "slow")) == 2)
    assert [(it.sequence, it.reason) for it in dead_letters(mortal.broker, "slow")] == [
        (0, "handler-failed"), (1, "after-end"),
    ]  # fmt: skip


def test_two_that_kill_are_both_found(mortal: MortalService) -> None:
    for number in range(30):
        mortal.send(Job(n=number, stuck=number in (7, 19)))
    live_and_die(mortal, lambda: len(dead_letters(mortal.broker, "slow")) == 2 and len(set(mortal.handled)) == 28)
    assert set(mortal.handled) == set(range(30)) - {7, 19}


def test_a_timer_that_kills_is_given_up_on(mortal: MortalService) -> None:
    mortal.send(Job(n=1, timer=True))
    events = events_topic(mortal.broker.namespace)
    live_and_die(mortal, lambda: any(b"GAVE_UP" in (it.value() or b"") for it in visible(mortal.broker, events)))
    worker = mortal.opened()
    until(lambda: mortal.row().unclean_starts == 0, worker)
    worker.close()


def test_the_innocent_of_another_partition_are_not_charged() -> None:
    """What runs alone has every suspect partition of the process wait, or it would be there whenever the killer is."""
    mortal = MortalService(2)
    send_many(mortal, 20, 40)
    alone: list[int] = []

    def look() -> None:
        found = [row for row in (mortal.row(0), mortal.row(1)) if row.announced]
        if any(row.alone for row in found):
            alone.append(sum(len(row.announced) for row in found))

    live_and_die(mortal, lambda: dead_letters(mortal.broker, "slow") and len(set(mortal.handled)) == 39, look)
    assert alone == [1] * WorkerSettings().deaths
    assert len(dead_letters(mortal.broker, "slow")) == 1
    mortal.let_go.set()


def test_a_handler_that_returns_while_a_commit_is_under_way_has_had_its_turn(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    mortal.send(Job(n=0, stuck=True))
    for _ in range(2):
        mortal.begun.clear()
        worker = mortal.worker()
        until(mortal.begun.is_set, worker)
        die(worker)
    mortal.begun.clear()
    worker = mortal.worker()
    until(mortal.begun.is_set, worker)
    (run,) = worker.partitions[0].work.runs
    commit = worker.context.connection.commit

    def slowly(
        outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None]
    ) -> Mapping[int, int]:
        mortal.let_go.set()
        until(lambda: run.done)
        return commit(outs, offsets, meanwhile)

    monkeypatch.setattr(worker.context.connection, "commit", slowly)
    mortal.send(Job(n=1))
    until(lambda: mortal.row().unclean_starts == 0 and 1 in mortal.handled, worker)
    worker.close()


def test_a_process_that_lives_has_not_died_of_anything(mortal: MortalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """It forgets everything when a commit is in doubt, and takes its partitions up again, unclean."""
    mortal.let_go.set()
    mortal.send(Job(n=0))
    worker = mortal.worker()
    doubts: list[int] = []
    real = MemoryConnection.commit

    def doubtful(
        connection: MemoryConnection,
        outs: Sequence[Produced],
        offsets: Mapping[int, int],
        meanwhile: Callable[[], None],
    ) -> Mapping[int, int]:
        if connection.service == "slow" and len(mortal.handled) > len(doubts) and len(doubts) < 8:
            doubts.append(1)
            raise InDoubt("it took too long")
        return real(connection, outs, offsets, meanwhile)

    monkeypatch.setattr(MemoryConnection, "commit", doubtful)
    until(lambda: len(mortal.handled) == 9 and mortal.row().unclean_starts == 0, worker)
    assert dead_letters(mortal.broker, "slow") == []
    worker.close()


def test_what_arrives_after_the_start_is_not_suspect() -> None:
    """However much arrives, what was there before is settled, and the partition is trusted again."""
    handled: list[str] = []
    service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO])

    @service.on(Say)
    def say(body: Say, _dialog: Dialog) -> None:
        handled.append(body.text)

    with Simulation(service, partitions=1) as sim:
        web = sim.peer("web")
        sim.run()
        for number in range(300):
            web.begin_dialog("moody", ECHO).send(Say(text=f"{number}"))
        sim.worker("web").step()
        sim.worker("web").step()
        sim.crash("moody")
        unclean = []
        for number in range(30):
            for extra in range(100):
                web.begin_dialog("moody", ECHO).send(Say(text=f"later {number}-{extra}"))
            sim.worker("web").step()
            sim.worker("moody").step()
            unclean.append(any(it.progress.row.unclean_starts for it in sim.worker("moody").partitions.values()))
        assert any(unclean)
        assert not unclean[-1]
        sim.run()
        assert len(handled) == 3_300


@pytest.mark.parametrize("rounds", range(9))
def test_a_breach_is_kept_once_and_heard_of_when_its_handler_waits_to_be_announced(rounds: int) -> None:
    errors: list[int] = []
    ends = [PoisonPolicy.service_broker()]
    service: Service[dict[str, Any]] = Service("moody", accepts=[BOTH], ignores=[Heard], poison=ends)
    service.on(Say)(lambda body, dialog: None)
    service.on_error()(lambda error, dialog: errors.append(error.code))
    with Simulation(service, raise_failures=False, partitions=1) as sim:
        web = sim.peer("web")
        web.begin_dialog("moody", BOTH).send(Say(text="hello"))
        sim.run()
        dialog = web.begin_dialog("moody", BOTH)
        dialog.send(Say(text="a"))
        web._post(UUID(dialog.id).bytes, True, dialog.id, (Send("Heard", "application/json", b'{"nope": 1}'),))
        sim.crash("moody")
        for _ in range(rounds):
            sim.worker("web").step()
            sim.worker("moody").step()
        sim.crash("moody")
        sim.advance(timedelta(minutes=20))
        assert [(it.sequence, it.reason) for it in sim.dead_letters("moody")] == [(1, "breach")]
        assert errors[-1:] == [-9615]
        sim.check_invariants()
