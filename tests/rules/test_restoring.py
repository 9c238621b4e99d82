"""What an owner takes up: every commit before it, nothing older, from where the last owner stopped."""

from collections.abc import Callable
from pathlib import Path
from time import time

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
from conversations.protocol import rows
from conversations.stores.rocksdb import RocksStores
from conversations.worker import Worker
from tests.integration.kafka.members import Member, restored, topic
from tests.rules.support.stepped_service import Asking, House, until

pytestmark = pytest.mark.kafka

ASIDE = "PARTITION_SET_ASIDE"
GHOST = b"K" + bytes(17), int((time() + 86_400) * 1_000_000).to_bytes(8, "big")
"""A row that only the local copy still has: its deletion was compacted away, or never was in this topic."""


def worked(house: House, worker: Worker, *numbers: int) -> None:
    """Let a worker answer in a dialog of its own, and end."""
    Asking(house).ask(*numbers)
    house.answered(house.open(worker), *numbers)
    worker.close()


def set_aside(house: House, before: int) -> str:
    """Step a new worker until its partition is set aside or more than ``before`` answers are there; tell why."""
    worker = house.worker()
    until(lambda: (worker.step(0.05), house.events(ASIDE) or len(house.answers(end=False)) > before)[1])
    assert len(house.answers()) == before
    assert not worker.partitions
    (event,) = house.events(ASIDE)
    assert event["partition"] == 0
    return str(event["why"])


# -- rows -----------------------------------------------------------------------------------------------------------


def test_a_restore_waits_for_the_rows_of_an_open_transaction(kafka: Kafka, member: Member) -> None:
    """An owner that is still committing hides its rows from committed readers, and commits them a moment later."""
    member.log.commit([member.state(b"a", b"1")], {0: 1})
    transactions = member.log._transactions
    assert transactions is not None
    producer = transactions._alive()
    producer.begin_transaction()
    producer.produce(topic(kafka, "state"), b"2", b"a", 0)
    producer.flush()
    restore = member.log.restore(0, None)
    rows: list[tuple[bytes, bytes | None]] = []
    while not rows:
        rows += restore.advance(100).rows
    assert not restore.advance(100).done
    producer.commit_transaction(10)
    assert rows + restored(restore) == [(b"a", b"1"), (b"a", b"2")]


def test_a_restore_knows_the_groups_offset_before_it_takes_the_end(kafka: Kafka, member: Member) -> None:
    """Else the rows of a commit in between are missed, although the offset says that they are there."""
    member.log.commit([member.state(b"a", b"1")], {0: 1})
    transactions = member.log._transactions
    assert transactions is not None
    transactions._fill([member.state(b"a", b"2")], {0: 2}, Search(1))
    restore = member.log.restore(0, None)
    for _ in range(5):
        assert not restore.advance(100).done
    assert restore.committed is None
    transactions._decide([])
    member.log.commit([member.state(b"a", b"3")], {0: 3})
    rows: list[tuple[bytes, bytes | None]] = []
    done = False
    while not done:
        part = restore.advance(1)  # one by one: a larger slice may reach beyond the end by chance
        rows += part.rows
        done = part.done
    assert rows == [(b"a", b"1"), (b"a", b"2"), (b"a", b"3")]
    assert restore.committed in {2, 3}, "it asks again while the offset is unstable, perhaps between the two commits"


def too_old(house: House, directory: Path) -> RocksStores:
    """Give a copy from before deletions that the topic tells no more."""
    leave_ghost(house, directory)
    return RocksStores(directory, clock=lambda: time() + 13 * 3600)


def below_the_log_start(house: House, directory: Path) -> RocksStores:
    """Give a copy that ends before the topic begins."""
    end = leave_ghost(house, directory)
    other = house.open(house.worker())
    Asking(house).ask(2)
    house.answered(other, 1, 2)
    other.close()
    # Of a compacted topic Kafka lets nobody delete records, so it is no such topic for a moment.
    alter_topic(house, "state", "cleanup.policy", "compact,delete")
    delete_before(house, "state", end + 1)
    alter_topic(house, "state", "cleanup.policy", "compact")
    return RocksStores(directory)


def alter_topic(house: House, kind: str, setting: str, value: str) -> None:
    """Set one setting of a topic."""
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, house.topic(kind), incremental_configs=[entry])
    house.admin.incremental_alter_configs([resource])[resource].result()


def of_another_topic(house: House, directory: Path) -> RocksStores:
    """Give a copy of a topic that had the same name."""
    leave_ghost(house, directory, "another")
    return RocksStores(directory)


def delete_before(house: House, kind: str, offset: int) -> None:
    """Move the beginning of a log, as soon as Kafka allows it."""
    where = TopicPartition(house.topic(kind), 0, offset)
    until(lambda: house.admin.delete_records([where])[where].exception() is None)


