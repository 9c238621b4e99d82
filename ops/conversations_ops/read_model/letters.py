"""Finds failed messages and dead letters in the file of the read model: groups, lists and one letter."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from heapq import merge
from itertools import islice
from typing import NamedTuple

from conversations.protocol.identifiers import uuid_text
from conversations.protocol.parked import Parked
from conversations_ops.read_model.derived import sides_of
from conversations_ops.read_model.file import File
from conversations_ops.read_model.services import service_names

PAGE = 50
"""Number of letters on a page."""


class Waits(StrEnum):
    """For what a failed message waits."""

    PERSON = "person"
    """An operator must decide: it is held, or its policy turned the queue off."""
    RETRY = "retry"
    """It is tried again by itself."""


_WAITS = {
    Waits.PERSON: "due IS NULL AND (NOT queue_off OR exception <> '')",
    Waits.RETRY: "due IS NOT NULL",
}
_BY_TIME = {Waits.PERSON: "parked_for_a_person", Waits.RETRY: "parked_for_a_retry"}
"""Indexes of the failed messages of a service, the longest wait first."""


class Group(NamedTuple):
    """Failed messages of a service with the same exception and message type. Times are in microseconds since 1970."""

    service: str
    exception: str
    what: str
    letters: int
    behind: int
    """Number of records behind the messages."""
    first: int
    """Time of the earliest first failure."""
    last: int
    """Time of the latest first failure."""
    deadline: int | None
    """Time at which the lifetime of the first of the dialogs ends; None if none ends."""
    failure: str
    """The last exception of one of these messages, with its text."""


class Head(NamedTuple):
    """One failed message, or a failed handler without a message. Times are in microseconds since 1970."""

    service: str
    partition: int
    own: bytes
    letter: str
    what: str
    exception: str
    failure: str
    since: int
    due: int | None
    behind: int
    queue_off: bool
    deadline: int | None
    contract: str
    peer: str
    number: int
    attempts: int

    @property
    def conversation(self) -> str:
        """The id of the dialog."""
        return uuid_text(self.own[:16])


class Kept(NamedTuple):
    """A letter in a dead-letter topic, without its bytes. The fields are those of ``operate.open_letters.OpenLetter``."""

    service: str
    partition: int
    at_offset: int
    """Offset of the letter in the dead-letter topic."""
    letter: str
    topic: str
    offset: int
    reason: str
    exception: str
    message: str
    conversation: str
    from_initiator: bool
    number: int
    what: str
    at: int
    tool: str
    code: int
    decided_by: str
    decided_why: str
    is_last: bool
    """True if no later letter has the same source."""
    is_open: bool
    """True if no dialog waits for the letter, and no operator has closed it."""


class Wanted(NamedTuple):
    """Conditions on failed messages. An empty field is no condition; None of ``exception`` and ``what``, too."""

    waits: Waits = Waits.PERSON
    service: str = ""
    exception: str | None = None
    what: str | None = None
    after: tuple[int, str] = (0, "")
    """Time of the first failure and letter of the last one of the page before."""


def groups(file: File, waits: Waits, service: str = "") -> list[Group]:
    """Return the groups of the failed messages that wait for a person or for another attempt, the largest group first."""
    sql = (
        "SELECT service, exception, what, count(*), CAST(total(behind) AS INTEGER), min(since), max(since), min(deadline) "  # noqa: S608 - constants
        f"FROM parked INDEXED BY parked_groups WHERE {_WAITS[waits]} AND (? = '' OR service = ?) GROUP BY service, exception, what"
    )
    # The index has everything but the texts, so only one message of each group is looked up for its text.
    text = (
        f"SELECT failure FROM parked INDEXED BY parked_groups WHERE service = ? AND exception = ? AND what = ? AND {_WAITS[waits]} "  # noqa: S608
        "ORDER BY since DESC LIMIT 1"
    )
    with file.explained():
        ask = file.connection.execute
        found = [Group(*row, *ask(text, row[:3]).fetchone()) for row in ask(sql, (service, service)).fetchall()]
    return sorted(found, key=lambda it: (-it.letters, it.service, it.exception, it.what))


def heads(file: File, wanted: Wanted, limit: int = PAGE) -> list[Head]:
    """Return failed messages, the longest wait first."""
    names = [wanted.service] if wanted.service else service_names(file)
    with file.explained():
        parts = [_heads(file, wanted, name, limit) for name in names]
    return list(islice(merge(*parts, key=lambda it: (it.since, it.letter)), limit))


def _heads(file: File, wanted: Wanted, service: str, limit: int) -> list[Head]:
    of_group = wanted.exception is not None and wanted.what is not None
    conditions = {"service = ?": service, "exception = ?": wanted.exception, "what = ?": wanted.what}
    given = {condition: value for condition, value in conditions.items() if value is not None}
    sql = (
        f"SELECT {', '.join(Head._fields)} FROM parked INDEXED BY {'parked_groups' if of_group else _BY_TIME[wanted.waits]} "  # noqa: S608 - constants
        f"WHERE {' AND '.join(given)} AND {_WAITS[wanted.waits]} AND (since, letter) > (?, ?) ORDER BY since, letter LIMIT ?"
    )
    return [_head(row) for row in file.connection.execute(sql, (*given.values(), *wanted.after, limit))]


def _head(row: Sequence[object]) -> Head:
    it = Head(*row)  # type: ignore[arg-type]  # the columns have the types of the fields
    return it._replace(queue_off=bool(it.queue_off))


def parked_letter(file: File, namespace: str, letter: str) -> Parked | None:
    """Return the failed message with this letter, with its body; None if no dialog waits for it."""
    with file.explained():
        row = file.connection.execute(
            "SELECT service, partition, own FROM parked WHERE letter = ?", (letter,)
        ).fetchone()
        if row is None:
            return None
        service, partition, own = row
        sides = sides_of(file.connection, namespace, (service, partition), [own])
        return next((head for side in sides for head in side.heads if head.letter == letter), None)


_KEPT = f"SELECT l.{', l.'.join(Kept._fields[:-1])}, (l.tool <> '' OR o.offset IS NOT NULL) FROM letters l LEFT JOIN open o USING (service, partition, topic, offset)"  # noqa: S608 - names of fields


def _kept(row: Sequence[object]) -> Kept:
    it = Kept(*row)  # type: ignore[arg-type]  # the columns have the types of the fields
    return it._replace(from_initiator=bool(it.from_initiator), is_last=bool(it.is_last), is_open=bool(it.is_open))


def kept_letters(file: File, letter: str) -> list[Kept]:
    """Return all letters with one name, the oldest first. A message that is decided about gets a further letter."""
    with file.explained():
        return [
            _kept(row) for row in file.connection.execute(f"{_KEPT} WHERE l.letter = ? ORDER BY l.at_offset", (letter,))
        ]


def letters_of(file: File, conversation: str) -> list[Kept]:
    """Return the letters of a dialog, the oldest first."""
    with file.explained():
        found = file.connection.execute(
            f"{_KEPT} WHERE l.conversation = ? AND l.conversation <> '' ORDER BY l.at, l.letter", (conversation,)
        )
        return [_kept(row) for row in found]


_OPEN = f"""
SELECT l.{", l.".join(Kept._fields[:-1])}, 1 FROM open o JOIN letters l INDEXED BY letters_by_source USING (service, partition, topic, offset)
WHERE l.is_last AND (? = '' OR o.service = ?) ORDER BY o.service, o.partition, o.topic, o.offset LIMIT ? OFFSET ?
"""  # noqa: S608 - names of fields


def open_letters(file: File, service: str = "", begin: int = 0, limit: int = PAGE) -> list[Kept]:
    """Return open letters: no dialog waits for them, and nobody has closed them. ``begin`` is the number of letters to leave out."""
    with file.explained():
        return [_kept(row) for row in file.connection.execute(_OPEN, (service, service, limit, begin))]


_OF_TOOLS = f"SELECT {', '.join(Kept._fields[:-1])}, 1 FROM letters INDEXED BY letters_of_tools WHERE service = ? AND tool <> '' AND is_last"  # noqa: S608 - names of fields


def every_open(file: File, service: str = "") -> list[Kept]:
    """Return all open letters, the oldest first, and the letters of other tools last."""
    found = open_letters(file, service, limit=-1)  # SQLite's word for no limit
    with file.explained():
        for name in [service] if service else service_names(file):
            found += [_kept(row) for row in file.connection.execute(_OF_TOOLS, (name,))]
    return sorted(found, key=lambda it: (bool(it.tool), it.at, it.letter))


def held_that_begin(file: File, text: str, limit: int) -> list[str]:
    """Return the names of the letters of failed messages without a time of the next attempt that begin with a text, in order."""
    sql = "SELECT DISTINCT letter FROM parked INDEXED BY parked_by_letter WHERE letter >= ? AND letter < ? AND due IS NULL ORDER BY letter LIMIT ?"
    with file.explained():
        return [name for (name,) in file.connection.execute(sql, (text, text + "\U0010ffff", limit))]


_BEGIN = """
SELECT DISTINCT l.letter FROM letters l INDEXED BY letters_by_name JOIN open o USING (service, partition, topic, offset)
WHERE l.letter >= ? AND l.letter < ? AND l.is_last ORDER BY l.letter LIMIT ?
"""


def open_that_begin(file: File, text: str, limit: int) -> list[str]:
    """Return the names of the open letters that begin with a text, in order."""
    with file.explained():
        return [name for (name,) in file.connection.execute(_BEGIN, (text, text + "\U0010ffff", limit))]


class Reasons(NamedTuple):
    """Open letters of a service that were written for the same reason. Times are in microseconds since 1970."""

    service: str
    reason: str
    exception: str
    letters: int
    first: int
    last: int


_REASONS = """
SELECT o.service, l.reason, l.exception, count(*), min(l.at), max(l.at) FROM open o
JOIN letters l INDEXED BY letters_by_source USING (service, partition, topic, offset)
WHERE l.is_last AND (? = '' OR o.service = ?) GROUP BY o.service, l.reason, l.exception ORDER BY count(*) DESC, o.service, l.reason
"""


def open_groups(file: File, service: str = "") -> list[Reasons]:
    """Return the groups of open letters, the largest group first."""
    with file.explained():
        return [Reasons(*row) for row in file.connection.execute(_REASONS, (service, service))]
