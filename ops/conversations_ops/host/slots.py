"""Slots: names of worker processes. A slot survives restarts, and only one process of a machine has it at a time."""

from __future__ import annotations

import fcntl
import platform
import re
from itertools import chain, count
from pathlib import Path
from typing import IO

from conversations.private_files import private_directory, private_file


def host_name() -> str:
    """Return the machine's name. Characters that a file name or a transactional id must not have are replaced by ``-``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", platform.node()).strip(".-") or "worker"


def take(directory: Path, base: str, preferred: str) -> tuple[str, IO[bytes]]:
    """Reserve the slot ``preferred``, or else the first free slot of ``base-1``, ``base-2``, ...

    The slot is reserved as long as the returned file is open, so the slot of a killed process is free at once. Two processes of
    this machine never have the same slot, because workers with the same transactional id would fence each other for ever.
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
    raise AssertionError("count(1) never ends")
