"""Directories and files that only their owner may read, because local state contains bodies of messages."""

from __future__ import annotations

import os
from contextlib import suppress
from errno import EACCES
from pathlib import Path
from stat import S_IMODE, S_ISVTX
from typing import IO

_OTHERS = 0o077
_MORE_THAN_READ_BY_GROUP = 0o037


def private_directory(path: Path) -> Path:
    """Make a directory and its missing parents for the owner alone. If the directory exists, other users lose their rights to it.

    Two kinds of existing directories keep their mode: a directory that belongs to another user, for example a mounted volume, and a
    directory with the sticky bit, for example ``/tmp``, which is meant for all users.

    Raises:
        OSError: the directory cannot be made.
    """
    for missing in reversed([it for it in (path, *path.parents) if not it.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    _close_to_others(path, path.stat())
    return path


def private_file(path: Path) -> IO[bytes]:
    """Open a file for reading and writing, for its owner alone; make the file if it is missing. So no other user can lock the file.

    Raises:
        OSError: the file cannot be opened.
    """
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
    _close_to_others(file.fileno(), os.fstat(file.fileno()))
    return file


def _close_to_others(what: Path | int, found: os.stat_result) -> None:
    """Remove the rights of other users to a path or an open file. Do nothing if it belongs to another user, or has the sticky bit."""
    if found.st_uid == os.geteuid() and S_IMODE(found.st_mode) & _OTHERS and not found.st_mode & S_ISVTX:
        with suppress(OSError):  # the file system may be read-only, or have no modes
            os.chmod(what, S_IMODE(found.st_mode) & ~_OTHERS)  # noqa: PTH101 - os.chmod takes an open file, too


def read_private(path: Path, limit: int) -> bytes:
    """Read a file with secrets, at most ``limit`` + 1 bytes of it.

    The group may read the file, because secrets are mounted into containers like this. All other users may not, and only its owner may write.

    Raises:
        OSError: the file cannot be read, or its mode gives more rights than that.
    """
    with path.open("rb") as file:
        if S_IMODE(os.fstat(file.fileno()).st_mode) & _MORE_THAN_READ_BY_GROUP:
            raise PermissionError(EACCES, "other users may read or change it: run chmod 600 on it")
        return file.read(limit + 1)
