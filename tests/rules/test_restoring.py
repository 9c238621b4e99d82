"""What an owner takes up: every commit before it, nothing older, from where the last owner stopped."""

from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported at run time, not in its types
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from conversations.config import Kafka
from conversations.kafka.clients import describe_topics
from conversations.kafka.search import Search
from conversations.ports import nothing
from conversations.protocol import rows
from conversations.protocol.topics import QUEUE
from conversations.stores.rocksdb import RocksStores
from conversations.worker import Worker
from tests.integration.kafka.members import Member, restored, topic
from tests.rules.support.stepped_service import Asking, SteppedService, until

pytestmark = pytest.mark.kafka

ASIDE = "PARTITION_SET_ASIDE"
GHOST = b"K" + bytes(17), int((time() + 86_400) * 1_000_000).to_bytes(8, "big")
"""A row that only the local copy still has: its deletion was compacted away, or never was in this topic."""


def worked(stepped: SteppedService, worker: Worker, *numbers: int) -> None:
    """Let a worker answer in a dialog of its own, and end."""
    Asking(stepped).ask(*numbers)
    stepped.answered(stepped.open(worker), *numbers)
    worker.close()


def set_aside(stepped: SteppedService, before: int) -> str:
    """Step a new worker until its partition is set aside or more than ``before`` answers are there; tell why."""
    worker = stepped.worker()
    until(lambda: (worker.step(0.05), stepped.events(ASIDE) or len(stepped.answers(end=False)) > before)[1])
    assert len(stepped.answers()) == before
    assert not worker.partitions
    (event,) = stepped.events(ASIDE)
    assert event["partition"] == 0
    return str(event["why"])


# -- rows -----------------------------------------------------------------------------------------------------------


def test_a_restore_waits_for_the_rows_of_an_open_transaction(kafka: Kafka, member: Member) -> None:
    """An owner that is still committing hides its rows from committed readers, and commits them a moment later."""
    member.connection.commit([member.state(b"a", b"1")], {0: 1})
    transactions = member.connection._transactions
    assert transactions is not None
    producer = transactions._alive()
    producer.begin_transaction()
    producer.produce(topic(kafka, "state"), b"2", b"a", 0)
    producer.flush()
    restore = member.connection.restore(0, None)
    rows: list[tuple[bytes, bytes | None]] = []
    while not rows:
        rows += restore.advance(100).rows
    assert not restore.advance(100).done
    producer.commit_transaction(10)
    assert rows + restored(restore) == [(b"a", b"1"), (b"a", b"2")]


def test_a_restore_knows_the_groups_offset_before_it_takes_the_end(kafka: Kafka, member: Member) -> None:
    """Else the rows of a commit in between are missed, although the offset says that they are there."""
    member.connection.commit([member.state(b"a", b"1")], {0: 1})
    transactions = member.connection._transactions
    assert transactions is not None
    transactions._fill([member.state(b"a", b"2")], {0: 2}, Search(1), nothing)
    restore = member.connection.restore(0, None)
    for _ in range(5):
        assert not restore.advance(100).done
    assert restore.committed is None
    transactions._decide([])
    member.connection.commit([member.state(b"a", b"3")], {0: 3})
    rows: list[tuple[bytes, bytes | None]] = []
    done = False
    while not done:
        part = restore.advance(1)  # one by one: a larger slice may reach beyond the end by chance
        rows += part.rows
        done = part.done
    assert rows == [(b"a", b"1"), (b"a", b"2"), (b"a", b"3")]
    assert restore.committed in {2, 3}, "it asks again while the offset is unstable, perhaps between the two commits"


def too_old(stepped: SteppedService, directory: Path) -> RocksStores:
    """Give a copy from before deletions that the topic tells no more."""
    leave_ghost(stepped, directory)
    return RocksStores(directory, clock=lambda: time() + 13 * 3600)


def below_the_log_start(stepped: SteppedService, directory: Path) -> RocksStores:
    """Give a copy that ends before the topic begins."""
    end = leave_ghost(stepped, directory)
    other = stepped.open(stepped.worker())
    Asking(stepped).ask(2)
    stepped.answered(other, 1, 2)
    other.close()
    # Of a compacted topic Kafka lets nobody delete records, so it is no such topic for a moment.
    alter_topic(stepped, "state", "cleanup.policy", "compact,delete")
    delete_before(stepped, "state", end + 1)
    alter_topic(stepped, "state", "cleanup.policy", "compact")
    return RocksStores(directory)


def alter_topic(stepped: SteppedService, kind: str, setting: str, value: str) -> None:
    """Set one setting of a topic."""
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, stepped.topic(kind), incremental_configs=[entry])
    stepped.admin.incremental_alter_configs([resource])[resource].result()


def of_another_topic(stepped: SteppedService, directory: Path) -> RocksStores:
    """Give a copy of a topic that had the same name."""
    leave_ghost(stepped, directory, "another")
    return RocksStores(directory)


def delete_before(stepped: SteppedService, kind: str, offset: int) -> None:
    """Move the beginning of a log, as soon as Kafka allows it."""
    where = TopicPartition(stepped.topic(kind), 0, offset)
    until(lambda: stepped.admin.delete_records([where])[where].exception() is None)


def leave_ghost(stepped: SteppedService, directory: Path, topic_id: str | None = None) -> int:
    """Put the ghost into the local copy; return the offset up to which that is complete."""
    stores = RocksStores(directory)
    first = stepped.worker(stores=stores)
    worked(stepped, first, 1)
    state_id = first.context.connection.topic_ids()[stepped.topic("state")]
    end = stores.open(0, state_id)
    checkpoint = end.checkpoint() or 0
    end.close()
    copy = stores.open(0, topic_id or state_id)
    copy.apply([GHOST], checkpoint)
    copy.close()
    return checkpoint


