"""Whatever happens to the files of a local copy: what is read from it is what was written, or it is thrown away."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from conversations.errors import CopyDamaged, LogError
from conversations.stores.rocksdb import RocksStore, RocksStores

TOPIC = "topic"
Rows = Mapping[bytes, bytes]
Harm = Callable[[Path, Random], None]


def batch(n: int) -> list[tuple[bytes, bytes | None]]:
    """Make the rows that a checkpoint ``n`` was written with: some new, some of before deleted or changed."""
    random = Random(n)
    rows: list[tuple[bytes, bytes | None]] = [(b"W%08d" % (n * 10 + i), random.randbytes(400)) for i in range(10)]
    return [*rows, (b"W%08d" % (n * 10 - 5), None), (b"P", b"%d" % n), (b"G%d" % (n % 7), b"%d" % n)]


@cache
def rows_at(checkpoint: int) -> Rows:
    rows: dict[bytes, bytes] = {}
    for n in range(1, checkpoint + 1):
        for key, value in batch(n):
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
    return rows


def written(directory: Path, upto: int, partition: int = 0) -> None:
    """Write a copy up to a checkpoint, in several files."""
    for first in range(1, upto + 1, 100):
        store = RocksStores(directory).open(partition, TOPIC)
        for n in range(first, min(first + 100, upto + 1)):
            store.apply(batch(n), n)
        store.close()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in good order, in three table files."""
    directory = tmp_path_factory.mktemp("sound")
    written(directory, 300)
    return directory


def look(store: RocksStore) -> None:
    """Read everything, in each of the ways a worker reads: it must be what the checkpoint says."""
    rows = rows_at(store.checkpoint() or 0)
    assert dict(store.scan(b"")) == rows
    for prefix in (b"W", b"G", b"P", b"E"):
        assert dict(store.scan(prefix)) == {key: value for key, value in rows.items() if key.startswith(prefix)}
    for n in range(0, 3000, 137):
        assert store.get(b"W%08d" % n) == rows.get(b"W%08d" % n)


def check(directory: Path) -> str:
    """Tell what became of a copy; fail when something else is read than what was written."""
    store = RocksStores(directory).open(0, TOPIC)
    if store.checkpoint() is not None:
        try:
            look(store)
        except CopyDamaged:
            store.close()
            store = RocksStores(directory).open(0, TOPIC)
            assert store.checkpoint() is None
            assert "is damaged" in store.damage
        else:
            store.close()
            return "harmless"
    assert list(store.scan(b"")) == []
    store.apply(batch(1), 1)  # and it can be built anew
    store.close()
    again = RocksStores(directory).open(0, TOPIC)
    assert again.checkpoint() == 1
    assert not again.damage, "once is enough"
    look(again)
    again.close()
    return "noticed"


def a_file(directory: Path, random: Random) -> Path:
    return random.choice([file for file in sorted((directory / "0").iterdir()) if file.stat().st_size])


def a_table(directory: Path, random: Random) -> Path:
    return random.choice(sorted((directory / "0").glob("*.sst")))


def flipped(file: Path, at: int, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1 << bit
    file.write_bytes(content)


def a_bit_anywhere(directory: Path, random: Random) -> None:
    file = a_file(directory, random)
    flipped(file, random.randrange(file.stat().st_size), random.randrange(8))


def a_bit_of_a_table(directory: Path, random: Random) -> None:
    file = a_table(directory, random)
    flipped(file, random.randrange(file.stat().st_size), random.randrange(8))


def cut_short(directory: Path, random: Random) -> None:
    file = a_file(directory, random)
    file.write_bytes(file.read_bytes()[: random.randrange(file.stat().st_size)])


def removed(directory: Path, random: Random) -> None:
    a_file(directory, random).unlink()


def zeroed(directory: Path, random: Random) -> None:
    file = a_file(directory, random)
    content = bytearray(file.read_bytes())
    at = random.randrange(len(content))
    content[at : at + 4096] = bytes(len(content[at : at + 4096]))
    file.write_bytes(content)


def swapped_tables(directory: Path, random: Random) -> None:
    one, other = random.sample(sorted((directory / "0").glob("*.sst")), 2)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def no_tables(directory: Path, _: Random) -> None:
    for file in (directory / "0").glob("*.sst"):
        file.unlink()


def a_manifest_bit(directory: Path, random: Random) -> None:
    (file,) = (directory / "0").glob("MANIFEST*")
    flipped(file, random.randrange(file.stat().st_size), random.randrange(8))


def no_current(directory: Path, _: Random) -> None:
    (directory / "0" / "CURRENT").unlink()


def set_back(directory: Path, random: Random) -> None:
    """Put an older copy of the same partition in its place, as a backup would."""
    shutil.rmtree(directory / "0")
    written(directory, random.randrange(1, 4) * 40)


@pytest.mark.parametrize("seed", range(60))
def test_a_flipped_bit_is_harmless_or_noticed(sound: Path, tmp_path: Path, seed: int) -> None:
    directory = Path(shutil.copytree(sound, tmp_path / "copy"))
    a_bit_of_a_table(directory, Random(seed))
    check(directory)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "harm",
    [a_bit_anywhere, cut_short, removed, zeroed, swapped_tables, no_tables, a_manifest_bit, no_current, set_back],
)
def test_damaged_files_are_harmless_or_noticed(sound: Path, tmp_path: Path, harm: Harm, seed: int) -> None:
    directory = Path(shutil.copytree(sound, tmp_path / "copy"))
    harm(directory, Random(seed))
    check(directory)


