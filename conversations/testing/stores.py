"""Local copies of state on a disk that may survive the process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from conversations.stores.memory import MemoryStore


class CopyClosed(Exception):
    """A local copy was used after it was closed. This is allowed only in a handler whose partition went to another worker."""


class OpenCopy:
    """An open local copy. After ``close`` every call raises ``CopyClosed``, as a closed database does."""

    damage = ""

    def __init__(self, rows: MemoryStore) -> None:
        self._rows = rows
        self.closed = False

    def _open(self) -> MemoryStore:
        if self.closed:
            raise CopyClosed("the local copy is used after it was closed")
        return self._rows

    def checkpoint(self) -> int | None:
        """Return the offset of the state partition up to which this copy is complete, None if it is empty."""
        return self._open().checkpoint()

    def get(self, key: bytes) -> bytes | None:
        """Return the row of a key."""
        return self._open().get(key)

    get_once = get

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return the rows whose key starts with ``prefix``, in key order, as they are at the time of the call."""
        return self._open().scan(prefix)

    def read_run(self, keys: Sequence[bytes]) -> Iterator[bytes]:
        """Return the rows of keys that follow each other, until one of these rows is missing."""
        return self._open().read_run(keys)

    def apply(self, rows: Iterable[tuple[bytes, bytes | None]], checkpoint: int) -> None:
        """Write rows (None deletes) and the checkpoint."""
        self._open().apply(rows, checkpoint)

    def clear(self) -> None:
        """Delete all rows and the checkpoint."""
        self._open().clear()

    def close(self) -> None:
        """Close the copy. A second call does nothing."""
        self.closed = True


class Disk:
    """The local copies of one worker. They are kept between assignments, and by chance they survive its process."""

    def __init__(self) -> None:
        self._copies: dict[tuple[int, str], MemoryStore] = {}
        self._open: dict[int, OpenCopy] = {}

    def open(self, partition: int, state_topic_id: str) -> OpenCopy:
        """Open the copy of a partition; make an empty copy if there is none.

        Raises:
            AssertionError: the copy is open already.
        """
        before = self._open.get(partition)
        if before is not None and not before.closed:
            raise AssertionError(f"the local copy of partition {partition} is opened twice")
        rows = self._copies.setdefault((partition, state_topic_id), MemoryStore())
        opened = self._open[partition] = OpenCopy(rows)
        return opened

    def crash(self, *, survives: bool) -> None:
        """Forget which copies were open, because the process died. Delete them, unless they survive."""
        self._open.clear()
        if not survives:
            self._copies.clear()
