"""The local copy of a partition's state, in RocksDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from time import time
from typing import NamedTuple

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DbClosedError,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from conversations.errors import LogError
from conversations.periods import SECOND, Periods

CACHE = 64 * 1024 * 1024
"""Bytes of blocks kept in memory, shared by all partitions of a process."""
WRITE_BUFFER = 8 * 1024 * 1024
"""Bytes of writes that one partition keeps in memory until it makes a file of them."""
WRITE_BUFFERS = 64 * 1024 * 1024
"""The same for all partitions of a process: beyond it they make smaller files."""

_META = b"\x00"
"""First byte of our own keys; no row's key begins with it."""
_CHECKPOINT, _SAVED_AT, _TOPIC = b"\x00checkpoint", b"\x00saved-at", b"\x00topic"
_FIRST_ROW = b"\x01"


class StoreInUse(LogError):
    """Another process works on the same directory."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the local state {path} is in use by another process: give every worker a state directory of its own"
        )


class Memory(NamedTuple):
    """What the partitions of a process share."""

    cache: Cache
    buffers: WriteBufferManager


class RocksStore:
    """The rows of one state partition, and the offset up to which they are complete, written together."""

    def __init__(self, path: Path, topic_id: str, memory: Memory, clock: Callable[[], float]) -> None:
        self._topic_id, self._clock = topic_id, clock
        self._db = _opened(path, memory)
        # RocksDB's own log would write every row a third time; memory is flushed in the order of writing, so what a
        # crash leaves is a state this copy once had.
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[assignment,method-assign]  # a property; its stub says method

    def checkpoint(self) -> int | None:
        """Offset of the state partition up to which this copy is complete, None when it must be built anew."""
        stored = self._db.get(_CHECKPOINT)
        return None if stored is None else _number(stored)

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None = self._db.get(key)
        return found

    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """Rows whose key starts with ``prefix``, in key order, as of the call."""
        # RocksDB fixes what an iterator sees when it is made: here, not when the first row is asked for. Its upper
        # bound is not used: rocksdict 0.3.29 lets go of the bound while the iterator still reads it.
        rows: Iterator[tuple[bytes, bytes]] = self._db.items(from_key=prefix or _FIRST_ROW)  # type: ignore[assignment]
        return takewhile(lambda row: row[0].startswith(prefix), rows) if prefix else rows

    def apply(self, rows: Iterable[tuple[bytes, bytes | None]], checkpoint: int) -> None:
        """Write rows (None deletes) and the checkpoint in one batch.

        A killed process loses the last megabytes, always with the checkpoint that goes with them: the next owner copies
        those rows from the topic again.
        """
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in rows:
            if value is None:
                delete(key)
            else:
                put(key, value)
        put(_CHECKPOINT, b"%d" % checkpoint)
        put(_SAVED_AT, b"%d" % self._clock())
        put(_TOPIC, self._topic_id.encode())
        self._db.write(batch, self._unlogged)

    def clear(self) -> None:
        """Forget everything, the checkpoint included."""
        # Not by deleting the files: a scan somebody still holds keeps them, and their lock.
        # The checkpoint first, and logged: a copy without one is worthless, whatever a crash leaves of it.
        self._db.delete(_CHECKPOINT)
        last = next(iter(self._db.keys(backwards=True)), None)
        if last is not None:
            self._db.delete_range(_META, last)
            self._db.delete(last)

    def close(self) -> None:
        """Release the directory (as soon as no scan is held any more); harmless when already closed."""
        with suppress(DbClosedError):
            self._db.flush()
            self._db.close()

    def written_for(self) -> tuple[str, int] | None:
        """Topic id and time (s since the epoch) of the last write, None when nothing was written."""
        topic, saved_at = self._db.get(_TOPIC), self._db.get(_SAVED_AT)
        return None if topic is None or saved_at is None else (topic.decode(), _number(saved_at))


class RocksStores:
    """The local copies of one service's partitions, a directory each."""

    def __init__(
        self,
        directory: Path | str,
        *,
        periods: Periods | None = None,
        state_start: Callable[[int], int] | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        """Make one; nothing is opened.

        Args:
            directory: where the copies live; of one worker alone.
            periods: those that the service's topics were made with.
            state_start: tells the first offset of a state partition; without it that is not checked.
            clock: seconds since the epoch.
        """
        self._directory = Path(directory)
        self._oldest = (periods or Periods()).deletes_kept / SECOND / 2
        self._state_start, self._clock = state_start, clock
        self._memory = Memory(Cache(CACHE), WriteBufferManager(WRITE_BUFFERS, False))

    def open(self, partition: int, state_topic_id: str) -> RocksStore:
        """Open the local copy; one made from another topic id, or too old to trust, comes back empty.

        Raises:
            StoreInUse: another process has it open.
        """
        store = RocksStore(self._directory / str(partition), state_topic_id, self._memory, self._clock)
        if not self._trusted(store, partition, state_topic_id):
            store.clear()
        return store

    def _trusted(self, store: RocksStore, partition: int, topic_id: str) -> bool:
        checkpoint, written = store.checkpoint(), store.written_for()
        if checkpoint is None or written is None:
            return False
        # What was deleted long ago is no longer told by the compacted topic: an old copy would keep it alive.
        age = self._clock() - written[1]
        if written[0] != topic_id or not -60 <= age <= self._oldest:  # a clock may have been set a little
            return False
        return self._state_start is None or checkpoint >= self._state_start(partition)


def _opened(path: Path, memory: Memory) -> Rdict:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return Rdict(str(path), _options(memory))
    except Exception as failure:  # rocksdict raises plain Exception
        if "lock" in str(failure).lower():
            raise StoreInUse(path) from failure
        raise LogError(f"the local state {path} cannot be opened: {failure}; delete the directory") from failure


def _options(memory: Memory) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(memory.cache)
    blocks.set_bloom_filter(10, block_based=False)
    blocks.set_cache_index_and_filter_blocks(True)  # else they grow outside the bound of the cache
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(WRITE_BUFFER)
    options.set_write_buffer_manager(memory.buffers)
    options.set_max_write_buffer_number(2)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    options.set_max_open_files(256)
    return options


def _number(stored: bytes) -> int:
    return int(stored)
