import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocksdict import AccessType, Options, Rdict

from conversations.config import Periods
from conversations.durations import HOUR
from conversations.ports import Store
from conversations.stores import rocksdb
from conversations.stores.memory import MemoryStores
from conversations.stores.rocksdb import RocksStores, StoreInUse

PERIODS = Periods(deletes_kept=24 * HOUR)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_rows_and_checkpoint_come_back_after_reopening(tmp_path: Path) -> None:
    stores = RocksStores(tmp_path)
    store = stores.open(3, "topic")
    assert store.checkpoint() is None
    store.apply([(b"Ea", b"1"), (b"Eb", b"2"), (b"Ec", b"3")], 7)
    store.apply([(b"Eb", None)], 9)
    store.close()
    again = stores.open(3, "topic")
    assert again.checkpoint() == 9
    assert again.get(b"Ea") == b"1"
    assert again.get(b"Eb") is None
    assert list(again.scan(b"E")) == [(b"Ea", b"1"), (b"Ec", b"3")]


def test_a_scan_sees_its_prefix_as_of_the_call(tmp_path: Path) -> None:
    store = RocksStores(tmp_path).open(0, "topic")
    store.apply([(b"A", b"1"), (b"W1", b"1"), (b"W2", b"2"), (b"W\xff", b"3"), (b"X", b"4")], 1)
    rows = store.scan(b"W")
    store.apply([(b"W1", None), (b"W3", b"9")], 2)
    assert list(rows) == [(b"W1", b"1"), (b"W2", b"2"), (b"W\xff", b"3")]
    assert [key for key, _ in store.scan(b"W")] == [b"W2", b"W3", b"W\xff"]


def test_an_empty_prefix_gives_rows_only(tmp_path: Path) -> None:
    store = RocksStores(tmp_path).open(0, "topic")
    store.apply([(b"A", b"1"), (b"\xff\xff", b"2")], 1)
    assert list(store.scan(b"")) == [(b"A", b"1"), (b"\xff\xff", b"2")]
    assert list(store.scan(b"\xff")) == [(b"\xff\xff", b"2")]


def test_clear_forgets_the_checkpoint_too(tmp_path: Path) -> None:
    store = RocksStores(tmp_path).open(0, "topic")
    store.apply([(b"A", b"1")], 5)
    store.clear()
    assert store.checkpoint() is None
    assert list(store.scan(b"")) == []
    store.apply([(b"B", b"1")], 1)
    assert store.checkpoint() == 1


def test_a_copy_of_another_topic_comes_back_empty(tmp_path: Path) -> None:
    stores = RocksStores(tmp_path)
    with_rows = stores.open(0, "before")
    with_rows.apply([(b"A", b"1")], 5)
    with_rows.close()
    store = stores.open(0, "after")
    assert store.checkpoint() is None
    assert store.get(b"A") is None


@pytest.mark.parametrize(("hours", "kept"), [(11, True), (13, False)])
def test_a_copy_older_than_half_of_what_deletes_are_told_comes_back_empty(
    tmp_path: Path, hours: int, kept: bool
) -> None:
    clock = Clock()
    stores = RocksStores(tmp_path, periods=PERIODS, clock=clock)
    first = stores.open(0, "topic")
    first.apply([(b"A", b"1")], 5)
    first.close()
    clock.now += hours * 3600
    assert stores.open(0, "topic").checkpoint() == (5 if kept else None)


def test_two_processes_on_one_directory_are_told_apart(tmp_path: Path) -> None:
    store = RocksStores(tmp_path).open(0, "topic")
    script = (
        "import sys; from conversations.stores.rocksdb import *\n"
        "try: RocksStores(sys.argv[1]).open(0, 'topic')\n"
        "except StoreInUse as e: print(e)"
    )
    told = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "in use by another process" in told.stdout
    with pytest.raises(StoreInUse, match="directory of its own"):
        RocksStores(tmp_path).open(0, "topic")
    store.close()


