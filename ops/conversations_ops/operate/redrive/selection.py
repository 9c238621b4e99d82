"""Selects letters, and counts letters in groups."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from conversations.protocol.parked import Parked
from conversations_ops.operate.notes import About
from conversations_ops.operate.open_letters import OpenLetter

WHAT = 200
"""Maximum number of characters of the text about a detached letter."""


class Selector(NamedTuple):
    """Conditions on a letter. An empty field (0 for a time) is no condition. Times are in microseconds since 1970."""

    service: str = ""
    exception: str = ""
    """Class of the handler's last exception, without its module."""
    type: str = ""
    """Message type."""
    contract: str = ""
    peer: str = ""
    conversation: str = ""
    since: int = 0
    """The first failure was at this time or later."""
    until: int = 0
    """The first failure was before this time."""
    where: str = ""
    """The Spark SQL predicate of ``spark_jobs.redrive``, for people to read; ``matches`` ignores it."""

    def matches(self, it: Parked) -> bool:
        """Return True if a letter meets all conditions."""
        return (
            self.service in ("", it.service)
            and self.exception in ("", it.exception)
            and self.type in ("", it.what)
            and self.contract in ("", it.contract)
            and self.peer in ("", it.peer)
            and self.conversation in ("", it.conversation)
            and self.since <= it.since
            and (not self.until or it.since < self.until)
        )


def group_of(selector: Selector) -> About | None:
    """Return the group that a selector chooses; None if it chooses more or less than a group."""
    about = About(selector.service, selector.exception, selector.type)
    return about if all(about) and selector == Selector(*about) else None


class By(StrEnum):
    """The field by which letters are grouped."""

    EXCEPTION = "exception"
    TYPE = "type"
    CONTRACT = "contract"
    PEER = "peer"
    SERVICE = "service"
    REASON = "reason"
    """Why a detached letter was written."""


class Member(NamedTuple):
    """A letter with the fields by which it may be grouped. An empty field is not known."""

    exception: str
    type: str
    contract: str
    peer: str
    service: str
    reason: str
    behind: int
    at: int
    """Time of the first failure, or of a detached letter; microseconds since 1970."""
    what: str
    """The last exception, or another text about the letter."""


def member_of_parked(it: Parked) -> Member:
    """Return the fields of a message for which a dialog waits."""
    return Member(it.exception, it.what, it.contract, it.peer, it.service, "", it.behind, it.since, it.failure)


def member_of_open(it: OpenLetter) -> Member:
    """Return the fields of a letter that no dialog waits for. Only a message has a contract and a peer."""
    envelope, exception = it.envelope(), it.exception.rpartition(".")[2]
    contract, peer = ("", "") if envelope is None else (envelope.prefix.contract, envelope.prefix.from_service)
    what = f"{exception}: {it.message}" if exception else it.message
    return Member(exception, it.what, contract, peer, it.service, it.reason, 0, it.at, what[:WHAT])


class Group(NamedTuple):
    """Letters with the same value of a field."""

    name: str
    letters: int
    behind: int
    """Number of records behind the letters."""
    first: int
    """Time of the earliest first failure of a letter, microseconds since 1970."""
    last: int
    """Time of the latest first failure of a letter, microseconds since 1970."""
    what: str
    """The exception of the letter whose first failure is the latest."""


def groups(letters: Iterable[Member], by: By) -> list[Group]:
    """Count letters in groups, the largest group first."""
    found: dict[str, list[Member]] = {}
    for it in letters:
        found.setdefault(getattr(it, by.value), []).append(it)
    made = [_group(name, members) for name, members in found.items()]
    return sorted(made, key=lambda group: (-group.letters, group.name))


def _group(name: str, members: list[Member]) -> Group:
    members.sort(key=lambda it: it.at)
    behind = sum(it.behind for it in members)
    return Group(name, len(members), behind, members[0].at, members[-1].at, members[-1].what)
