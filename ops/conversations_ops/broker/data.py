"""Checks and locks data directories of embedded brokers. This program must have made them, with the same version of Kafka.

Kafka locks its directory only after it has opened its metadata. A second server would truncate the metadata under a running server, and
the running server would end. So this program has its own lock. It takes the lock before it changes anything, and the server inherits it.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from conversations.private_files import private_file
from conversations_ops.broker.errors import BrokerError, DataInUse, DataNotOurs, DiskFull
from conversations_ops.broker.server import KAFKA_VERSION, Layout

LEAST_FREE = 256 * 1024 * 1024
"""Free bytes that a start needs, for some topics and their indexes. With fewer free bytes, Kafka could stop in the middle of a test."""
LOCK_PATIENCE = 5.0
"""Seconds to wait for the lock. A server that was killed keeps the lock until the system has removed its process."""
POLL = 0.05
IN_USE = (
    "Another broker works on this data directory. Stop that broker (conversations broker status lists the brokers "
    "that were started with this command), or choose another --data directory"
)


@contextlib.contextmanager
def locked(layout: Layout) -> Iterator[int]:
    """Hold the lock of the directory while the block runs, and yield its file descriptor.

    A process that inherits the descriptor holds the lock until it ends, also after the end of the block. Raises DataInUse if another
    server holds the lock, and BrokerError if the file cannot be opened or locked.
    """
    try:
        file = private_file(layout.lock)
    except OSError as error:
        raise BrokerError(
            f"{layout.lock} cannot be opened: {error.strerror}. Choose another --data directory"
        ) from error
    with file:
        _acquire(file, layout)
        yield file.fileno()


def _acquire(file: IO[bytes], layout: Layout) -> None:
    deadline = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise DataInUse(IN_USE, log_path=layout.log) from None
            time.sleep(POLL)
        except OSError as error:
            raise BrokerError(
                f"{layout.lock} cannot be locked: {error.strerror}. Choose a --data directory on another disk"
            ) from error
        else:
            return


def new_cluster_id() -> str:
    """Return a random cluster id in Kafka's form: 22 characters of URL-safe base64.

    The id never begins with ``-``, because Kafka would take the id for an option.
    """
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return made


def needs_format(layout: Layout) -> bool:
    """Return True if the directory must be formatted: it is empty, or an earlier start was interrupted during the formatting.

    Return False if this version of Kafka has formatted the directory. Raises DataNotOurs for all other directories.
    """
    if layout.marker.exists():
        formatted_by = read_marker(layout)
        if formatted_by != KAFKA_VERSION:
            raise DataNotOurs(
                f"{layout.data} was formatted by Kafka {formatted_by}; this is Kafka {KAFKA_VERSION}. "
                "Use another --data directory, or remove this one if its data is not needed"
            )
        return not meta_properties(layout)  # the file is missing if an earlier start died while formatting
    if meta_properties(layout) or (layout.data / "meta.properties").exists():
        raise DataNotOurs(
            f"{layout.data} holds the data of a Kafka broker that was not started by this program. "
            "Use another --data directory"
        )
    if layout.data.exists() and any(it != layout.lock for it in layout.data.iterdir()):
        raise DataNotOurs(
            f"{layout.data} is not empty, and it is not the data of a broker. Use a new or an empty --data directory"
        )
    return True


def meta_properties(layout: Layout) -> bool:
    """Return True if the directory has ``meta.properties``, with which Kafka marks a formatted directory."""
    return (layout.logs / "meta.properties").exists()


def read_cluster_id(layout: Layout) -> str:
    """Return the cluster id of a formatted directory."""
    lines = (layout.logs / "meta.properties").read_text(encoding="utf-8").splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id=")).strip()


def read_marker(layout: Layout) -> str:
    """Return the version of Kafka that formatted the directory, or "an unknown version" if the marker is unreadable."""
    try:
        return str(json.loads(layout.marker.read_text(encoding="utf-8"))["kafka"])
    except (ValueError, KeyError, TypeError, OSError):
        return "an unknown version"


def write_marker(layout: Layout) -> None:
    """Mark the directory as made by this program. This happens before the formatting, so that an interrupted formatting can be repeated."""
    layout.marker.write_text(json.dumps({"kafka": KAFKA_VERSION}) + "\n", encoding="utf-8")


def check_room(directory: Path) -> None:
    """Raise DiskFull if the disk of an existing directory has too little free space for a start."""
    free = shutil.disk_usage(directory).free
    if free < LEAST_FREE:
        raise DiskFull(
            f"Only {free / 1e6:.0f} MB are free for {directory}; a broker needs {LEAST_FREE / 1e6:.0f} MB to start. "
            "Free some space, or choose a --data directory on another disk"
        )