def test_a_scan_does_not_end_early_without_a_word(sound: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(sound, tmp_path / "copy"))
    for file in (directory / "0").glob("*.sst"):
        flipped(file, file.stat().st_size // 2, 3)
    store = RocksStores(directory).open(0, TOPIC)
    with pytest.raises(CopyDamaged, match="damaged"):
        list(store.scan(b"W"))
    store.close()


def test_a_copy_of_another_partition_comes_back_empty(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound / "0", tmp_path / "1")
    store = RocksStores(tmp_path).open(1, TOPIC)
    assert store.checkpoint() is None
    assert list(store.scan(b"")) == []
    store.close()


def test_what_a_damaged_copy_was_is_known_to_the_next_process(sound: Path, tmp_path: Path) -> None:
    """Also when the one that noticed died before it could do anything about it."""
    directory = Path(shutil.copytree(sound, tmp_path / "copy"))
    for file in (directory / "0").glob("*.sst"):
        flipped(file, file.stat().st_size // 2, 3)
    script = (
        "import os, sys; from conversations.stores.rocksdb import *\n"
        "store = RocksStores(sys.argv[1]).open(0, 'topic')\n"
        "try: list(store.scan(b'W'))\n"
        "except CopyDamaged: os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(directory)], check=False).returncode == -9
    store = RocksStores(directory).open(0, TOPIC)
    assert "damaged" in store.damage
    assert store.checkpoint() is None
    store.close()


def test_the_checkpoint_is_never_ahead_of_the_rows(tmp_path: Path) -> None:
    """After a kill, and with RocksDB's own log cut short as a power failure leaves it."""
    script = (
        "import os, sys; from conversations.stores.rocksdb import *; from tests.unit.kafka.test_damaged_copies import batch\n"
        "store = RocksStores(sys.argv[1]).open(0, 'topic')\n"
        "store.apply([(b'E', b'gone')], 9); store.clear()\n"
        "[store.apply(batch(n), n) for n in range(1, 3001)]\n"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == -9
    for file in (tmp_path / "0").glob("*.log"):
        file.write_bytes(file.read_bytes()[: int(file.stat().st_size * 0.3)])
    store = RocksStores(tmp_path).open(0, TOPIC)
    if store.checkpoint() is not None:
        assert dict(store.scan(b"")) == rows_at(store.checkpoint() or 0)
    store.close()


def test_a_directory_that_cannot_be_used_is_no_damage(tmp_path: Path) -> None:
    """Nothing is thrown away for it."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LogError, match="cannot be used") as refused:
        RocksStores(tmp_path / "file").open(0, TOPIC)
    assert not isinstance(refused.value, CopyDamaged)


def test_a_limit_on_the_size_of_files_is_no_damage(tmp_path: Path) -> None:
    """``ulimit -f``: a copy that is built anew would meet the same limit, again and again."""
    script = (
        "import os, resource, signal, sys; from conversations.stores.rocksdb import *\n"
        "store = RocksStores(sys.argv[1]).open(0, 'topic')\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))\n"
        "try: [store.apply([(b'A%d' % n, os.urandom(50_000))], n) for n in range(1, 2_000)]\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    told = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("LogError the local state ")
    assert "File too large" in told.stdout


class Ruined:
    """What RocksDB does once it has met damage while it puts its files together: it writes no more, and says so when it is closed."""

    closed = False

    def flush(self) -> None:
        raise Exception("Corruption: block checksum mismatch")  # noqa: TRY002 - as rocksdict does

    def close(self) -> None:
        self.closed = True
        raise Exception("Corruption: block checksum mismatch")  # noqa: TRY002 - as rocksdict does


def test_a_copy_that_cannot_be_written_to_its_end_is_closed_all_the_same(tmp_path: Path) -> None:
    """A worker that gives a partition back goes on with the others."""
    store = RocksStores(tmp_path).open(0, TOPIC)
    store._db.close()
    ruined = Ruined()
    store._db = cast("Any", ruined)
    store.close()
    assert ruined.closed
