"""Choosing among what waits for a decision, and counting it in groups."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from conversations.protocol.parked import Parked


class Selector(NamedTuple):
    """What to choose; an empty field chooses all. Times in microseconds since 1970."""

    service: str = ""
    exception: str = ""
    """Class of what the handler raised last, without its module."""
    type: str = ""
    """Message type."""
    contract: str = ""
    peer: str = ""
    conversation: str = ""
    since: int = 0
    """Failed first not before."""
    until: int = 0
    """Failed first before."""
    where: str = ""
    """A predicate of Spark SQL that letters were chosen by (``spark_jobs.redrive``); kept to be read, ``matches`` cannot say."""

    def matches(self, it: Parked) -> bool:
        """Say whether it is chosen."""
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
    """What letters are grouped by."""

    EXCEPTION = "exception"
    TYPE = "type"
    CONTRACT = "contract"
    PEER = "peer"
    SERVICE = "service"


class Group(NamedTuple):
    """Letters that have something in common."""

    name: str
    letters: int
    behind: int
    """Records that wait behind them."""
    first: int
    """When the earliest of them failed first, microseconds since 1970."""
    last: int
    """When the latest of them did."""
    what: str
    """What the handler raised, of the latest."""


def groups(letters: Iterable[Parked], by: By) -> list[Group]:
    """Count letters by what they have in common, the largest group first."""
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
