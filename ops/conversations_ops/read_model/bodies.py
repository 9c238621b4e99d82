"""Searches the bodies of the messages that wait.

No index has them, because an index of all texts would be larger than the texts, and every message that waits would pay for it. So a search
reads all rows of these kinds, with one connection for each processor: SQLite lets other threads run meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from queue import Empty, SimpleQueue

from conversations.protocol import rows
from conversations.protocol.topics import STATE
from conversations_ops.read_model.file import File

WAIT = (rows.PARKED, rows.HELD, rows.WAITING, rows.DELAYED)
"""The kinds of rows that have a message that waits."""
_PLACES = "SELECT service, partition FROM places WHERE kind = ?"
# The key begins with the kind, so that no row of another kind is read.
_SQL = "SELECT own FROM rows WHERE service = ? AND partition = ? AND key >= ? AND key < ? AND own <> x'' AND instr(value, ?) > 0"
_MAPPED = 4 * 2**30
"""Bytes of the file that are mapped into memory for a search, which takes a third less time then. Other questions read few pages."""
_MOST = 4
"""Largest number of connections of one search."""

_Part = tuple[str, int, bytes, bytes, bytes]


def owns_with(file: File, text: str, limit: int) -> set[bytes]:
    """Return the sides with a text in a message that waits, at most about ``limit`` of them.

    Raises:
        ReadModelFailed: the file cannot be read.
    """
    parts: SimpleQueue[_Part] = SimpleQueue()
    for (service, number), kind in product(file.connection.execute(_PLACES, (STATE,)).fetchall(), WAIT):
        parts.put((service, number, kind, bytes([kind[0] + 1]), text.encode()))
    found: set[bytes] = set()
    threads = min(_MOST, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool:
        for search in [pool.submit(_search, file.path, parts, found, limit) for _ in range(threads)]:
            search.result()
    return found


def _search(path: Path, parts: SimpleQueue[_Part], found: set[bytes], limit: int) -> None:
    """Search parts until none is left, or until all threads together have found enough."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection, suppress(Empty):
        connection.execute(f"PRAGMA mmap_size = {_MAPPED}")
        while len(found) < limit:
            for (own,) in connection.execute(_SQL, parts.get_nowait()):
                found.add(own)
                if len(found) >= limit:
                    break
