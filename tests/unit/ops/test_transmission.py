"""What a side has sent and its peer has not acknowledged, and the reason of each."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conversations.durations import SECOND
from conversations.protocol import rows
from conversations.protocol.endpoint import prefix_of
from conversations.protocol.envelope import Envelope, Kind
from conversations.protocol.referred import Referred, row_of
from conversations.protocol.retransmission import tries
from conversations.protocol.topics import QUEUE, STATE, service_topic
from conversations.protocol.waiting_row import encode_waiting
from conversations.testing import Simulation
from conversations.testing.reading import state_of
from conversations_ops.cli.transmission import Part, Waits, _text
from conversations_ops.operate.queues import Queue
from conversations_ops.operate.transmissions import NOT_KEPT, Transmission, transmissions_in
from conversations_ops.read_model.derived import derive
from conversations_ops.read_model.file import File
from conversations_ops.read_model.kept import kept
from conversations_ops.read_model.transmissions import transmissions, transmissions_of
from conversations_ops.read_model.written import write_rows
from conversations_ops.why.facts import Way
from conversations_ops.why.transmissions import Surroundings, reason
from tests.simulation.support import records
from tests.simulation.support.two_clusters import Both, begin
from tests.simulation.test_parking_traps import message, stranger
from tests.unit.ops.test_dialogs import listener
from tests.unit.ops.test_why import KAFKA, NOW

ALL = frozenset({0, 1})
OWN = bytes(16) + b"\1"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    with File(tmp_path / "model.sqlite") as file:
        yield file


def write(file: File, sim: Simulation, service: str) -> None:
    with file.transaction() as connection:
        for number, table in enumerate(state_of(sim.broker_of(service), service)):
            place = (service, number)
            connection.execute(
                "INSERT INTO places VALUES (?,?,?,?,'an id',0,0)", (f"{KAFKA.namespace}.{service}.state", number, service, STATE)
            )  # fmt: skip
            write_rows(connection, place, kept(table.items()))
        while derive(connection, KAFKA.namespace, 10):
            pass


def test_a_row_that_stands_for_several_fragments_is_listed_as_all_of_them() -> None:
    both = Both()
    with Simulation(both.here, both.there, far=["there"], partitions=1) as sim:
        sim.wire.lose = lambda _: True
        begin(sim, *"abcdef")
        sim.run()
        (table,) = state_of(sim.broker_of("here"), "here")
    own = next(key[1:18] for key in table if key.startswith(rows.UNACKNOWLEDGED))
    endpoint, _ = rows.decode_endpoint(own, table[rows.ENDPOINT + own], "here")
    first = Envelope(prefix_of(endpoint), Kind.MESSAGE, 2, -1, message_type="Word", fragment=1, fragments=4)
    row = row_of("queue", b"key", b"", first, Referred(b"1" * 16, 0, 100, 30))
    table[rows.numbered(rows.DELAYED, own, 1)] = encode_waiting(row)
    found = {it.number: it.delayed for it in transmissions_in(table, (KAFKA.namespace, "here", 0)) if it.own == own}
    assert found == {0: False, 1: False, 2: True, 3: True, 4: True, 5: False}


def test_what_another_cluster_has_not_acknowledged_is_listed_with_its_tries(file: File) -> None:
    both = Both()
    with Simulation(both.here, both.there, far=["there"], partitions=1) as sim:
        sim.wire.lose = lambda _: True
        begin(sim, "a", "last")
        sim.run()
        began = sim.clock.now()
        sim.advance(timedelta(seconds=20))
        write(file, sim, "here")
    first, second = transmissions(file, KAFKA.namespace, "here", 10).first
    assert (first.number, second.number) == (0, 1)
    assert {(it.service, it.peer, it.contract, it.initiator, it.delayed) for it in (first, second)} == {
        ("here", "there", first.contract, True, False)
    }
    assert first.what == second.what != NOT_KEPT
    assert first.size > 0
    assert first.sent_at is not None
    assert abs(first.sent_at - began) < SECOND
    assert (first.tries, first.next_try) == (2, first.sent_at + 28 * SECOND), "after 4 and 12 seconds"
    found = transmissions(file, KAFKA.namespace, "", 1)
    assert (len(found.first), found.total) == (1, 2)
    of = transmissions_of(file, KAFKA.namespace, first.own[:16], "", 10)
    assert of is not None
    assert list(of.first) == [first, second]
    assert transmissions_of(file, KAFKA.namespace, first.own[:16], "other", 10) is None
    assert transmissions(file, KAFKA.namespace, "there", 10).total == 0
    part = Part("", [Waits(it, "why") for it in found.first], found.total)
    text = _text([part], KAFKA, first.sent_at + 20 * SECOND)
    assert text.endswith("1 envelope not acknowledged, the oldest for 20s; 1 more (--limit lists more)")
    assert text.startswith("DIALOG\t")
    lines = _text([part, part._replace(cluster="emea")], KAFKA, first.sent_at + 20 * SECOND, several=True).splitlines()
    assert [line.split("\t")[0] for line in lines[:3]] == ["CLUSTER", "here", "emea"]
    assert lines[3] == "2 envelopes not acknowledged, the oldest for 20s; 2 more (--limit lists more)"


def test_what_its_destination_does_not_take_is_listed(file: File) -> None:
    with Simulation(listener(), partitions=1) as sim:
        prefix = stranger(sim)
        sim.broker.forbidden.add(service_topic(sim.broker.namespace, "stranger", QUEUE))
        records.post(sim, message(prefix, 0, "answer"))
        records.post(sim, message(prefix, 1, "answer"))
        sim.run()
        write(file, sim, "moody")
    found = transmissions(file, KAFKA.namespace, "moody", 10)
    assert [(it.number, it.delayed, it.next_try, it.tries) for it in found.first] == [
        (0, True, None, 0),
        (1, True, None, 0),
    ], "the acknowledgements wait, too, and are not listed"
    assert {(it.peer, it.what, it.initiator) for it in found.first} == {("stranger", "Say", False)}


def test_on_one_cluster_nothing_is_tried_again_and_no_other_deadline_looks_like_it(file: File) -> None:
    both = Both()
    with Simulation(both.here, both.there, partitions=1) as sim:
        sim.broker.stop = lambda out: out.topic == service_topic(sim.broker.namespace, "there", QUEUE)
        begin(sim, "a", "last")
        sim.run()
        write(file, sim, "here")
    found = transmissions(file, KAFKA.namespace, "here", 10)
    assert [(it.number, it.delayed, it.next_try, it.tries) for it in found.first] == [
        (0, False, None, 0),
        (1, False, None, 0),
    ]


def test_the_number_of_tries_is_that_of_the_schedule() -> None:
    at = [4, 12, 28, 60, 124, 188, 252]
    assert [tries(0, it * SECOND) for it in at] == [0, 1, 2, 3, 4, 5, 6]
    assert [tries(0, it * SECOND + SECOND) for it in at] == [0, 1, 2, 3, 4, 5, 6]
    assert tries(0, (60 + 64 * 1_000_000) * SECOND) == 3 + 1_000_000


def sent(**changed: Any) -> Transmission:
    it = Transmission("loans", 0, OWN, "credit", "Checks", 3, "Check", 10, NOW - 20, False, None)
    return it._replace(**changed)


def told(it: Transmission, **changed: Any) -> str:
    known = Surroundings(
        "shop", frozenset({"loans", "credit"}), {}, {"loans": ALL, "credit": ALL},
        {("credit", number): Queue("credit", number, "", 0, "", "", 0, 0, 0) for number in ALL}, {OWN: 1}, {}, NOW,
    )  # fmt: skip
    return reason(it, known._replace(**changed), lambda at: f"<{at - NOW}>")


def test_each_reason_is_named() -> None:
    assert told(sent()) == "waits for the acknowledgement"
    assert told(sent(what=NOT_KEPT)) == "waits for the acknowledgement; it is not kept here"
    assert told(sent(), owned={"credit": ALL}) == "no worker of loans has partition 0"
    assert told(sent(), owned={"loans": ALL, "credit": frozenset({0})}) == "no worker of credit runs"
    assert told(sent(), owned={"loans": ALL, "credit": frozenset({1})}) == "waits for the acknowledgement"
    assert told(sent(delayed=True), before={OWN: "0199"}).startswith("waits for dialog 0199, which is before it")
    assert told(sent(delayed=True)) == "shop.credit.queue takes no records now"
    assert told(sent(peer="cerdit", delayed=True)) == "the namespace has no service 'cerdit'"
    off = Queue("credit", 1, "operator", NOW - 7, "", "", 0, 0, 0)
    assert told(sent(), queues={("credit", 1): off}) == "the queue of credit is off since <-7> (operator)"
    assert told(sent(), queues={("credit", 1): off}, peers={OWN: 0}) == "waits for the acknowledgement"
    assert told(sent(), queues={("credit", 1): off}, peers={}).startswith("the queue of credit is off")


def test_the_reasons_of_a_peer_on_another_cluster() -> None:
    way = Way("emea", "kafka.emea:9092", 2, ALL)
    next_try = NOW + 32 * SECOND
    late = sent(sent_at=next_try - 60 * SECOND, next_try=next_try)

    def over(way: Way, it: Transmission = late) -> str:
        return told(it, ways={"credit": way}, services=frozenset({"loans"}))

    assert over(way) == "waits for the acknowledgement from emea, tried again 3 times, next try in 32s"
    assert over(way, late._replace(sent_at=next_try - 4 * SECOND)).startswith(
        "waits for the acknowledgement from emea, not tried"
    )
    assert over(way, late._replace(next_try=NOW - 1)).endswith(", next try now")
    assert over(way, sent()) == "waits for the acknowledgement from emea, not tried again"
    assert over(way, sent(delayed=True)) == "the transmission topic to emea takes no records now"
    assert over(way._replace(lacked=NOW - 6)).endswith(", next try in 32s; emea had no service 'credit' at <-6>")
    gone = way._replace(carried=frozenset({0}))
    assert over(gone) == "route to emea: no forwarder runs, next try in 32s"
    assert over(gone._replace(ended=NOW - 9)) == "route to emea: no forwarder runs since <-9>, next try in 32s"
    away = way._replace(away=(NOW - 8, "no broker answers"))
    assert over(away) == "route to emea: away since <-8>: no broker answers, next try in 32s"
