"""Finds the timers of dialogs in the file of the read model."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

from conversations.protocol import rows
from conversations.protocol.identifiers import uuid_text
from conversations_ops.read_model.file import File
from conversations_ops.read_model.services import service_names


class Timer(NamedTuple):
    """One timer of one side of a dialog. Its time is in microseconds since 1970."""

    service: str
    partition: int
    own: bytes
    name: str
    """Empty for the timer without a name."""
    due: int
    contract: str
    peer: str

    @property
    def conversation(self) -> str:
        """The id of the dialog."""
        return uuid_text(self.own[:16])

    @property
    def initiator(self) -> bool:
        """True for the initiator's side."""
        return self.own[16] == 1


class Timers(NamedTuple):
    """Timers, the one that is due first comes first."""

    first: Sequence[Timer]
    total: int
    """Number of all timers that meet the conditions."""
    overdue: int
    """Number of these that were due before the given time."""


_COLUMNS = ", ".join(Timer._fields)
_OF_SERVICE = f"SELECT {_COLUMNS} FROM timers INDEXED BY timers_by_time WHERE service = ? ORDER BY due LIMIT ?"  # noqa: S608 - constants
_COUNT = "SELECT count(*), count(*) FILTER (WHERE due < ?) FROM timers INDEXED BY timers_by_time WHERE service = ?"
_OF_SIDE = f"SELECT {_COLUMNS} FROM timers WHERE service = ? AND partition = ? AND own = ?"  # noqa: S608 - constants
_SIDES = "SELECT service, partition FROM sides INDEXED BY sides_by_id WHERE own = ?"


def timers(file: File, service: str, before: int, limit: int) -> Timers:
    """Return the first timers of the dialogs of a service, or of all services if it is empty.

    ``before`` is a time in microseconds since 1970: timers that were due before are overdue.
    """
    names = [service] if service else service_names(file)
    with file.explained():
        ask = file.connection.execute
        parts = [[Timer(*row) for row in ask(_OF_SERVICE, (name, limit))] for name in names]
        counts = [ask(_COUNT, (before, name)).fetchone() for name in names]
    first = list(islice(merge(*parts, key=lambda it: it.due), limit))
    return Timers(first, sum(total for total, _ in counts), sum(overdue for _, overdue in counts))


def timers_of(file: File, conversation: bytes, service: str, before: int) -> Timers | None:
    """Return the timers of both sides of a dialog, or of the side of one service; None if no such side is known."""
    found: list[Timer] = []
    known = False
    with file.explained():
        ask = file.connection.execute
        for own in (rows.identity(conversation, initiator) for initiator in (True, False)):
            for where in ask(_SIDES, (own,)).fetchall():
                if service in ("", where[0]):
                    known = True
                    found += [Timer(*row) for row in ask(_OF_SIDE, (*where, own))]
    found.sort(key=lambda it: (it.due, it.own, it.name))
    return Timers(found, len(found), sum(it.due < before for it in found)) if known else None
