"""The local copy of a partition's state, in RocksDB."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import time

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DbClosedError,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from conversations.config import Periods
from conversations.durations import SECOND
from conversations.errors import CopyDamaged, LogError
from conversations.private_files import private_directory

log = logging.getLogger("conversations.stores")

CACHE = 64 * 1024 * 1024
"""Bytes of the blocks that all partitions of a process keep in memory together."""
RECENT = 4 * 1024 * 1024
"""Bytes of rows that one partition applies before it gives the newest of each to RocksDB."""
ALL_RECENT = 16 * 1024 * 1024
"""The same for all partitions of a process together: with many partitions, each gives its rows to RocksDB earlier."""
WRITE_BUFFER = 8 * 1024 * 1024
"""Bytes of writes that one partition keeps in memory before it writes them to a file."""
FILTER_SHARE = 0.05
"""Size of the Bloom filter of a write buffer, as a share of the buffer. Most reads are of dialogs that begin, and so have no row."""
WRITE_BUFFERS = 64 * 1024 * 1024
"""Maximum number of bytes of writes that all partitions of a process keep in memory, without the filters. At this limit, partitions write files earlier."""

_META = b"\x00"
"""First byte of the store's own keys. No row's key begins with it."""
CHECKPOINT, SAVED_AT, _TOPIC = b"\x00checkpoint", b"\x00saved-at", b"\x00topic"
_FIRST_ROW = b"\x01"
_LOCKED = re.compile(r"While lock file|lock hold by current process")
_NO_ROOM = re.compile(
    r"No space left|Read-only file system|Permission denied|Disk quota|File too large|Too many open files"
)
"""Texts of failures whose cause is the machine. The copy is not damaged."""


class StoreInUse(LogError):
    """Another process works on the same directory."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the local state {path} is in use by another process: give every worker a state directory of its own"
        )


