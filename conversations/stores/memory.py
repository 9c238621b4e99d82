"""Local copies in memory: sorted dictionaries. They end with the process, and are rebuilt from the log."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence


class MemoryStore:
    """The rows of one partition, in memory."""

    damage = ""

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._keys: list[bytes] | None = None
        self._checkpoint: int | None = None

    def checkpoint(self) -> int | None:
        """Return the offset of the state partition up to which this copy is complete; None if it must be built anew."""
        return self._checkpoint

    def get(self, key: bytes) -> bytes | None:
        """Return the row of a key."""
        return self._rows.get(key)

    get_once = get

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return the rows whose key starts with ``prefix``, in key order, as they are at the time of the call."""
        if self._keys is None:
            self._keys = sorted(self._rows)
        keys = self._keys
        found = []
        for i in range(bisect_left(keys, prefix), len(keys)):
            if not keys[i].startswith(prefix):
                break
            found.append((keys[i], self._rows[keys[i]]))
        return iter(found)

    def read_run(self, keys: Sequence[bytes]) -> Iterator[bytes]:
        """Return the rows of keys that follow each other, until one of these rows is missing."""
        for key in keys:
            row = self._rows.get(key)
            if row is None:
                return
            yield row

    def apply(self, rows: Iterable[tuple[bytes, bytes | None]], checkpoint: int) -> None:
        """Write rows (None deletes) and the checkpoint."""
        for key, value in rows:
            if value is None:
                if self._rows.pop(key, None) is not None:
                    self._keys = None
            else:
                if key not in self._rows:
                    self._added(key)
                self._rows[key] = value
        self._checkpoint = checkpoint

    def _added(self, key: bytes) -> None:
        # A short list of keys stays sorted. A long list is thrown away, and sorted again at the next scan.
        if self._keys is not None and len(self._keys) < 1_000:
            insort(self._keys, key)
        else:
            self._keys = None

    def clear(self) -> None:
        """Forget everything."""
        self._rows.clear()
        self._keys = self._checkpoint = None

    def close(self) -> None:
        """Forget everything. Later reads fail, like reads of a closed store on the disk."""
        self._rows = self._keys = None  # type: ignore[assignment]  # a late read must fail, not find an empty store


class MemoryStores:
    """Opens an empty store for every assignment. The owner rebuilds it from the state topic."""

    def open(self, partition: int, state_topic_id: str) -> MemoryStore:
        """Return an empty store."""
        del partition, state_topic_id  # no earlier store survives, so there is none to find
        return MemoryStore()
