"""Kafka's rights, taken away one by one: of its own the worker names the one that is missing, of others nothing stops it."""

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from conversations import Dialog, Kafka, PlainRecord, Service, WorkerSettings
from conversations.config import Periods
from conversations.errors import LogError
from conversations.feeds import Feed
from conversations.kafka.feeding import KafkaFeeder
from conversations.protocol import codes, letters
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.topics import feed_group
from conversations.worker import Worker
from tests.integration.support.plain_topics import committed, create_topic, delete_topic
from tests.rights.support.authorizing_kafka import GuardedBroker, Right
from tests.rights.support.restricted_service import OWN, RestrictedService
from tests.rules.support.stepped_service import ASKING, SECOND, AheadClock, Ask, Asking, Tally, answer, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]

NOWHERE = ("READ", "GROUP"), ("WRITE", "TRANSACTIONAL_ID"), ("READ", "TOPIC")
PLACES = len(OWN) + len(NOWHERE)


def named(right: Right) -> str:
    """What an error says of a missing right, as far as it is the same each time."""
    operation, kind, name = right
    return f"{operation} on {kind.lower().replace('_', ' ')} {name.removesuffix('*')}"


def failure_of(worker: Worker) -> str:
    """Step a worker until it ends, and return what with."""

    def stepped() -> str:
        try:
            worker.step(0.05)
        except LogError as failure:
            return str(failure)
        return ""

    return until(stepped)


@pytest.mark.parametrize("tls", [False, True])
def test_the_least_rights_are_enough(restricted: RestrictedService, *, tls: bool) -> None:
    worker = restricted.open(restricted.guarded_worker(tls=tls))
    dialog, other = Asking(restricted), Asking(restricted, service="other")
    dialog.ask(1, 2)
    other.ask(3)
    restricted.answered(worker, 1, 2)
    until(lambda: (worker.step(0.05), restricted.answers("other", end=False) == [3])[1])


@pytest.mark.parametrize("place", range(PLACES))
def test_a_right_of_its_own_that_is_missing_at_the_start_is_named(restricted: RestrictedService, place: int) -> None:
    right = restricted.own[place]
    restricted.lose(right)
    failure = failure_of(restricted.guarded_worker())
    assert named(right) in failure
    assert "is missing" in failure


@pytest.mark.parametrize("place", [0, 1, 4, 5, 6, 8])
def test_a_right_of_its_own_that_goes_while_it_runs_is_named(restricted: RestrictedService, place: int) -> None:
    """It ends with an error that says so, instead of trying for ever."""
    worker = restricted.open(restricted.guarded_worker())
    dialog = Asking(restricted)
    dialog.ask(1)
    restricted.answered(worker, 1)
    right = restricted.own[place]
    restricted.lose(right)
    if place == 5:
        value = b"nothing of ours"
        restricted.append("queue", 0, (b"k", value, []))
    else:
        dialog.ask(2)
    failure = failure_of(worker)
    assert named(right) in failure
    assert "is missing" in failure


def test_no_work_needs_the_right_to_write_events(
    restricted: RestrictedService, caplog: pytest.LogCaptureFixture
) -> None:
    restricted.lose(restricted.events_right)
    worker = restricted.open(restricted.guarded_worker())
    restricted.append("queue", 0, (b"k", b"nothing of ours", []))
    dialog = Asking(restricted)
    dialog.ask(1, 2)
    restricted.answered(worker, 1, 2)
    assert f"{named(restricted.events_right)} is missing" in caplog.text
    assert '"event": "SET_ASIDE"' in caplog.text


@pytest.mark.parametrize("shown", [True, False])
def test_a_peer_that_may_not_be_written_to_waits_and_stops_nobody(
    restricted: RestrictedService, caplog: pytest.LogCaptureFixture, *, shown: bool
) -> None:
    """Anybody can send a first message in the name of a service that this one has no right on."""
    _, kind, name = restricted.right_to("other")
    restricted.lose(restricted.right_to("other"))
    if shown:
        restricted.broker.grant("clerk", [("DESCRIBE", kind, name)])
    clock = AheadClock()
    worker = restricted.open(restricted.guarded_worker(clock=clock))
    good, bad = Asking(restricted), Asking(restricted, service="other")
    bad.ask(1, 2)
    good.ask(3, 4)
    restricted.answered(worker, 3, 4)
    assert f"WRITE on topic {name} is missing" in caplog.text
    assert worker.partitions[0].waiting.delayed
    restricted.broker.grant("clerk", [restricted.right_to("other")])
    clock.ahead += 70 * SECOND
    until(lambda: (worker.step(0.05), not worker.partitions[0].waiting.delayed)[1])
    assert restricted.answers("other") == [1, 2]
    good.ask(5)
    restricted.answered(worker, 3, 4, 5)


