"""One record that its topic does not take: it is found, whatever else the transaction carries."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from conversations.config import Kafka
from conversations.errors import DestinationFailed, Interrupted
from conversations.kafka.clients import describe_topics
from conversations.kafka.follow import Follower
from conversations.kafka.transactions import POLL_EVERY
from conversations.ports import Out
from tests.integration.kafka.members import Member, topic, until

pytestmark = pytest.mark.kafka


def committed(kafka: Kafka, name: str) -> list[bytes | None]:
    follower = Follower(kafka, [name])
    found = [record.value() for record in follower.to_the_end(40)]
    follower.close()
    return found


def limited(kafka: Kafka, service: str, **settings: str) -> str:
    """Make a queue with settings of its own."""
    name = topic(kafka, "queue", service)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result()
    until(lambda: describe_topics(admin, kafka, [name])[name] is not None)
    return name


def refused(member: Member, outs: Sequence[Out]) -> DestinationFailed:
    """Do as a worker does: a commit that was interrupted is made again."""
    for _ in range(3):
        try:
            member.connection.commit(outs, {0: 1})
        except Interrupted:
            continue
        except DestinationFailed as failed:
            return failed
    raise AssertionError("it was committed")


@pytest.mark.parametrize("count", [1, 3, 400])
def test_the_one_record_that_is_too_large_for_its_topic_is_found(kafka: Kafka, member: Member, count: int) -> None:
    """The others are in the same batch, and go out without it."""
    small = limited(kafka, f"small{count}", **{"max.message.bytes": "50000"})
    drawn = Random(1)
    outs = [Out(small, 0, b"k", drawn.randbytes(100)) for _ in range(count - 1)]
    bad = count * 2 // 3
    outs.insert(bad, Out(small, 0, b"k", drawn.randbytes(60_000)))
    outs.append(member.state(b"a", b"1"))
    failed = refused(member, outs)
    (place,) = failed.records
    assert (place, failed.topics) == (bad, {})
    assert (failed.records[bad].topic, failed.records[bad].too_large) == (small, True)
    assert member.connection.commit([*outs[:bad], *outs[bad + 1 :]], {0: 1})[0] > 0
    assert len(committed(kafka, small)) == count - 1


def test_the_one_record_that_a_topic_finds_invalid_is_found(kafka: Kafka, member: Member) -> None:
    compacted = limited(kafka, "compacted", **{"cleanup.policy": "compact"})
    outs = [Out(compacted, 0, b"k", b"fits") for _ in range(40)]
    outs[7] = Out(compacted, 0, None, b"has no key")
    failed = refused(member, [*outs, member.state(b"a", b"1")])
    assert failed.records.keys() == {7}
    assert "INVALID_RECORD" in failed.records[7].why


def test_records_that_are_too_large_only_together_are_all_appended(kafka: Kafka, member: Member) -> None:
    small = limited(kafka, "together", **{"max.message.bytes": "100000"})
    drawn = Random(1)
    outs = [Out(small, 0, b"k", drawn.randbytes(9_000)) for _ in range(300)]
    assert member.connection.commit([*outs, member.state(b"a", b"1")], {0: 1})[0] > 0
    assert committed(kafka, small) == [out.value for out in outs]


class Slow(list[Out]):
    """Records that are taken slowly: before those behind the first are taken, Kafka has answered about those before."""

    def __init__(self, outs: list[Out], member: Member) -> None:
        super().__init__(outs)
        self._member = member

    def __getitem__(self, at: Any) -> Any:
        transactions = self._member.connection._transactions
        if isinstance(at, slice) and at.start and transactions is not None and transactions._producer is not None:
            transactions._producer.flush(30)
        return super().__getitem__(at)


def test_a_refusal_while_records_are_produced_is_no_fault_of_the_next_record(kafka: Kafka, member: Member) -> None:
    """The client takes no further record of a transaction that has failed. Which record failed is looked for as ever."""
    small = limited(kafka, "late", **{"max.message.bytes": "50000"})
    outs = [Out(small, 0, b"k", b"fits") for _ in range(POLL_EVERY + 10)]
    outs[7] = Out(small, 0, b"k", Random(1).randbytes(60_000))
    failed = refused(member, Slow([*outs, member.state(b"a", b"1")], member))
    assert failed.records.keys() == {7}


def test_a_record_that_no_topic_takes_is_found_before_it_is_sent(kafka: Kafka, member: Member) -> None:
    there = topic(kafka, "queue", "billing")
    failed = refused(member, [Out(there, 0, b"k", b"fits"), Out(there, 0, b"k", bytes(2_100_000))])
    assert failed.records.keys() == {1}
