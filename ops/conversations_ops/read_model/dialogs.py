"""Finds sides of dialogs in the file of the read model, by service, state, id, key, and text in bodies that wait."""

from __future__ import annotations

import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from heapq import merge
from itertools import islice, product
from typing import NamedTuple, TypeAlias
from uuid import UUID

from conversations.config import Kafka
from conversations.protocol import rows
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.states import State
from conversations.protocol.succession import decode_succession
from conversations.protocol.topics import STATE
from conversations_ops.operate.dialogs import Selector, Side, not_known, queue_up
from conversations_ops.read_model.bodies import WAIT, owns_with
from conversations_ops.read_model.derived import TOGETHER, sides_of
from conversations_ops.read_model.file import File
from conversations_ops.read_model.services import chosen, service_names

PAGE = 50
"""Number of sides on a page."""
_ID = re.compile(r"[0-9a-fA-F-]{4,36}")
_COLUMNS = "service, partition, own, contract, peer, state, began, closed, pending, parked, delayed, key, code"
Place: TypeAlias = tuple[str, int, bytes]
"""A service, the number of a partition, and the name of a side."""
_LAST = b"\xff" * 18
"""It comes after the name of every side."""


class Found(NamedTuple):
    """One side of a dialog. Times are in microseconds since 1970."""

    service: str
    partition: int
    own: bytes
    contract: str
    peer: str
    state: State
    began: int | None
    closed: bool
    pending: int
    parked: int
    delayed: int
    key: str
    code: int

    @property
    def conversation(self) -> str:
        """The id of the dialog."""
        return uuid_text(self.own[:16])

    @property
    def initiator(self) -> bool:
        """True for the initiator's side."""
        return self.own[16] == 1


class Wanted(NamedTuple):
    """Conditions on the sides of a page. An empty field is no condition."""

    service: str = ""
    state: State | None = None
    waits: bool = False
    """Only sides with records that are parked or delayed."""
    failed: bool = False
    """Only sides whose dialog is broken."""
    before: bytes = b""
    """Only sides whose name is before this one, for the next page."""


class Page(NamedTuple):
    """Some sides, the newest dialog first."""

    sides: Sequence[Found]
    more: bytes
    """``Wanted.before`` of the next page; empty if this page is the last one."""


def page(file: File, wanted: Wanted, limit: int = PAGE) -> Page:
    """Return the sides that meet the conditions, the newest dialog first."""
    with file.explained():
        parts = [
            _part(file.connection, wanted, service, state)
            for service in ([wanted.service] if wanted.service else service_names(file))
            for state in _states(wanted)
        ]
        found = list(islice(merge(*parts, key=lambda it: it.own, reverse=True), limit + 1))
    return Page(found[:limit], found[limit - 1].own if len(found) > limit else b"")


def merged(pages: Sequence[Page]) -> Page:
    """Return the pages of several files, with the same conditions, as one page. It ends where the first of them ends, so nothing is missing between its sides."""
    more = max((it.more for it in pages), default=b"")
    sides = [side for it in pages for side in it.sides if side.own >= more]
    return Page(sorted(sides, key=lambda it: it.own, reverse=True), more)


def _states(wanted: Wanted) -> list[State]:
    return list(State) if wanted.state is None else [wanted.state]


def _part(connection: sqlite3.Connection, wanted: Wanted, service: str, state: State) -> Iterator[Found]:
    """Yield the sides of one service in one state, from an index, so that only the sides of the page are read."""
    index, more = "sides_by_state", ""
    if wanted.waits:
        index, more = "sides_that_wait", " AND (parked > 0 OR delayed > 0)"
    elif wanted.failed:
        index, more = "sides_with_error", " AND code <> 0"
    sql = f"SELECT {_COLUMNS} FROM sides INDEXED BY {index} WHERE service = ? AND state = ? AND own < ?{more} ORDER BY own DESC"  # noqa: S608 - constants
    for row in connection.execute(sql, (service, int(state), wanted.before or _LAST)):
        yield _found(row)


def _found(row: Sequence[object]) -> Found:
    it = Found(*row)  # type: ignore[arg-type]  # the columns have the types of the fields
    return it._replace(state=State(it.state), closed=bool(it.closed))