class Memory:
    """The memory that all partitions of a process share."""

    def __init__(self) -> None:
        self.cache, self.buffers = Cache(CACHE), WriteBufferManager(WRITE_BUFFERS, False)
        self._partitions = 0
        self.recent = RECENT
        """Bytes of rows that each partition may keep before it gives them to RocksDB."""

    def join(self) -> None:
        """Note that one more partition shares the memory."""
        self._share(self._partitions + 1)

    def leave(self) -> None:
        """Note that a partition no longer shares the memory."""
        self._share(self._partitions - 1)

    def _share(self, partitions: int) -> None:
        self._partitions = partitions
        # RocksDB makes the filter with the buffer, also of a partition that never writes, and counts it.
        self.buffers.set_buffer_size(WRITE_BUFFERS + partitions * int(WRITE_BUFFER * FILTER_SHARE))
        self.recent = min(RECENT, ALL_RECENT // max(1, partitions))


class RocksStore:
    """The rows of one state partition, and the offset up to which they are complete. Both are written together.

    The rows of busy dialogs change with each step. So rows are kept in a dictionary first, and after some megabytes RocksDB gets the newest of each.
    A read looks there first. An iterator of RocksDB cannot, so a scan begins with giving RocksDB all rows.

    Every method raises ``CopyDamaged`` if the files are not as they were written. Then the copy is worthless, and the next
    ``open`` returns an empty copy.
    """

    def __init__(
        self, path: Path, place: tuple[int, str], memory: Memory, clock: Callable[[], float], damage: str = ""
    ) -> None:
        self._path, self._clock, self._memory = path, clock, memory
        self.partition, topic_id = place
        self._made_of = f"{topic_id}/{self.partition}"
        self.damage = damage
        """Reason why an earlier copy was thrown away; empty if no copy was thrown away."""
        self._db = self._opened(memory)
        # RocksDB's write-ahead log is off, because it would write every row once more. The rows in memory are written
        # to files in the order in which they came. So after a crash, the copy has all rows up to some checkpoint, and no later rows.
        self._once = ReadOptions()
        self._once.fill_cache(False)  # type: ignore[call-arg]  # its stub lacks the argument
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[assignment,method-assign]  # a property; its stub says method
        self._recent: dict[bytes, bytes | None] = {}
        self._applied = 0
        self._is_open = True
        memory.join()

    def checkpoint(self) -> int | None:
        """Return the offset of the state partition up to which this copy is complete; None if it must be built anew."""
        stored = self.get(CHECKPOINT)
        return None if stored is None else _number(stored)

    def get(self, key: bytes) -> bytes | None:
        if key in self._recent:
            return self._recent[key]
        try:
            found: bytes | None = self._db.get(key)
        except Exception as failure:
            raise self._damaged(failure) from failure
        return found

    def get_once(self, key: bytes) -> bytes | None:
        """Return a large row without keeping its blocks in the cache."""
        if key in self._recent:
            return self._recent[key]
        try:
            found: bytes | None = self._db.get(key, read_opt=self._once)
        except Exception as failure:
            raise self._damaged(failure) from failure
        return found

    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """Return the rows whose key starts with ``prefix``, in key order, as they are at the time of the call."""
        # A RocksDB iterator sees the rows that existed when it was made. So it is made here, before the first row is asked for.
        # Its upper bound is not used, because rocksdict 0.3.29 frees the bound while the iterator still reads it.
        return self._walk(self._from(prefix or _FIRST_ROW), prefix)

    def read_run(self, keys: Sequence[bytes]) -> Iterator[bytes]:
        """Return the rows of keys that follow each other, until one of these rows is missing: faster than a ``get`` for each of them."""
        for key, (found, row) in zip(keys, self._walk(self._from(keys[0]), b""), strict=False):
            if found != key:
                return
            yield row

    def _from(self, key: bytes) -> RdictIter:
        self._pass_on()
        try:
            rows = self._db.iter()
            rows.seek(key)
        except Exception as failure:
            raise self._damaged(failure) from failure
        return rows

    def _walk(self, rows: RdictIter, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        try:
            while rows.valid():
                key: bytes = rows.key()
                if not key.startswith(prefix):
                    return
                yield key, rows.value()
                rows.next()
            # This call raises an exception if the iterator ended at a damaged block.
            rows.status()  # at a damaged block an iterator just ends, as behind its last row
        except Exception as failure:
            del rows  # a kept traceback would keep the directory locked
            raise self._damaged(failure) from failure

    def apply(self, rows: Iterable[tuple[bytes, bytes | None]], checkpoint: int) -> None:
        """Write rows (None deletes) and the checkpoint in one batch.

        A killed process loses the last megabytes of rows, together with their checkpoints. The next owner reads those rows
        from the topic again.

        Raises:
            LogError: the disk is full, or cannot be written to.
        """
        recent, applied = self._recent, self._applied
        for key, value in rows:
            recent[key] = value
            applied += len(key) if value is None else len(key) + len(value)
        recent[CHECKPOINT] = b"%d" % checkpoint
        self._applied = applied
        if applied > self._memory.recent:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give RocksDB all rows that it does not have yet, and the checkpoint, in one batch."""
        if not self._recent:
            return
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in self._recent.items():
            if value is None:
                delete(key)
            else:
                put(key, value)
        put(SAVED_AT, b"%d" % self._clock())
        put(_TOPIC, self._made_of.encode())
        try:
            self._db.write(batch, self._unlogged)
        except Exception as failure:
            raise self._damaged(failure) from failure
        self._recent.clear()
        self._applied = 0

    def clear(self) -> None:
        """Forget everything, the checkpoint included."""
        self._recent.clear()
        self._applied = 0
        # The files are not deleted, because an open scan keeps the files and their lock. The checkpoint is deleted first,
        # and the write-ahead log has this deletion. So after a crash in between, the copy has no checkpoint and is not used.
        try:
            self._db.delete(CHECKPOINT)
            last = next(iter(self._db.keys(backwards=True)), None)
            if last is not None:
                self._db.delete_range(_META, last)
                self._db.delete(last)
        except Exception as failure:
            raise self._damaged(failure) from failure

    def close(self) -> None:
        """Close the copy. The directory is released as soon as no scan is open. Harmless if the copy is closed already."""
        # A failure here does no harm, because the checkpoint on the disk belongs to the rows on the disk. rocksdict
        # raises plain ``Exception``.
        if not self._is_open:
            return
        self._is_open = False
        self._memory.leave()
        for end in (self._pass_on, self._db.flush, self._db.close):
            try:
                end()
            except Exception as failure:  # noqa: BLE001 - rocksdict may raise any class; the checkpoint tells which rows are on disk
                log.warning("the local copy %s could not be written completely: %s", self._path, failure)
        self._recent = None  # type: ignore[assignment]  # a late read must fail, and not find a part of the rows

    def trusted(self, oldest: float) -> bool:
        """Return True if the copy is of the same topic id and partition, and was written at most ``oldest`` seconds ago."""
        made_of, saved_at = self.get(_TOPIC), self.get(SAVED_AT)
        if self.checkpoint() is None or made_of != self._made_of.encode() or saved_at is None:
            return False
        # A compacted topic drops its null records after a while. So an older copy could keep rows that were deleted.
        return -60 <= self._clock() - _number(saved_at) <= oldest  # a clock may have been set back a little

    def _opened(self, memory: Memory) -> Rdict:
        try:
            return Rdict(str(self._path), _options(memory))
        except Exception as failure:
            if _LOCKED.search(str(failure)):
                raise StoreInUse(self._path) from failure
            raise self._damaged(failure) from failure

    def _damaged(self, failure: Exception) -> Exception:
        """Return the exception for a failure of rocksdict, which raises plain ``Exception``.

        A file marks a damaged copy. So the copy counts as damaged until the next ``open`` throws it away.
        """
        if isinstance(failure, (DbClosedError, CopyDamaged, GeneratorExit)):
            return failure
        if _NO_ROOM.search(str(failure)):
            return LogError(f"the local state {self._path} cannot be used: {failure}")
        why = f"the local copy {self._path} is damaged: {failure}"
        with suppress(OSError):
            mark_of(self._path).write_text(why)
        return CopyDamaged(self.partition, why)


class RocksStores:
    """The local copies of one service's partitions, each in its own directory."""

    def __init__(
        self,
        directory: Path | str,
        *,
        periods: Periods | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        """Make the object. No copy is opened yet.

        Args:
            directory: directory of the copies. No other worker may use it.
            periods: periods of the service's topics.
            clock: function that returns the seconds since the epoch.
        """
        self._directory = Path(directory)
        self._oldest = (periods or Periods()).deletes_kept / SECOND / 2
        self._clock = clock
        self._memory = Memory()

    def open(self, partition: int, state_topic_id: str) -> RocksStore:
        """Open the local copy. A copy that is damaged, too old to trust, or of another topic or partition is emptied.

        Raises:
            StoreInUse: another process has the copy open.
            LogError: the directory cannot be used.
        """
        path = self._directory / str(partition)
        place = partition, state_topic_id
        try:
            private_directory(self._directory)
            private_directory(path)  # its parent may be open to other users
            damage = _found_damaged(path)
        except OSError as failure:
            raise LogError(f"the local state {path} cannot be used: {failure}") from failure
        if not damage:
            try:
                return self._fit(RocksStore(path, place, self._memory, self._clock))
            except CopyDamaged as found:
                damage = found.why
        _throw_away(path)
        return RocksStore(path, place, self._memory, self._clock, damage)

    def _fit(self, store: RocksStore) -> RocksStore:
        """Return the store. Empty it first if its copy cannot be trusted."""
        try:
            if not store.trusted(self._oldest) or store.checkpoint() is None:
                store.clear()
        except BaseException:
            store.close()
            raise
        return store


def mark_of(path: Path) -> Path:
    """Return the path of the file that marks a copy as damaged. The next owner makes a marked copy anew."""
    return path.with_name(f"{path.name}.damaged")


def _found_damaged(path: Path) -> str:
    try:
        return mark_of(path).read_text(errors="replace") or f"the local copy {path} was found damaged"
    except FileNotFoundError:
        return ""


def _throw_away(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except OSError as failure:
        raise LogError(f"the damaged local state {path} cannot be removed: {failure}") from failure
    mark_of(path).unlink(missing_ok=True)


def _options(memory: Memory) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(memory.cache)
    blocks.set_bloom_filter(10, block_based=False)
    blocks.set_cache_index_and_filter_blocks(True)  # otherwise indexes and filters grow beyond the cache's limit
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(WRITE_BUFFER)
    options.set_write_buffer_manager(memory.buffers)
    options.set_memtable_prefix_bloom_ratio(FILTER_SHARE)
    options.set_memtable_whole_key_filtering(True)
    options.set_max_write_buffer_number(2)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    options.set_max_open_files(256)
    return options


def _number(stored: bytes) -> int:
    return int(stored)
