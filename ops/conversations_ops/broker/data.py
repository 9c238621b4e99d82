"""Checks data directories of embedded brokers: this program must have made them, with the same version of Kafka."""

from __future__ import annotations

import base64
import json
import shutil
import uuid
from pathlib import Path

from conversations_ops.broker.errors import DataNotOurs, DiskFull
from conversations_ops.broker.server import KAFKA_VERSION, Layout

LEAST_FREE = 256 * 1024 * 1024
"""Free bytes that a start needs, for some topics and their indexes. With fewer free bytes, Kafka could stop in the middle of a test."""


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
    if layout.data.exists() and any(layout.data.iterdir()):
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