def search(file: File, text: str, limit: int = PAGE, *, bodies: bool = True) -> list[Found]:
    """Return sides by the begin of the id, by the begin of the key, by the name of a letter, or by text in a body that waits.

    At most ``limit`` sides are returned, in this order of the ways to find them. Bodies are searched only if nothing else is found, because
    this reads all of them. Without ``bodies``, no body is searched: whoever may not
    see bodies could else guess them, word by word.
    """
    text = text.strip()
    if not text:
        return []
    found: dict[tuple[str, bytes], Found] = {}
    with file.explained():
        for way in (_by_id, _by_key, _by_letter):
            for it in way(file.connection, text, limit - len(found)):
                found.setdefault((it.service, it.own), it)
            if len(found) >= limit:
                break
        if bodies and not found and len(text) > _SHORT:
            return list(_of(file.connection, owns_with(file, text, limit), limit))
    return list(found.values())


_SHORT = 2
"""Number of characters of a text that is in nearly every body."""


def _by_id(connection: sqlite3.Connection, text: str, limit: int) -> Iterator[Found]:
    digits = text.replace("-", "").lower()
    if not _ID.fullmatch(text) or not 4 <= len(digits) <= 32:
        return
    first = bytes.fromhex(digits.ljust(34, "0"))
    last = bytes.fromhex(digits.ljust(34, "f"))
    sql = f"SELECT {_COLUMNS} FROM sides INDEXED BY sides_by_id WHERE own BETWEEN ? AND ? ORDER BY own DESC LIMIT ?"  # noqa: S608 - constants
    yield from map(_found, connection.execute(sql, (first, last, limit)).fetchall())


def _by_key(connection: sqlite3.Connection, text: str, limit: int) -> Iterator[Found]:
    sql = f"SELECT {_COLUMNS} FROM sides INDEXED BY sides_by_key WHERE key >= ? AND key < ? ORDER BY key, own DESC LIMIT ?"  # noqa: S608 - constants
    yield from map(_found, connection.execute(sql, (text, text + "\U0010ffff", limit)).fetchall())


def _by_letter(connection: sqlite3.Connection, text: str, limit: int) -> Iterator[Found]:
    owns: set[bytes] = {own for (own,) in connection.execute("SELECT own FROM parked WHERE letter = ?", (text,))}
    for (conversation,) in connection.execute(
        "SELECT conversation FROM letters WHERE letter = ? AND conversation <> ''", (text,)
    ):
        try:
            owns |= {UUID(conversation).bytes + bytes([side]) for side in (0, 1)}
        except ValueError:
            continue  # somebody else wrote this letter
    yield from _of(connection, owns, limit)


def _of(connection: sqlite3.Connection, owns: set[bytes], limit: int) -> Iterator[Found]:
    sql = f"SELECT {_COLUMNS} FROM sides INDEXED BY sides_by_id WHERE own = ?"  # noqa: S608 - constants
    for own in sorted(owns, reverse=True)[:limit]:
        yield from map(_found, connection.execute(sql, (own,)).fetchall())


def both_sides(file: File, namespace: str, conversation: bytes) -> list[Side]:
    """Return the known sides of a dialog as their rows have them, the initiator's side first. The list is empty if none is known."""
    sides: list[Side] = []
    with file.explained():
        for initiator in (True, False):
            own = rows.identity(conversation, initiator)
            places = file.connection.execute(
                "SELECT service, partition FROM sides INDEXED BY sides_by_id WHERE own = ?", (own,)
            )
            for where in places.fetchall():
                found = list(sides_of(file.connection, namespace, where, [own]))
                _queue_up(file, found)
                sides += found
    return sides


class Listed(NamedTuple):
    """Sides of dialogs as their rows have them, the oldest dialog first."""

    first: Sequence[Side]
    total: int
    """Number of all sides that meet the conditions."""


