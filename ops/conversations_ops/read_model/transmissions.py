"""Finds the envelopes that wait for their peers in the file of the read model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from conversations.protocol import rows
from conversations_ops.operate.transmissions import Transmission, next_try, transmissions_in
from conversations_ops.read_model.file import File


class Transmissions(NamedTuple):
    """Envelopes that wait, those of the oldest dialog first."""

    first: Sequence[Transmission]
    total: int
    """Number of all envelopes that meet the conditions."""


MOST = 100_000
"""Number of envelopes of a dialog after which the count ends."""
_WAITS = "(pending > 0 OR delayed > 0)"
_OF_SERVICE = f"SELECT service, partition, own FROM sides WHERE (? = '' OR service = ?) AND {_WAITS} ORDER BY own"  # noqa: S608 - constants
_OF_DIALOG = (
    "SELECT service, partition, own FROM sides INDEXED BY sides_by_id WHERE own = ? AND (? = '' OR service = ?)"
)
_TOTAL = f"SELECT ifnull(total(max(pending, delayed)), 0) FROM sides WHERE (? = '' OR service = ?) AND {_WAITS}"  # noqa: S608 - constants
_ROWS = "SELECT key, value FROM rows INDEXED BY rows_of_side WHERE service = ? AND partition = ? AND own = ?"


def transmissions(file: File, namespace: str, service: str, limit: int) -> Transmissions:
    """Return the envelopes of a service that wait, or of all services if it is empty. Only the rows of the first ones are decoded."""
    with file.explained():
        ((total,),) = file.connection.execute(_TOTAL, (service, service))
        places = file.connection.execute(_OF_SERVICE, (service, service))
        first = list(islice(_of(file, namespace, places), limit))
    return Transmissions(first, max(int(total), len(first)))


def transmissions_of(file: File, namespace: str, conversation: bytes, service: str, limit: int) -> Transmissions | None:
    """Return the envelopes of both sides of a dialog, or of the side of one service; None if no such side is known."""
    with file.explained():
        names = [rows.identity(conversation, initiator) for initiator in (True, False)]
        places = [it for own in names for it in file.connection.execute(_OF_DIALOG, (own, service, service))]
        found = list(islice(_of(file, namespace, places), MOST))
    return Transmissions(found[:limit], len(found)) if places else None


_PENDING = "SELECT ifnull(sum(pending), 0) FROM sums WHERE service = ? AND peer = ?"
_ENDPOINTS = """
SELECT r.key, r.value FROM sides s INDEXED BY sides_unacknowledged JOIN rows r ON r.service = s.service AND r.partition = s.partition AND r.key = CAST(x'45' || s.own AS BLOB)
WHERE s.service = ? AND s.peer = ? AND s.pending > 0 LIMIT ?
"""
LOOKED_AT = 1_000
"""Number of sides that are looked at for the time of the next try."""


def unacknowledged(file: File, service: str, peer: str) -> tuple[int, int | None]:
    """Return how many envelopes of a service a peer has not acknowledged, and the time of the next try, as some of the sides have it."""
    with file.explained():
        ((count,),) = file.connection.execute(_PENDING, (service, peer))
        if not count:
            return 0, None
        found = file.connection.execute(_ENDPOINTS, (service, peer, LOOKED_AT)).fetchall()
    return count, min((at for key, row in found if (at := _next_try(key[1:], row, service)) is not None), default=None)


def _next_try(own: bytes, row: bytes, service: str) -> int | None:
    try:
        return next_try(own, row, service)
    except (ValueError, LookupError):
        return None  # a damaged row; others tell of it


def partition_of_peer(file: File, it: Transmission) -> int | None:
    """Return the partition that has the other side of the dialog; None if it is not known."""
    with file.explained():
        found = file.connection.execute(_OF_DIALOG, (rows.other_side(it.own), it.peer, it.peer)).fetchone()
    return None if found is None else int(found[1])


def _of(file: File, namespace: str, places: Iterable[tuple[str, int, bytes]]) -> Iterator[Transmission]:
    for service, partition, own in places:
        table = dict(file.connection.execute(_ROWS, (service, partition, own)).fetchall())
        yield from transmissions_in(table, (namespace, service, partition))
