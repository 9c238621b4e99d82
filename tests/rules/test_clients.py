"""What Kafka's client needs: offsets first, one thread, no inputs left behind, no transaction left open."""

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Producer

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka import clients, transactions
from conversations.kafka.follow import Follower
from conversations.ports import Positions
from conversations.protocol.topics import QUEUE
from tests.integration.kafka.members import PARTITIONS, START, Member, topic, until
from tests.rules.support.stepped_service import Asking, SteppedService

pytestmark = pytest.mark.kafka


def test_the_offsets_are_sent_before_the_records_and_accepted_before_the_commit(
    stepped: SteppedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a commit, the coordinator refuses offsets and records for a moment: librdkafka repeats records only after 20 ms."""
    steps: list[str] = []

    class Watched(Producer):
        def begin_transaction(self) -> None:
            steps.append("begin ")
            super().begin_transaction()

        def send_offsets_to_transaction(self, *arguments: Any) -> None:
            steps.append("offsets ")
            super().send_offsets_to_transaction(*arguments)
            steps.append("accepted ")

        def produce(self, *arguments: Any) -> None:
            if not steps[-1].startswith("record"):
                steps.append("records ")
            super().produce(*arguments)

        def commit_transaction(self, *arguments: Any) -> None:
            steps.append("commit;")
            super().commit_transaction(*arguments)

    monkeypatch.setattr(clients, "Producer", Watched)
    worker = stepped.open(stepped.worker())
    Asking(stepped).ask(1, 2, 3)
    stepped.answered(worker, 1, 2, 3)
    made = [it for it in "".join(steps).split(";") if "records" in it]
    assert len(made) > 1
    # Not all: the thread of the offsets may be stopped just before its call.
    assert sum(it.startswith("begin offsets") for it in made) > len(made) / 2, made
    assert all("accepted" in it for it in made), made


USES: list[Callable[[Member], object]] = [
    lambda member: member.connection.poll(0, 1),
    lambda member: member.connection.commit([], {0: 0}),
    lambda member: member.connection.open(0, Positions(None, None)),
    lambda member: member.connection.pause(0),
    lambda member: member.connection.resume(0),
    lambda member: member.connection.drop(0),
    lambda member: member.connection.read_to(QUEUE, 0),
    lambda member: member.connection.close(),
]


def test_a_second_thread_may_not_touch_the_consumer(member: Member) -> None:
    """Its methods would hang behind a poll, and with them whoever calls."""
    refused: list[str] = []

    def use() -> None:
        for one in USES:
            try:
                one(member)
            except RuntimeError as error:
                refused.append(str(error))

    thread = Thread(target=use)
    thread.start()
    thread.join()
    assert refused == ["only the thread that joined may use the connection"] * len(USES)
    assert member.owned == set(range(PARTITIONS))


def test_a_revoked_partition_takes_its_commands_along(kafka: Kafka, member: Member) -> None:
    """The group's callbacks list the queue alone: the old owner would go on reading the rest."""
    for partition in range(PARTITIONS):
        member.connection.open(partition, START)
    inputs = member.connection._inputs
    assert inputs is not None
    assert len(inputs._consumer.assignment()) == 2 * PARTITIONS
    second = Member(kafka).join()
    until(lambda: (member.poll(), second.poll(), len(second.owned) == 2)[2])
    kept = {(where.topic, where.partition) for where in inputs._consumer.assignment()}
    second.connection.close()
    assert kept == {(topic(kafka, kind), p) for kind in ("queue", "commands") for p in member.owned}


# -- transactions left open -----------------------------------------------------------------------------------------


def orphan(stepped: SteppedService, slot: str | None) -> None:
    """Leave a transaction open that has written to the asker's queue, as a process does that is killed."""
    connection = stepped.connection(slot)
    connection.join(Member(stepped.kafka, "clerk"))
    assert connection._transactions is not None
    assert connection._inputs is not None
    producer = connection._transactions._alive()
    producer.begin_transaction()
    producer.produce(stepped.topic("queue", "asker"), b"never", b"k", 0)
    assert producer.flush(10) == 0
    connection._inputs.close()


def append_behind(stepped: SteppedService) -> None:
    """Append a record of another sender behind the open transaction, and see that nobody can read it."""
    name = stepped.topic("queue", "asker")
    stepped.append_to(name, 0, (b"k", b"of another sender", []))
    with Follower(stepped.kafka, [name]) as follower, pytest.raises(LogError, match="not read"):
        follower.to_the_end(1)


def is_visible(stepped: SteppedService) -> bool:
    values = [record.value() for record in stepped.read(stepped.topic("queue", "asker"), end=False)]
    return values == [b"of another sender"]


def test_a_restart_in_the_same_slot_ends_what_its_predecessor_left_open(
    stepped: SteppedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hides the records of *other* senders: they must not wait for its time-out."""
    with monkeypatch.context() as patient:
        patient.setitem(transactions.SAFE, "transaction.timeout.ms", 300_000)
        orphan(stepped, "0")
    append_behind(stepped)
    stepped.connection("0").join(Member(stepped.kafka, "clerk"))
    until(lambda: is_visible(stepped), seconds=20)


def test_a_transaction_nobody_ends_hides_other_senders_for_seconds(stepped: SteppedService) -> None:
    """Nobody comes back in its slot, so the broker ends it: after ten seconds, not after Kafka's minute."""
    orphan(stepped, None)
    append_behind(stepped)
    until(lambda: is_visible(stepped), seconds=30)
