"""The program that sends the flights of the demo to services that run already, as the containers of docker-compose.yml do."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from conversations import Kafka, WorkerSettings
from conversations.crew import Crew, kafka_worker
from conversations.kafka.admin import apply
from conversations.kafka.follow import Follower
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.topics import QUEUE, service_topic
from conversations_ops.console.exit_codes import Exit
from conversations_ops.demo import flow
from conversations_ops.demo.aircraft_log import aircraft_log
from conversations_ops.demo.operations import operations
from tests.integration.kafka.members import delete_topics
from tests.support.waiting import until

pytestmark = pytest.mark.kafka
FLIGHTS = 20


@pytest.fixture
def kafka(kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kafka]:
    """Return the address of Kafka with a new namespace, also in the environment of the program."""
    kafka = Kafka(kafka_bootstrap, namespace=f"f{uuid4().hex[:10]}")
    monkeypatch.setenv("CONVERSATIONS_BOOTSTRAP", kafka.bootstrap)
    monkeypatch.setenv("CONVERSATIONS_NAMESPACE", kafka.namespace)
    yield kafka
    delete_topics(kafka)


def test_the_flights_reach_the_service_once(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    apply(kafka, [it.declaration() for it in (aircraft_log, operations)], 1, 1)
    assert flow.main([f"--flights={FLIGHTS}"]) == Exit.FINE
    assert capsys.readouterr().out == f"sent {FLIGHTS} of {FLIGHTS} flights\n"
    arrived: list[bytes] = []
    queue = service_topic(kafka.namespace, aircraft_log.name, QUEUE)
    with (
        Crew([kafka_worker(operations, kafka, WorkerSettings())], kafka) as crew,
        Follower(kafka, [queue]) as follower,
    ):
        crew.await_ready(60)

        def all_there() -> bool:
            envelopes = [decode(record.value() or b"") for record in follower.poll(0.1)]
            arrived.extend(it.body for it in envelopes if it.kind is Kind.MESSAGE)
            return len(arrived) >= FLIGHTS

        until(all_there, "all flights are in the queue")
    assert len(set(arrived)) == len(arrived) == FLIGHTS


def test_topics_that_are_missing_are_told(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    assert flow.main(["--flights=1"]) == Exit.HUMAN
    found = capsys.readouterr()
    assert found.out == "sent 0 of 1 flights\n"
    assert "run 'conversations apply'" in found.err


def test_without_an_address_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CONVERSATIONS_BOOTSTRAP", raising=False)
    with pytest.raises(SystemExit) as ended:
        flow.main([])
    assert ended.value.code == Exit.USAGE
    assert "set CONVERSATIONS_BOOTSTRAP" in capsys.readouterr().err
