"""Names for workers that survive restarts and are taken once per machine."""

from __future__ import annotations

import fcntl
import platform
import re
from itertools import chain, count
from pathlib import Path
from typing import IO

from conversations.private_files import private_directory, private_file


def host_name() -> str:
    """The machine's name, as far as it can be part of a file name and of a transactional id."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", platform.node()).strip(".-") or "worker"


def take(directory: Path, base: str, preferred: str) -> tuple[str, IO[bytes]]:
    """Take ``preferred``, or the first free of ``base-1``, ``base-2``, ...; it is ours while the file is open.

    Two workers of one name would end each other's transactions for ever, so no two processes of this machine get the
    same. A killed process lets go of its name at once.
    """
    private_directory(directory)
    for slot in chain([preferred], (f"{base}-{number}" for number in count(1))):
        file = private_file(directory / f"{slot}.lock")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        return slot, file
    raise AssertionError("numbers do not end")
