"""Records that are damaged between two clusters: each is discarded, and the genuine one arrives by retransmission."""

from datetime import timedelta

import pytest

from conversations.ports import Headers, Out
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.integrity import CRC, checksum
from conversations.protocol.topics import QUEUE, service_topic
from conversations.testing import Simulation
from tests.simulation.support.two_clusters import Both, begin
from tests.simulation.support.wire import each_byte_wrong, effects, events, pass_all, put, said, taken


def world(both: Both) -> Simulation:
    return Simulation(both.here, both.there, far=["there"])


def arrives_in_the_end(sim: Simulation, both: Both) -> None:
    """Let everything pass, and check that each message arrives once."""
    pass_all(sim)
    sim.advance(timedelta(seconds=64))
    assert list(both.heard.values()) == list(both.answers.values()) == [["a", "last"]]
    assert both.ended == set(both.heard)
    assert both.errors == []
    sim.check_invariants()


def test_what_crosses_has_a_checksum_and_what_stays_has_none() -> None:
    both = Both()
    with world(both) as sim:
        begin(sim, "a", "last")
        sim.run()
        for service, origins in (("there", {"here"}), ("here", {"there", "web"})):
            found = [it for part in sim.broker_of(service).queue(service) for it in part if it.value() is not None]
            assert {decode(it.value() or b"").prefix.from_service for it in found} == origins
            for it in found:
                headers = dict(it.headers() or ())
                crosses = decode(it.value() or b"").prefix.from_service != "web"
                assert headers.get(CRC) == (checksum(it.key(), it.value()) if crosses else None)


def test_each_byte_wrong_is_discarded_before_a_dialog_begins() -> None:
    both = Both()
    with world(both) as sim:
        records = taken(sim, "there")
        begin(sim, "a", "last")
        sim.run()
        before = effects(sim, "there")
        wrong = [out for record in records for out in each_byte_wrong(record)]
        assert len(wrong) > 300
        for number, out in enumerate(wrong, 1):
            put(sim, out)
            sim.run()
            assert events(sim) == number, out
        assert effects(sim, "there") == before
        assert sim.worker("there").counts.traffic.corrupt == len(wrong)
        assert Kind.ACK not in said(sim, "here")
        assert both.heard == {}
        arrives_in_the_end(sim, both)


@pytest.mark.parametrize("to", ["here", "there"])
def test_each_byte_wrong_is_discarded_on_an_open_dialog(to: str) -> None:
    """Here the prefix of the peer's envelopes is known, and is compared as bytes."""
    both = Both()
    with world(both) as sim:
        begin(sim, "a", "last")
        records = taken(sim, to, lambda envelope: envelope.seq == 1)
        sim.run()
        if not records:  # the first round trip is over: the second message is on its way
            sim.advance(timedelta(seconds=5))
        before = effects(sim, to)
        told = len(said(sim, "there" if to == "here" else "here"))
        wrong = list(each_byte_wrong(records[0]))
        for out in wrong:
            put(sim, out)
        sim.run()
        assert events(sim) == len(wrong)
        assert effects(sim, to) == before
        assert len(said(sim, "there" if to == "here" else "here")) == told, "nothing is acknowledged"
        arrives_in_the_end(sim, both)


@pytest.mark.parametrize(
    "headers",
    [None, [], [("crd", b"1234")], [("\udcff", b"x")]],
    ids=["no headers", "an empty list", "another header", "an unreadable header"],
)
def test_a_record_from_another_cluster_without_its_checksum_is_discarded(headers: Headers | None) -> None:
    both = Both()
    with world(both) as sim:
        records = taken(sim, "there")
        begin(sim, "a", "last")
        sim.run()
        before = effects(sim, "there")
        for out in records:
            put(sim, out._replace(headers=headers))
        sim.run()
        assert events(sim) == len(records) == 2
        assert effects(sim, "there") == before
        arrives_in_the_end(sim, both)


def test_a_truncated_record_is_discarded() -> None:
    both = Both()
    with world(both) as sim:
        records = taken(sim, "there")
        begin(sim, "a", "last")
        sim.run()
        whole = records[0]
        value = whole.value or b""
        for size in range(len(value)):
            put(sim, whole._replace(value=value[:size]))
        put(sim, whole._replace(value=None))
        put(sim, whole._replace(value=value + b"\0"))
        sim.run()
        assert events(sim) == len(value) + 2
        arrives_in_the_end(sim, both)


def test_a_record_of_the_own_cluster_needs_no_checksum_but_a_wrong_one_is_believed() -> None:
    """A service that has moved may be routed anew on one side first: what it sent with a checksum is checked."""
    both = Both()
    with world(both) as sim:
        begin(sim, "a", "last")
        sim.run()
        (record, *_) = [it for part in sim.broker.queue("here") for it in part if it.value() is not None]
        topic = service_topic(sim.broker.namespace, "here", QUEUE)
        headers = [*(record.headers() or ()), (CRC, b"\0\0\0\0")]
        assert CRC not in dict(record.headers() or ())
        put(sim, Out(topic, record.partition(), record.key(), record.value(), headers))
        sim.run()
        assert events(sim) == 1
