"""Looks at a local copy of a partition's state without changing it, also while its worker works."""

from __future__ import annotations

import fcntl
import struct
import sys
from pathlib import Path
from typing import NamedTuple

from rocksdict import AccessType, Options, Rdict

from conversations.stores.rocksdb import CHECKPOINT, SAVED_AT, mark_of

_LOCK = "LOCK"
_IS_MAC = sys.platform == "darwin"
_FLOCK = "qqihh" if _IS_MAC else "hhqqi4x"
"""``struct flock``. On Linux: type, whence, start, length, process. On macOS: start, length, process, type, whence."""
_TYPE = 3 if _IS_MAC else 0


class Copy(NamedTuple):
    """What is known about one local copy."""

    path: Path
    in_use: bool = False
    """True if a process works on it now. Then its rows were not read."""
    damage: str = ""
    """Why it cannot be used; empty if all of its rows can be read, or if it was not read."""
    saved_at: int | None = None
    """When it was last written, in seconds since 1970; None if that is not known."""


def look_at(path: Path) -> Copy:
    """Read all rows of a copy, unless a process works on it.

    Args:
        path: the directory of one partition.
    """
    if (mark := mark_of(path)).exists():
        return Copy(path, damage=mark.read_text(errors="replace") or "it is marked as damaged")
    if _in_use(path):
        return Copy(path, in_use=True)
    try:
        saved_at = _read(path)
    except Exception as failure:  # noqa: BLE001 - rocksdict raises plain ``Exception``
        if _in_use(path):  # a worker has begun to work meanwhile, and has removed files
            return Copy(path, in_use=True)
        return Copy(path, damage=str(failure))
    return Copy(path, saved_at=saved_at)


def _read(path: Path) -> int | None:
    copy = Rdict(str(path), Options(raw_mode=True), access_type=AccessType.read_only(error_if_log_file_exist=False))
    try:
        rows = copy.iter()
        rows.seek_to_first()
        while rows.valid():
            rows.next()
        rows.status()  # at a damaged block an iterator just ends, as behind its last row
        stored = copy.get(SAVED_AT)
        return int(stored) if stored is not None and copy.get(CHECKPOINT) is not None else None
    finally:
        copy.close()


def _in_use(path: Path) -> bool:
    """Return True if a process has RocksDB's lock on a directory. The lock is only asked for, not taken."""
    try:
        with (path / _LOCK).open("rb") as file:
            # A file that is open for reading can be asked about the lock of a writer only as a reader.
            asked = [0, 0, 0, 0, 0]
            asked[_TYPE] = fcntl.F_RDLCK
            answer = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(_FLOCK, *asked)))
    except OSError:
        return False
    return bool(answer[_TYPE] != fcntl.F_UNLCK)