def test_a_right_to_a_peer_that_goes_while_it_runs_breaks_its_dialogs_in_the_end(restricted: RestrictedService) -> None:
    periods = Periods(refused_after=6 * SECOND)
    worker = restricted.open(restricted.guarded_worker(settings=WorkerSettings(periods=periods)))
    good, bad = Asking(restricted), Asking(restricted, service="other")
    bad.ask(1)
    until(lambda: (worker.step(0.05), restricted.answers("other", end=False) == [1])[1])
    restricted.lose(restricted.right_to("other"))
    bad.ask(2)
    good.ask(3)
    restricted.answered(worker, 3)
    until(lambda: (worker.step(0.05), worker.partitions[0].waiting.delayed)[1])
    good.ask(4)
    until(lambda: (worker.step(0.05), restricted.events("UNDELIVERABLE"))[1])
    (event,) = restricted.events("UNDELIVERABLE")
    assert event["code"] == codes.NOT_PERMITTED.number
    assert f"{named(restricted.right_to('other'))} is missing" in event["why"]
    (letter,) = restricted.read(restricted.topic("dead-letter"))
    kept = decode(letter.value() or b"")
    assert (kept.kind, kept.prefix.conversation_id) == (Kind.MESSAGE, bad.id)
    assert dict(letter.headers() or ())[letters.REASON] == letters.UNDELIVERABLE.encode()
    restricted.answered(worker, 3, 4)


@pytest.fixture
def invoices(restricted: RestrictedService) -> Iterator[str]:
    """A topic that belongs to somebody else."""
    topic = create_topic(restricted.kafka, f"invoices-{restricted.kafka.namespace}")
    yield topic
    delete_topic(restricted.kafka, topic)


def publishing(restricted: RestrictedService, topic: str) -> Service[Tally]:
    """A clerk that publishes an invoice for each odd question."""

    def bill(ask: Ask, dialog: Dialog[Tally]) -> None:
        if ask.n % 2:
            dialog.publish(topic, None, str(ask.n))
        answer(ask, dialog)

    service: Service[Tally] = Service("clerk", accepts=[ASKING], state=Tally, publishes=[topic])
    service.on(Ask)(bill)
    return service


def test_a_service_publishes_with_the_right_to_write_alone(restricted: RestrictedService, invoices: str) -> None:
    """A topic that it may not write to is named at the start."""
    service = publishing(restricted, invoices)
    refused = restricted.guarded_worker(service=service)
    assert f"{invoices}: WRITE on topic {invoices} is missing" in failure_of(refused)
    refused.close()
    restricted.broker.grant("clerk", [("WRITE", "TOPIC", invoices)])
    worker = restricted.open(restricted.guarded_worker(service=service))
    Asking(restricted).ask(1, 2)
    restricted.answered(worker, 1, 2)
    assert [record.value() for record in committed(restricted.kafka, invoices)] == [b"1"]


def test_the_right_to_publish_that_goes_while_it_runs_delays_the_handlers_that_publish(
    restricted: RestrictedService, invoices: str
) -> None:
    """Their dialogs wait for the right; others go on."""
    right = ("WRITE", "TOPIC", invoices)
    restricted.broker.grant("clerk", [right])
    periods = Periods(blocked_first=SECOND, blocked_last=2 * SECOND)
    service, settings = publishing(restricted, invoices), WorkerSettings(periods=periods)
    worker = restricted.open(restricted.guarded_worker(settings, service=service))
    waiting, going = Asking(restricted), Asking(restricted)
    waiting.ask(1)
    restricted.answered(worker, 1)
    restricted.lose(right)
    waiting.ask(3)
    going.ask(2)
    restricted.answered(worker, 1, 2)
    until(lambda: (worker.step(0.05), worker.partitions and worker.partitions[0].parking.parks)[1])
    restricted.broker.grant("clerk", [right])
    restricted.answered(worker, 1, 2, 3)
    assert [record.value() for record in committed(restricted.kafka, invoices)] == [b"1", b"3"]


def feeder_of(restricted: RestrictedService, topic: str) -> KafkaFeeder:
    """A feed of the clerk, that logs in as the clerk."""

    def turn(record: PlainRecord) -> Ask:
        return Ask(n=int(record.value or b"0"))

    address = Kafka(
        restricted.broker.guarded, namespace=restricted.kafka.namespace, settings=GuardedBroker.login("clerk")
    )
    return KafkaFeeder(
        "clerk", Feed(topic, "other", ASKING, "earliest", turn, "turn"), address, WorkerSettings(slot="a.b")
    )


def test_a_feed_needs_the_rights_to_read_its_topic_and_to_use_its_group(
    restricted: RestrictedService, invoices: str
) -> None:
    """The one that is missing at the start is named. If it goes later, the feed waits for it."""
    own = [("READ", "TOPIC", invoices), ("READ", "GROUP", feed_group(restricted.kafka.namespace, "clerk", invoices))]
    for right in own:
        with pytest.raises(LogError, match=f"{named(right)} is missing"):
            feeder_of(restricted, invoices).check()
        restricted.broker.grant("clerk", [right])
    feeder = feeder_of(restricted, invoices)
    feeder.check()
    thread = threading.Thread(target=feeder.run, daemon=True)
    thread.start()
    try:
        append_plain(restricted, invoices, b"1")
        until(lambda: feeder.counts.begun == 1)
        restricted.lose(own[0])
        append_plain(restricted, invoices, b"2")
        until(lambda: f"{named(own[0])} is missing" in feeder.trouble)
        restricted.broker.grant("clerk", [own[0]])
        until(lambda: feeder.counts.begun == 2 and not feeder.trouble)
    finally:
        feeder.stop()
        thread.join(60)
    assert not thread.is_alive()


def append_plain(restricted: RestrictedService, topic: str, value: bytes) -> None:
    """Append a record as the owner of the topic does."""
    producer = Producer({"bootstrap.servers": restricted.kafka.bootstrap})
    producer.produce(topic, value)
    assert producer.flush(30) == 0
