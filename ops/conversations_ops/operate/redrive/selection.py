"""Selects letters, and counts letters in groups."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from conversations.protocol.parked import Parked


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


class By(StrEnum):
    """The field by which letters are grouped."""

    EXCEPTION = "exception"
    TYPE = "type"
    CONTRACT = "contract"
    PEER = "peer"
    SERVICE = "service"


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


def groups(letters: Iterable[Parked], by: By) -> list[Group]:
    """Count letters in groups, the largest group first."""
    found: dict[str, list[Parked]] = {}
    for it in letters:
        name = {
            By.EXCEPTION: it.exception, By.TYPE: it.what, By.CONTRACT: it.contract, By.PEER: it.peer, By.SERVICE: it.service,
        }[by]  # fmt: skip
        found.setdefault(name, []).append(it)
    made = [_group(name, members) for name, members in found.items()]
    return sorted(made, key=lambda group: (-group.letters, group.name))


def _group(name: str, members: list[Parked]) -> Group:
    members.sort(key=lambda it: it.since)
    behind = sum(it.behind for it in members)
    return Group(name, len(members), behind, members[0].since, members[-1].since, members[-1].failure)