def leave_ghost(house: House, directory: Path, topic_id: str | None = None) -> int:
    """Put the ghost into the local copy; return the offset up to which that is complete."""
    stores = RocksStores(directory)
    first = house.worker(stores=stores)
    worked(house, first, 1)
    state_id = first.owner.log.topic_ids()[house.topic("state")]
    end = stores.open(0, state_id)
    checkpoint = end.checkpoint() or 0
    end.close()
    copy = stores.open(0, topic_id or state_id)
    copy.apply([GHOST], checkpoint)
    copy.close()
    return checkpoint


@pytest.mark.parametrize("made", [too_old, below_the_log_start, of_another_topic])
def test_a_stale_local_copy_is_built_anew(
    house: House, tmp_path: Path, made: Callable[[House, Path], RocksStores]
) -> None:
    """What it still has and the topic has no more would come back to life."""
    worker = house.open(house.worker(stores=made(house, tmp_path)))
    assert worker.partitions[0].outbox.read(GHOST[0]) is None
    assert worker.partitions[0].progress.row.queue > 0


def test_a_damaged_local_copy_is_thrown_away_and_told(house: House, tmp_path: Path) -> None:
    """At the start, and in the middle of work: nothing is handled from wrong rows, nothing is lost."""
    stores = RocksStores(tmp_path)
    worked(house, house.worker(stores=stores), 1, 2)
    assert damage(tmp_path)
    worker = house.open(house.worker(stores=stores))
    assert "is damaged" in house.events("COPY_DAMAGED")[0]["why"]
    dialog = Asking(house)
    dialog.ask(3)
    house.answered(worker, 1, 2, 3)
    worker.partitions[0].outbox.store._db.flush()  # type: ignore[attr-defined]  # of a RocksStore
    assert damage(tmp_path)
    worker.partitions[0].actives.clear()  # what is not in memory is read from the copy
    dialog.ask(4)
    Asking(house).ask(5)
    until(lambda: (worker.step(0.05), sorted(house.answers(end=False)) == [1, 2, 3, 4, 5])[1])
    assert len(house.events("COPY_DAMAGED")) == 2
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


def test_a_restore_from_before_what_is_committed_begins_again(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """A leader that was cut off from its cluster still shows the rows of then; the group's offset tells that there was more."""
    worked(house, house.worker(), 1, 2)
    state = house.topic("state")
    positions = [record.value() or b"" for record in house.read(state) if record.key() == rows.PARTITION]
    house.append_to(state, 0, (rows.PARTITION, positions[0], []))
    worker = house.worker()
    until(lambda: (worker.step(0.05), caplog.text.count("cut off from the others") > 1)[1])
    assert not worker.partitions
    house.append_to(state, 0, (rows.PARTITION, positions[-1], []))
    Asking(house).ask(3)
    house.answered(house.open(worker), 1, 2, 3)


# -- positions ------------------------------------------------------------------------------------------------------


def test_positions_outlive_the_groups_offsets(house: House) -> None:
    """A group's offsets expire when nobody works for a week; the partition's own row does not."""
    worked(house, house.worker(), 1, 2)
    group = f"{house.kafka.namespace}.clerk"
    house.admin.delete_consumer_groups([group])[group].result()
    successor = house.open(house.worker())
    Asking(house).ask(3)
    house.answered(successor, 1, 2, 3)
    assert successor.counts.duplicates == 0


def test_positions_of_the_row_win_over_the_groups_offsets(house: House) -> None:
    """Offsets of a group can be moved by anybody who may alter it, past messages nobody has read."""
    worked(house, house.worker(), 1, 2)
    Asking(house).ask(3)
    alter_offset(house, house.workers[0].owner.log.queue_end(0))
    house.answered(house.open(house.worker()), 1, 2, 3)


def test_an_offset_without_a_row_stops_the_partition(house: House) -> None:
    """There was an owner, and its state is gone: handling everything again would be a second time."""
    Asking(house).ask(1, 2)
    alter_offset(house, 1)
    assert "no row" in set_aside(house, 0)


def alter_offset(house: House, offset: int) -> None:
    """Move the clerk's group while nobody is in it."""
    request = ConsumerGroupTopicPartitions(
        f"{house.kafka.namespace}.clerk", [TopicPartition(house.topic("queue"), 0, offset)]
    )
    for future in house.admin.alter_consumer_group_offsets([request]).values():
        future.result()


def test_a_recreated_queue_stops_its_partition(house: House) -> None:
    """Positions mean nothing in it; it has messages below them and above."""
    worked(house, house.worker(), 1, 2)
    name = house.topic("queue")
    house.admin.delete_topics([name])[name].result()
    until(lambda: describe_topics(house.admin, house.kafka, [name])[name] is None)
    house.apply()
    for n in range(3, 13):
        Asking(house).ask(n)
    assert "re-created" in set_aside(house, 2)


def test_an_input_that_lost_its_beginning_stops_its_partition(house: House) -> None:
    """Reading on where the log begins now would lose what was deleted in between, without a word."""
    worked(house, house.worker(), 1, 2)
    end = house.workers[0].owner.log.queue_end(0)
    Asking(house).ask(3)
    delete_before(house, "queue", end + 1)
    Asking(house).ask(4)
    assert "out of range" in set_aside(house, 2).lower()
