"""A look at a local copy: it reads all rows, changes nothing, and leaves a copy alone whose worker works."""

import subprocess
import sys
from pathlib import Path

from conversations.stores.inspection import look_at
from conversations.stores.rocksdb import RocksStores, mark_of

HOLD = """
import sys
from conversations.stores.rocksdb import RocksStores
store = RocksStores(sys.argv[1]).open(0, "topic")
print("open", flush=True)
sys.stdin.read()
"""


def made(directory: Path) -> Path:
    store = RocksStores(directory, clock=lambda: 1_000.0).open(0, "topic")
    store.apply([(b"Ea%d" % number, b"row" * 100) for number in range(1_000)], 7)
    store.close()
    return directory / "0"


def content(path: Path) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in path.iterdir()}


def test_a_sound_copy_is_read_and_not_changed(tmp_path: Path) -> None:
    path = made(tmp_path)
    before = content(path)
    found = look_at(path)
    assert (found.damage, found.in_use, found.saved_at) == ("", False, 1_000)
    assert content(path) == before
    assert RocksStores(tmp_path, clock=lambda: 1_000.0).open(0, "topic").checkpoint() == 7


def test_a_broken_block_is_damage(tmp_path: Path) -> None:
    path = made(tmp_path)
    table = next(path.glob("*.sst"))
    broken = bytearray(table.read_bytes())
    middle = len(broken) // 2  # behind the block with the keys of the store itself
    broken[middle : middle + 20] = bytes(20)
    table.write_bytes(broken)
    before = content(path)
    assert "checksum mismatch" in look_at(path).damage
    assert content(path) == before


def test_a_missing_file_is_damage(tmp_path: Path) -> None:
    path = made(tmp_path)
    next(path.glob("*.sst")).unlink()
    assert look_at(path).damage


def test_a_marked_copy_is_damaged(tmp_path: Path) -> None:
    path = made(tmp_path)
    mark_of(path).write_text("found by its worker")
    assert look_at(path).damage == "found by its worker"


def test_a_copy_whose_worker_works_is_left_alone(tmp_path: Path) -> None:
    path = made(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "open\n"
        found = look_at(path)
        assert (found.in_use, found.damage) == (True, "")
        worker.communicate()
    assert not look_at(path).in_use