def listed(file: File, namespace: str, service: str, wanted: Selector, limit: int) -> Listed:
    """Return the first sides of a service, or of all services if it is empty.

    Only the rows of these sides are decoded, or of all sides with something that waits if this is a condition.
    """
    now = time.time_ns() // 1_000
    conditions: dict[str, tuple[object, ...]] = {
        "(? = '' OR service = ?)": (service, service), "(? = '' OR contract = ?)": (wanted.contract, wanted.contract),
        "(? = '' OR peer = ?)": (wanted.peer, wanted.peer),
    }  # fmt: skip
    if wanted.state is not None:
        conditions["state = ?"] = (int(wanted.state),)
    if not wanted.closed and wanted.state is not State.CLOSED:
        conditions["(NOT closed OR contract <> '')"] = ()  # a tombstone has no contract
    if wanted.older_than is not None:
        conditions["began <= ?"] = (now - wanted.older_than // timedelta(microseconds=1),)
    where, values = " AND ".join(conditions), [value for given in conditions.values() for value in given]
    order = "ORDER BY ifnull(began, 0), substr(own, 1, 16), own DESC LIMIT ?"
    sql = f"SELECT service, partition, own FROM sides WHERE {where} {order}"  # noqa: S608 - constants
    with file.explained():
        ask = file.connection.execute
        if not wanted.pending:
            ((total,),) = ask(f"SELECT count(*) FROM sides WHERE {where}", values)  # noqa: S608 - constants
            return Listed(_whole(file, namespace, ask(sql, (*values, limit)).fetchall()), total)
        waiting = _waiting(file)
        found = _whole(file, namespace, [it for it in ask(sql, (*values, -1)) if tuple(it) in waiting])
    meet = [it for it in found if wanted.matches(it, now)]
    return Listed(meet[:limit], len(meet))


_WAITING = "SELECT DISTINCT own FROM rows WHERE service = ? AND partition = ? AND key >= ? AND key < ?"


def _waiting(file: File) -> set[Place]:
    """Return the sides with rows of a kind that waits."""
    places = file.connection.execute("SELECT service, partition FROM places WHERE kind = ?", (STATE,)).fetchall()
    return {
        (service, partition, own)
        for (service, partition), kind in product(places, (*WAIT, rows.PARK, rows.RETRY))
        for (own,) in file.connection.execute(_WAITING, (service, partition, kind, bytes([kind[0] + 1])))
    }


def _whole(file: File, namespace: str, places: Sequence[Place]) -> list[Side]:
    """Return the sides at these places, in the same order."""
    owns: dict[tuple[str, int], list[bytes]] = defaultdict(list)
    for service, partition, own in places:
        owns[service, partition].append(own)
    found: dict[Place, Side] = {}
    for where, names in owns.items():
        for at in range(0, len(names), TOGETHER):
            for it in sides_of(file.connection, namespace, where, names[at : at + TOGETHER]):
                found[it.service, it.partition, it.identity] = it
    sides = [found[place] for it in places if (place := tuple(it)) in found]
    _queue_up(file, sides)
    return sides


def known_sides(kafka: Kafka, file: File, conversation: bytes, service: str = "") -> list[Side]:
    """Return the known sides of a dialog, the initiator's side first. Both are returned if both services are in the namespace.

    Args:
        kafka: the cluster and namespace.
        file: the read model, up to date.
        conversation: the id of the dialog.
        service: a service that must have a side; empty for any service.

    Raises:
        LookupError: no service has a side of this dialog.
        DeclarationError: there is no such service.
        LogError: the file cannot be read.
    """
    chosen(kafka, file, service)
    found = both_sides(file, kafka.namespace, conversation)
    if not any(service in ("", it.service) for it in found):
        raise not_known(conversation, service)
    return found


def _queue_up(file: File, sides: Sequence[Side]) -> None:
    """Note which dialog is before each of these sides in its pool. A damaged row of a pool is passed over."""
    for it in sides:
        key = rows.SUCCESSION + it.key.encode()
        with suppress(ValueError, LookupError):
            for (row,) in file.connection.execute(_ROW, (it.service, it.partition, key)):
                queue_up({it.identity: it}, decode_succession(row).dialogs)


_ROW = "SELECT value FROM rows WHERE service = ? AND partition = ? AND key = ?"
