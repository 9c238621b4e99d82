"""Directories and files of ours that nobody else on the machine may look into: local state holds bodies of messages."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE, S_ISVTX
from typing import IO

_OTHERS = 0o077


def private_directory(path: Path) -> Path:
    """Make a directory and its missing parents, for its owner alone; a directory of ours that was open is closed.

    One of somebody else's, as a mounted volume may be, keeps its mode; so does one that is there for everybody, as ``/tmp`` is
    also for its owner.

    Raises:
        OSError: it cannot be made.
    """
    for missing in reversed([it for it in (path, *path.parents) if not it.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    _close_to_others(path, path.stat())
    return path


def private_file(path: Path) -> IO[bytes]:
    """Open a file for reading and writing, made when it is missing; for its owner alone. Nobody else can lock it then.

    Raises:
        OSError: it cannot be opened.
    """
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
    _close_to_others(file.fileno(), os.fstat(file.fileno()))
    return file


def _close_to_others(what: Path | int, found: os.stat_result) -> None:
    """Take away all rights of others to a path, or an open file, of ours that is not there for everybody."""
    if found.st_uid == os.geteuid() and S_IMODE(found.st_mode) & _OTHERS and not found.st_mode & S_ISVTX:
        with suppress(OSError):  # a file system that is read only, or has no modes
            os.chmod(what, S_IMODE(found.st_mode) & ~_OTHERS)  # noqa: PTH101 - of an open file too
