"""The whole table at once, on a real Kafka: one worker, one partition, and bad records between healthy ones."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from conversations.config import WorkerSettings
from conversations.crew import Crew, kafka_worker
from conversations.kafka import catalog
from conversations.protocol.topics import COMMANDS, QUEUE
from conversations_ops.read_model.projector import current
from conversations_ops.why.collected import facts_of_service
from tests.bad_input import commands, wire
from tests.bad_input.support.forging import Known, kind_for, stranger
from tests.bad_input.support.kafka_log import KafkaPlace
from tests.bad_input.support.outcomes import Thrown, begin, order, problems
from tests.bad_input.support.services import shop, web
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
HEALTHY = 3


@pytest.fixture
def place(kafka_bootstrap: str) -> KafkaPlace:
    return KafkaPlace(kafka_bootstrap)


@pytest.fixture
def crew(place: KafkaPlace) -> Iterator[Crew]:
    with running(place, {}) as crew:
        yield crew


@contextmanager
def running(place: KafkaPlace, settings: dict[str, object]) -> Iterator[Crew]:
    """Run a worker of each service, with these settings of librdkafka."""
    kafka = replace(place.kafka, settings=settings)
    with Crew([kafka_worker(service, kafka, WorkerSettings()) for service in (shop(), web())], kafka) as crew:
        crew.await_ready(60)
        yield crew


def begun(place: KafkaPlace, count: int, seed: int, partition: int = 0) -> list[Known]:
    """Begin dialogs; return them once order 0 of each was answered."""
    found = [stranger(place.now(), Random(seed + number), partition) for number in range(count)]
    place.throw("web", COMMANDS, [begin(one) for one in found])
    await_receipts(place, found, [0])
    prefixes = {envelope.prefix.conversation_id: envelope.prefix for envelope in place.sent("shop")}
    for one in found:
        one.prefix, one.next = prefixes[one.conversation.bytes], 1
    return found


def await_receipts(place: KafkaPlace, dialogs: list[Known], numbers: list[int]) -> None:
    def all_have() -> bool:
        states = place.states("web")
        return all(states.get(str(one.conversation), {}).get("receipts") == numbers for one in dialogs)

    until(all_have, f"receipts {numbers}")


@pytest.mark.timeout(300)
def test_a_partition_takes_the_whole_table_between_healthy_messages(
    place: KafkaPlace, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end the healthy dialogs are complete, and every bad record is accounted for by its offset."""
    monkeypatch.setattr(
        catalog, "PATIENCE", 60.0
    )  # a sender without an entry is set aside only if the catalog was read
    healthy = begun(place, HEALTHY, 1_000)
    under_way = iter(begun(place, sum(row.established for row in wire.ROWS), 2_000))
    thrown = []
    for number, row in enumerate(wire.ROWS):
        known = next(under_way) if row.established else stranger(place.now(), Random(5_000 + number))
        record = row.forge(known)
        (offset,) = place.throw("shop", QUEUE, [record])
        thrown.append(Thrown(row, known, record, offset))
        if number % 10 == 0:
            place.throw("web", COMMANDS, [order(one, number // 10 + 1) for one in healthy])
    place.throw("web", COMMANDS, [order(t.known, 1) for t in thrown if t.row.established and t.row.goes_on])
    await_receipts(place, [t.known for t in thrown if t.row.established and t.row.goes_on], [0, 1])
    await_receipts(place, healthy, list(range((len(wire.ROWS) - 1) // 10 + 2)))
    assert problems(place, thrown) == []
    crew.stop()


@pytest.mark.timeout(300)
def test_a_partition_takes_every_bad_command(place: KafkaPlace, crew: Crew) -> None:
    """The dead letter of each command has its offset and its code, and healthy dialogs go on."""
    healthy = begun(place, 1, 1_000)
    under_way = iter(begun(place, sum(row.established for row in commands.ROWS), 3_000))
    thrown = {}
    for number, row in enumerate(commands.ROWS):
        known = next(under_way) if row.established else stranger(place.now(), Random(7_000 + number))
        record = row.forge(known)
        kind = kind_for(record)
        (offset,) = place.throw("web", kind, [record])
        thrown[kind, offset] = row
    place.throw("web", COMMANDS, [order(healthy[0], 1)])
    await_receipts(place, healthy, [0, 1])
    kept = place.letters("web")
    for source, row in thrown.items():
        found = [(letter.reason, letter.code) for letter in kept.get(source, [])]
        assert found == ([(row.reason, row.code)] if row.reason else []), row.what
    crew.stop()


BOMB = 150_000_000


@pytest.mark.timeout(300)
@pytest.mark.parametrize("codec", ["gzip", "lz4"])
def test_a_record_that_unpacks_to_a_hundred_times_its_topics_limit_is_set_aside(
    place: KafkaPlace, crew: Crew, codec: str
) -> None:
    """150 MB of zeros fit into the topic when they are compressed."""
    healthy = begun(place, 1, 1_000)
    bomb = stranger(place.now(), Random(5)).raw(bytes(BOMB))
    (offset,) = place.throw_compressed("shop", QUEUE, bomb, codec)
    place.throw("web", COMMANDS, [order(healthy[0], 1)])
    await_receipts(place, healthy, [0, 1])
    assert [event["offset"] for event in place.events("SET_ASIDE")] == [offset]
    (letter,) = place.letters("shop")["queue", offset]
    assert (letter.value, letter.key) == (bomb.value, bomb.key)
    crew.stop()


def aside(place: KafkaPlace, directory: Path) -> Mapping[tuple[str, int], tuple[int, str]]:
    """Return what `conversations why shop` knows about partitions that are set aside."""
    with current(place.kafka, lambda _done, _total: None, directory) as file:
        return facts_of_service(place.kafka, file, "shop").aside


@pytest.mark.timeout(300)
def test_a_batch_that_cannot_be_unpacked_sets_its_partition_aside_until_it_can(
    place: KafkaPlace, tmp_path: Path
) -> None:
    """If a zstd batch is larger than the client accepts, an event reports the partition, and the other goes on. With a larger limit, both go on."""
    with running(place, {}) as crew:
        healthy, elsewhere = begun(place, 1, 1_000), begun(place, 1, 2_000, partition=1)
        bomb = stranger(place.now(), Random(5)).raw(bytes(BOMB))
        (offset,) = place.throw_compressed("shop", QUEUE, bomb, "zstd")
        until(lambda: place.events("PARTITION_SET_ASIDE"), "the event")
        place.throw("web", COMMANDS, [order(one, 1) for one in (*healthy, *elsewhere)])
        await_receipts(place, elsewhere, [0, 1])
        (event,) = place.events("PARTITION_SET_ASIDE")
        assert (event["service"], event["partition"]) == ("shop", 0)
        assert "ompress" in event["why"]
        assert {where: why for where, (_, why) in aside(place, tmp_path).items()} == {("shop", 0): event["why"]}
        crew.stop()
    with running(place, {"receive.message.max.bytes": 2 * BOMB}) as crew:
        await_receipts(place, healthy, [0, 1])
        assert [event["offset"] for event in place.events("SET_ASIDE")] == [offset]
        (letter,) = place.letters("shop")["queue", offset]
        assert letter.value == bomb.value
        assert aside(place, tmp_path) == {}, "its owner has written a row since"
        crew.stop()
