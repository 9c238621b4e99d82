"""Tells whether Kafka knows that the last run of its broker has ended. It must know this before the broker starts again.

After a SIGKILL, the metadata still name the broker as the leader of all its partitions. A broker that starts then takes its own word for
it: its transaction coordinator begins to end the transactions that the kill left half ended. A moment later, the controller registers the
new run and takes all leaders away. Kafka 4.3.1 takes a partition without a leader for a deleted one, so the coordinator leaves out the
markers there, and notes the transactions as complete. Such a partition stands still for ever, because readers wait for the marker.

So after a kill the controller starts alone first, until it has noted that the broker is gone. The broker that starts then leads no
partition before it is registered, and then it leads all of them at once.
"""

from __future__ import annotations

import re
from pathlib import Path

from conversations_ops.broker.server import Layout

CLEAN = ".kafka_cleanshutdown"
"""File that Kafka writes when it has stopped cleanly, and removes when it starts."""

_STANDING = re.compile(rb"Replayed .* broker 1: .*?\bfenced=(true|false|1|-1)\b")
"""Line of the controller's log about the standing of the broker. Kafka calls a broker fenced if it may not lead. 0 means no change."""
_GONE = {b"true", b"1"}
_AT_WORK = (b"Performing controller activation", b"Kafka Server started")
"""Lines of a start. Before them, the controller repeats its old records, and one of these says that the broker is gone."""


def was_cut_off(layout: Layout) -> bool:
    """Return True if the last run of the broker was killed, and may have left transactions half ended."""
    return not (layout.logs / CLEAN).exists() and any(layout.logs.glob("__transaction_state-*"))


def is_noted(log: Path, since: int) -> bool:
    """Return True if the log says, from position ``since`` on, that the controller knows that its broker is gone."""
    with log.open("rb") as file:
        file.seek(since)
        text = file.read()
    found = _STANDING.findall(text)
    return bool(found) and found[-1] in _GONE and all(line in text for line in _AT_WORK)
