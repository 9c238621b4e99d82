"""Dialogs between two clusters: what is lost on the way is transmitted again, until it is acknowledged."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from conversations import Dialog, Service
from conversations.config import Kafka, Limits, WorkerSettings
from conversations.durations import SECOND
from conversations.local import LocalClient, MemoryCommands
from conversations.memory.connection import MemoryConnection
from conversations.ports import Out
from conversations.protocol.envelope import Kind, decode, encode
from conversations.protocol.integrity import CRC, checksum
from conversations.protocol.topics import QUEUE, service_topic
from conversations.testing import Simulation
from tests.simulation.support.records import queued
from tests.simulation.support.services import ECHO, NOTICES, Heard, Say
from tests.simulation.support.two_clusters import TALK, Both, Word, begin


def world(both: Both, **more: Any) -> Simulation:
    return Simulation(both.here, both.there, far=["there"], **more)


def lost(sim: Simulation, to: str, *, kinds: tuple[Kind, ...] = tuple(Kind)) -> list[int]:
    """Lose every record to a service from now on, and return the times of those with a number, in seconds."""
    times: list[int] = []

    def lose(out: Out) -> bool:
        envelope = decode(out.value or b"")
        if envelope.prefix.to_service != to or envelope.kind not in kinds:
            return False
        if envelope.seq >= 0:
            times.append(sim.clock.now() // SECOND)
        return True

    sim.wire.lose = lose
    return times


def test_a_dialog_crosses_to_another_cluster_and_back() -> None:
    both = Both()
    with world(both) as sim:
        begin(sim, "a", "b", "last")
        sim.run()
        assert list(both.heard.values()) == list(both.answers.values()) == [["a", "b", "last"]]
        assert both.ended == set(both.heard)
        sim.check_invariants()


def test_the_waits_are_those_of_service_broker_and_begin_anew_with_the_first_success() -> None:
    both = Both()
    with world(both) as sim:
        times = lost(sim, "there")
        begin(sim, "a", "last")
        sim.run()
        sim.advance(timedelta(seconds=300))
        assert times[0] == times[1], "both messages are sent"
        sent = sorted(set(times))
        assert [later - earlier for earlier, later in pairwise(sent)] == [4, 8, 16, 32, 64, 64, 64]
        assert [times.count(at) for at in sent] == [2, 2, 1, 1, 1, 1, 1, 1], "after the first time only a probe"
        sim.wire.lose = lambda _: False
        sim.advance(timedelta(seconds=70))
        assert list(both.answers.values()) == [["a", "last"]]
        assert sim.worker("here").counts.traffic.retransmitted == 8 + 1, "the rest follows the probe that got through"
        begin(sim, "b", "last")
        times = lost(sim, "there")
        sim.run()
        sim.advance(timedelta(seconds=20))
        assert [later - earlier for earlier, later in pairwise(sorted(set(times)))] == [4, 8]


def test_the_first_dialog_over_a_new_route_is_transmitted_again() -> None:
    both = Both()
    with world(both, now=datetime.now(UTC)) as sim:
        route = sim.broker.routes.pop("there")
        assert sim.worker("here").context.destinations.partitions("here"), "it has looked at the catalog"
        sim.broker.routes["there"] = route
        sim.advance(timedelta(seconds=2))
        lost(sim, "there")
        client = LocalClient(both.here, Kafka("memory"), MemoryCommands(sim.broker, "here"), broker=sim.broker)
        with client.begin_dialog("there", TALK) as dialog:
            dialog.send(Word(text="last"))
        sim.run()
        sim.wire.lose = lambda _: False
        sim.advance(timedelta(seconds=10))
        assert list(both.answers.values()) == [["last"]]


def test_an_acknowledgement_of_a_part_begins_anew() -> None:
    both = Both()
    with world(both) as sim:
        lost(sim, "there")
        begin(sim, "a", "last")
        begun = sim.clock.now() // SECOND
        sim.advance(timedelta(seconds=59))
        times: list[int] = []

        def lose(out: Out) -> bool:
            envelope = decode(out.value or b"")
            if envelope.seq != 1 or envelope.prefix.to_service != "there":
                return False
            times.append(sim.clock.now() // SECOND)
            return True

        sim.wire.lose = lose
        sim.advance(timedelta(seconds=20))
        first, second = sorted(set(times))
        assert first - begun - 60 in {4, 5}, "the probe after 60 seconds is acknowledged within one"
        assert second - first == 8, "the wait was 64 seconds before"


def test_what_the_target_sends_is_transmitted_again() -> None:
    both = Both()
    with world(both) as sim:
        lost(sim, "here", kinds=(Kind.MESSAGE, Kind.END))
        begin(sim, "a", "last")
        sim.advance(timedelta(seconds=30))
        assert both.answers == {}
        sim.wire.lose = lambda _: False
        sim.advance(timedelta(seconds=64))
        assert list(both.answers.values()) == [["a", "last"]]
        assert len(both.ended) == 1
        sim.check_invariants()


def test_a_worker_that_has_joined_again_knows_which_services_are_on_another_cluster() -> None:
    both = Both()
    with world(both) as sim:
        sim.run()
        before = [_break(sim, name) for name in ("here", "there")]
        begin(sim, "a")
        sim.run()
        assert all(sim.worker(it.service).context.connection is not it for it in before), "both have joined again"
        for to in ("there", "here"):
            times = lost(sim, to)
            begin(sim, f"to-{to}")
            sim.run()
            assert times, "the envelopes go by the way on which they may be lost"
            sim.wire.lose = lambda _: False
            sim.advance(timedelta(seconds=10))
        words = {"a", "to-there", "to-here"}
        for said in (both.heard, both.answers):
            assert {text for texts in said.values() for text in texts} == words


def _break(sim: Simulation, service: str) -> MemoryConnection:
    """Let the outcome of the next commit of a worker be unknown, and return its connection."""
    connection = sim.worker(service).context.connection
    assert isinstance(connection, MemoryConnection)
    connection.broken = True
    return connection


def test_a_lost_error_of_the_application_is_transmitted_again() -> None:
    both = Both()
    with world(both) as sim:
        lost(sim, "here", kinds=(Kind.ERROR,))
        begin(sim, "a", "break")
        sim.advance(timedelta(seconds=30))
        assert both.errors == []
        sim.wire.lose = lambda _: False
        sim.advance(timedelta(seconds=64))
        assert both.errors == [7]
        sim.check_invariants()


def test_a_closed_side_answers_each_late_message_of_another_cluster() -> None:
    """The first answer may be lost."""
    both = Both()
    with world(both) as sim:
        begin(sim, "a", "last")
        lost(sim, "here", kinds=(Kind.ERROR,))
        sim.run()
        assert both.ended == set(both.heard)
        (name,) = both.heard
        late = _late(sim, name)
        for _ in range(2):
            sim.there.append(late)
            sim.run()
        sim.wire.lose = lambda _: False
        before = len(queued(sim, "here"))
        sim.there.append(late)
        sim.run()
        assert [it.kind for it in queued(sim, "here")[before:]] == [Kind.ERROR]


def _late(sim: Simulation, name: str) -> Out:
    """Return a message of the initiator that comes after everything else, and that its sender keeps."""
    topic = service_topic(sim.there.namespace, "there", QUEUE)
    record = next(it for part in sim.there.topics[topic] for it in part if name.encode() in (it.key() or b""))
    value = encode(replace(decode(record.value() or b""), seq=9))
    return Out(topic, record.partition(), record.key(), value, [(CRC, checksum(record.key(), value))])


def test_a_gap_breaks_no_dialog_between_clusters() -> None:
    both = Both()
    with world(both) as sim:

        def lose(out: Out) -> bool:
            envelope = decode(out.value or b"")
            return envelope.kind is Kind.RESEND or (envelope.prefix.to_service == "there" and envelope.seq == 1)

        sim.wire.lose = lose
        begin(sim, "a", "b", "last")
        sim.advance(timedelta(seconds=120))
        assert list(both.heard.values()) == [["a"]]
        sim.wire.lose = lambda _: False
        sim.advance(timedelta(seconds=64))
        assert list(both.answers.values()) == [["a", "b", "last"]]
        assert both.errors == []
        sim.check_invariants()


def test_an_unreachable_peer_is_no_error_until_the_lifetime_ends() -> None:
    both = Both()
    with world(both) as sim:
        lost(sim, "there")
        begin(sim, "a")
        sim.advance(timedelta(minutes=59))
        assert both.errors == []
        sim.advance(timedelta(minutes=2))
        assert both.errors == [-8489]


def test_what_the_transmission_topic_refused_and_the_way_lost_is_transmitted_again() -> None:
    """Its dialog begins anew when the topic takes records, and is to count its waits from then on, although the message was kept before."""
    both = Both()
    with world(both, partitions=1) as sim:
        begin(sim, "warm")
        sim.advance(timedelta(seconds=5))
        sim.broker.forbidden.add("conv.far.transmission")
        lost(sim, "there")
        begin(sim, "a", "last")
        sim.run()
        sim.broker.forbidden.clear()
        sim.advance(timedelta(seconds=70))
        sim.wire.lose = lambda _: False
        sim.advance(timedelta(seconds=130))
        assert list(both.answers.values()) == [["warm"], ["a", "last"]]
        sim.check_invariants()


@pytest.mark.parametrize("seed", [1, 3, 5])
@pytest.mark.parametrize("cached", [3_000, 1_000_000])
def test_an_endpoint_that_leaves_memory_goes_on_to_wait(cached: int, seed: int) -> None:
    """Its row has the end of the wait. If each load began the wait anew, it would end for no side: what is missing would be neither asked for nor transmitted again."""
    there = Service("there", accepts=[ECHO])
    here = Service("here", initiates=[ECHO], accepts=[NOTICES])
    heard: list[str] = []
    answers: list[str] = []

    @here.on(Heard)
    def carry(body: Heard, dialog: Dialog[Any]) -> None:
        others = dialog.group.dialogs(ECHO)
        (others[0] if others else dialog.group.begin_dialog("there", ECHO)).send(Say(text=body.text))

    @there.on(Say)
    def hear(body: Say, dialog: Dialog[Any]) -> None:
        heard.append(body.text)
        dialog.send(body)

    here.on(Say)(lambda body, dialog: answers.append(body.text))
    settings = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), limits=Limits(cached_bytes=cached))
    chance = Random(seed)
    with Simulation(here, there, far=["there"], settings=settings, partitions=2) as sim:
        web = sim.peer("web").begin_dialog("here", NOTICES)
        sim.wire.lose = lambda out: chance.random() < 0.5
        said = [str(number) for number in range(20)]
        for text in said:
            web.send(Heard(text=text))
            sim.advance(timedelta(seconds=1))
        sim.wire.lose = lambda _: False
        sim.advance(timedelta(minutes=5))
        assert heard == answers == said
        sim.check_invariants()