def test_what_a_killed_process_leaves_is_a_state_the_copy_once_had(tmp_path: Path) -> None:
    """The last batches are lost together with their checkpoints; nothing of a later batch is there without an earlier."""
    script = (
        "import os, sys; from conversations.stores.rocksdb import *\n"
        "store = RocksStores(sys.argv[1]).open(0, 'topic')\n"
        "for n in range(1, 401): store.apply([(b'A%d' % n, os.urandom(100_000)), (b'Last', b'%d' % n)], n)\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    store = RocksStores(tmp_path).open(0, "topic")
    checkpoint = store.checkpoint()
    assert checkpoint is not None
    assert 1 <= checkpoint < 400
    assert store.get(b"Last") == b"%d" % checkpoint
    assert [n for n in range(1, 401) if store.get(b"A%d" % n) is not None] == list(range(1, checkpoint + 1))


def test_a_copy_that_was_closed_is_complete(tmp_path: Path) -> None:
    store = RocksStores(tmp_path).open(0, "topic")
    store.apply([(b"A", b"1")], 4)
    store.close()
    again = RocksStores(tmp_path).open(0, "topic")
    assert (again.checkpoint(), again.get(b"A")) == (4, b"1")


def test_a_scan_of_many_rows_finds_every_one(tmp_path: Path) -> None:
    store = RocksStores(tmp_path).open(0, "topic")
    rows = sorted((b"W%d" % n, b"x" * 200) for n in range(100_000))
    store.apply([*rows, (b"X", b"")], 1)
    assert list(store.scan(b"W")) == rows


def test_a_scan_left_open_survives_clear_and_close(tmp_path: Path) -> None:
    store = RocksStores(tmp_path).open(0, "topic")
    store.apply([(b"W%d" % n, b"x") for n in range(10)], 1)
    rows = iter(store.scan(b"W"))
    assert next(rows)[0] == b"W0"
    store.clear()
    assert list(store.scan(b"")) == []
    store.close()
    store.close()


@pytest.mark.parametrize(
    "read", [lambda it: it.get(b"Ea"), lambda it: list(it.scan(b"E")), lambda it: it.apply([(b"Eb", b"2")], 2)]
)
def test_a_closed_store_is_read_by_nobody_in_memory_or_on_the_disk(
    tmp_path: Path, read: Callable[[Store], object]
) -> None:
    """So that the simulation notices what would end a worker with copies on its disk."""
    for store in (MemoryStores().open(0, "topic"), RocksStores(tmp_path).open(0, "topic")):
        store.apply([(b"Ea", b"1")], 1)
        store.close()
        store.close()
        with pytest.raises(Exception, match=r"NoneType|closed"):
            read(store)


def rows_of(path: Path) -> dict[Any, Any]:
    """Return the rows that RocksDB has, without those that its store keeps in front of it."""
    db: Any = Rdict(str(path / "0"), Options(raw_mode=True), access_type=AccessType.read_only())
    found = {key: value for key, value in db.items() if key[0]}
    db.close()
    return found


def test_what_was_applied_last_is_read_at_once_wherever_it_is_kept(tmp_path: Path) -> None:
    store = RocksStores(tmp_path).open(0, "topic")
    store.apply([(b"Ea", b"1"), (b"Eb", b"1"), (b"Ec", b"1"), (b"F", b"1")], 4)
    assert list(store.scan(b"E")) == [(b"Ea", b"1"), (b"Eb", b"1"), (b"Ec", b"1")]
    store.apply([(b"Ea", b"2"), (b"Eb", None), (b"Ed", b"2")], 7)
    for get in (store.get, store.get_once):
        assert [get(key) for key in (b"Ea", b"Eb", b"Ec", b"Ed", b"Ee")] == [b"2", None, b"1", b"2", None]
    assert list(store.read_run([b"Ec", b"Ed", b"Ee"])) == [b"1", b"2"]
    store.apply([(b"Ec", None)], 8)
    assert list(store.scan(b"E")) == [(b"Ea", b"2"), (b"Ed", b"2")]
    assert (store.checkpoint(), store.get(b"Ec")) == (8, None)


def test_a_closed_copy_has_given_all_rows_on(tmp_path: Path) -> None:
    store = RocksStores(tmp_path).open(0, "topic")
    for n in range(1, 42):
        store.apply([(b"E", b"%d" % n * 50_000)], n)
    store.close()
    assert rows_of(tmp_path) == {b"E": b"41" * 50_000}


@pytest.mark.parametrize(("partitions", "share"), [(1, 4), (4, 4), (16, 1), (128, 0.125)])
def test_many_partitions_share_what_is_kept_in_front_of_rocksdb(partitions: int, share: float) -> None:
    memory = rocksdb.Memory()
    for _ in range(partitions):
        memory.join()
    assert memory.recent == share * 1024 * 1024
    for _ in range(partitions):
        memory.leave()
    assert memory.recent == rocksdb.RECENT


def test_a_closed_copy_leaves_its_share_once(tmp_path: Path) -> None:
    stores = RocksStores(tmp_path)
    opened = [stores.open(n, "topic") for n in range(16)]
    assert stores._memory.recent == 1024 * 1024
    for store in opened[8:]:
        store.close()
        store.close()
    assert stores._memory.recent == 2 * 1024 * 1024


def test_what_a_step_applies_stays_in_front_of_rocksdb_for_some_megabytes(tmp_path: Path) -> None:
    """A killed process loses it together with its checkpoint."""
    script = (
        "import os, sys; from conversations.stores.rocksdb import *\n"
        "store = RocksStores(sys.argv[1]).open(0, 'topic')\n"
        "for n in range(1, 41): store.apply([(b'E', os.urandom(100_000))], n)\n"
        "assert [store._db.get(CHECKPOINT), store.checkpoint()] == [None, 40]\n"
        "for n in range(41, 61): store.apply([(b'E', os.urandom(100_000))], n)\n"
        "assert [store._db.get(CHECKPOINT), store.checkpoint()] == [b'42', 60]\n"
        "os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, capture_output=True, text=True)
    assert killed.returncode == -9, killed.stderr


def test_idle_partitions_take_no_room_from_the_writes_of_a_busy_one(tmp_path: Path) -> None:
    """Else each few kilobytes become a file, and files are merged all the time."""
    stores = RocksStores(tmp_path)
    opened = [stores.open(number, "t") for number in range(160)]
    busy, checkpoint = opened[0], 0
    for checkpoint in range(40):
        busy.apply([(b"E%d-%d" % (checkpoint, at), bytes(1_000)) for at in range(120)], checkpoint)
    assert not list((tmp_path / "0").glob("*.sst")), "5 MB fit into the buffer of 8 MB"
    for store in opened:
        store.close()