@pytest.mark.parametrize("made", [too_old, below_the_log_start, of_another_topic])
def test_a_stale_local_copy_is_built_anew(
    stepped: SteppedService, tmp_path: Path, made: Callable[[SteppedService, Path], RocksStores]
) -> None:
    """What it still has and the topic has no more would come back to life."""
    worker = stepped.open(stepped.worker(stores=made(stepped, tmp_path)))
    assert worker.partitions[0].outbox.read(GHOST[0]) is None
    assert worker.partitions[0].progress.row.queue > 0


def test_a_damaged_local_copy_is_thrown_away_and_told(stepped: SteppedService, tmp_path: Path) -> None:
    """At the start, and in the middle of work: nothing is handled from wrong rows, nothing is lost."""
    stores = RocksStores(tmp_path)
    worked(stepped, stepped.worker(stores=stores), 1, 2)
    assert damage(tmp_path)
    worker = stepped.open(stepped.worker(stores=stores))
    assert "is damaged" in stepped.events("COPY_DAMAGED")[0]["why"]
    dialog = Asking(stepped)
    dialog.ask(3)
    stepped.answered(worker, 1, 2, 3)
    store: Any = worker.partitions[0].outbox.store
    store._pass_on()
    store._db.flush()
    assert damage(tmp_path)
    worker.partitions[0].actives.clear()  # what is not in memory is read from the copy
    dialog.ask(4)
    Asking(stepped).ask(5)
    until(lambda: (worker.step(0.05), sorted(stepped.answers(end=False)) == [1, 2, 3, 4, 5])[1])
    assert len(stepped.events("COPY_DAMAGED")) == 2
    assert worker.partitions[0].progress.row.queue > 0


def damage(directory: Path) -> int:
    """Change something in the middle of every table of the copy; return how many there are."""
    tables = list((directory / "0").glob("*.sst"))
    for table in tables:
        content = bytearray(table.read_bytes())
        for at in range(len(content) // 2):
            content[at] ^= 1
        with table.open("r+b") as file:
            file.write(content)
    return len(tables)


def test_a_restore_from_before_what_is_committed_begins_again(
    stepped: SteppedService, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader that was cut off from its cluster still shows the rows of then; the group's offset tells that there was more."""
    worked(stepped, stepped.worker(), 1, 2)
    state = stepped.topic("state")
    positions = [record.value() or b"" for record in stepped.read(state) if record.key() == rows.PARTITION]
    stepped.append_to(state, 0, (rows.PARTITION, positions[0], []))
    worker = stepped.worker()
    until(lambda: (worker.step(0.05), caplog.text.count("cut off from the others") > 1)[1])
    assert not worker.partitions
    stepped.append_to(state, 0, (rows.PARTITION, positions[-1], []))
    Asking(stepped).ask(3)
    stepped.answered(stepped.open(worker), 1, 2, 3)


# -- positions ------------------------------------------------------------------------------------------------------


def test_positions_outlive_the_groups_offsets(stepped: SteppedService) -> None:
    """A group's offsets expire when nobody works for a week; the partition's own row does not."""
    worked(stepped, stepped.worker(), 1, 2)
    group = f"{stepped.kafka.namespace}.clerk"
    stepped.admin.delete_consumer_groups([group])[group].result()
    successor = stepped.open(stepped.worker())
    Asking(stepped).ask(3)
    stepped.answered(successor, 1, 2, 3)
    assert successor.counts.duplicates == 0


def test_positions_of_the_row_win_over_the_groups_offsets(stepped: SteppedService) -> None:
    """Offsets of a group can be moved by anybody who may alter it, past messages nobody has read."""
    worked(stepped, stepped.worker(), 1, 2)
    Asking(stepped).ask(3)
    alter_offset(stepped, stepped.workers[0].context.connection.end(QUEUE, 0))
    stepped.answered(stepped.open(stepped.worker()), 1, 2, 3)


def test_an_offset_without_a_row_stops_the_partition(stepped: SteppedService) -> None:
    """There was an owner, and its state is gone: handling everything again would be a second time."""
    Asking(stepped).ask(1, 2)
    alter_offset(stepped, 1)
    assert "no row" in set_aside(stepped, 0)


def alter_offset(stepped: SteppedService, offset: int) -> None:
    """Move the clerk's group while nobody is in it."""
    request = ConsumerGroupTopicPartitions(
        f"{stepped.kafka.namespace}.clerk", [TopicPartition(stepped.topic("queue"), 0, offset)]
    )
    for future in stepped.admin.alter_consumer_group_offsets([request]).values():
        future.result()


def test_a_recreated_queue_stops_its_partition(stepped: SteppedService) -> None:
    """Positions mean nothing in it; it has messages below them and above."""
    worked(stepped, stepped.worker(), 1, 2)
    name = stepped.topic("queue")
    stepped.admin.delete_topics([name])[name].result()
    until(lambda: describe_topics(stepped.admin, stepped.kafka, [name])[name] is None)
    stepped.apply()
    for n in range(3, 13):
        Asking(stepped).ask(n)
    assert "re-created" in set_aside(stepped, 2)


def test_an_input_that_lost_its_beginning_stops_its_partition(stepped: SteppedService) -> None:
    """Reading on where the log begins now would lose what was deleted in between, without a word."""
    worked(stepped, stepped.worker(), 1, 2)
    end = stepped.workers[0].context.connection.end(QUEUE, 0)
    Asking(stepped).ask(3)
    delete_before(stepped, "queue", end + 1)
    Asking(stepped).ask(4)
    assert "out of range" in set_aside(stepped, 2).lower()
