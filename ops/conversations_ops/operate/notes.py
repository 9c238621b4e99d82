"""Notes of operators on groups of failed messages. A group is the failed messages of a service with one exception and one message type."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, NamedTuple

from conversations.config import Kafka
from conversations.kafka.appending import append
from conversations.protocol.events import GroupNoted, encode_tool_event
from conversations.protocol.topics import events_topic
from conversations_ops.operate.operators_topic import write

NOTE, MENDED = "note", "mended"
"""First parts of the keys of notes. A group has at most one note of each kind, so that a group that is mended keeps what was said before."""


class About(NamedTuple):
    """A group of failed messages."""

    service: str
    exception: str
    """Class of the exception, without its module."""
    type: str


class Note(NamedTuple):
    """What an operator said about a group. The time is in microseconds since 1970."""

    text: str
    by: str
    at: int


class Mark(StrEnum):
    """What operators know about a group."""

    NEW = "new"
    """Nobody has noted it."""
    NOTED = "noted"
    MENDED = "mended"
    """Its cause was mended, and no message failed after that."""
    REGRESSED = "regressed"
    """A message failed after its cause was mended."""


class Known(NamedTuple):
    """The notes on a group; None for one that nobody wrote."""

    note: Note | None = None
    mended: Note | None = None

    def mark(self, last: int) -> Mark:
        """Return the mark of the group. ``last`` is the time of its latest first failure, in microseconds since 1970."""
        if self.mended is not None:
            return Mark.REGRESSED if last > self.mended.at else Mark.MENDED
        return Mark.NEW if self.note is None else Mark.NOTED


def key_of(kind: str, about: About) -> str:
    """Return the key of a note in the operators topic."""
    return f"{kind}/{json.dumps(about)}"


def about_in(key: str) -> About | None:
    """Return the group of a key; None if the key is no key of a note."""
    with suppress(ValueError, RecursionError):
        found = json.loads(key.partition("/")[2])
        match found:
            case [str(), str(), str()]:
                return About(*found)
    return None


def note_in(fields: Mapping[str, Any]) -> Note | None:
    """Return the note that the fields of a record are; None if they are none, because any program may have written the record."""
    with suppress(KeyError):
        match fields["text"], fields["by"], fields["at"]:
            case str(text), str(by), int(at):
                return Note(text, by, at)
    return None


def note(kafka: Kafka, about: About, by: str, text: str, *, mended: bool = False) -> None:
    """Write a note on a group, in place of the earlier one, and an event for the journal.

    Args:
        kafka: the cluster and namespace.
        about: the group.
        by: the operator.
        text: the note.
        mended: if True, the cause of the failures is mended. Later failures are a regression.

    Raises:
        LogError: a topic is missing, or Kafka refused a record.
    """
    now = time.time_ns() // 1_000
    write(kafka, [(key_of(MENDED if mended else NOTE, about), Note(text, by, now)._asdict())])
    event = GroupNoted(about.service, now, about.exception, about.type, mended, by, text)
    append(kafka, events_topic(kafka.namespace), [(about.service.encode(), encode_tool_event(event))])
