"""The consumer group of one service: who is a member, in which epoch, and who owns which queue partition."""

from __future__ import annotations

from typing import Protocol

from conversations.memory.transactions import Transaction


class Member(Protocol):
    """A consumer of a group."""

    owned: set[int]
    epoch: int
    """The epoch it was last told of: what its commits are checked against."""


class Group:
    """The members of one service's consumer group and who owns which queue partition."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.members: list[Member] = []
        self.epochs: dict[Member, int] = {}
        """By member; one that is not in here was never in the group, or was thrown out of it."""
        self.owners: dict[int, Member] = {}
        self.offsets: dict[int, int] = {}
        self.pending: dict[int, list[Transaction]] = {}
        """Transactions that carry an offset of the partition and are not decided."""
        self._epoch = 0

    def join(self, member: Member) -> None:
        """Take a member in; it is told its epoch."""
        self.members.append(member)
        self.new_epoch(member)
        member.epoch = self.epochs[member]

    def new_epoch(self, member: Member) -> None:
        """Something about the member changed; until it polls, it does not know and cannot commit."""
        self._epoch += 1
        self.epochs[member] = self._epoch

    def knows(self, member: Member) -> bool:
        """Say whether a commit of this member is accepted: it is in the group, and up to date."""
        return self.epochs.get(member) == member.epoch

    def target(self, member: Member) -> set[int]:
        """Partitions the member should own, dealt out in ranges."""
        if member not in self.members:
            return set()
        index, count = self.members.index(member), len(self.members)
        return set(range(self.partitions * index // count, self.partitions * (index + 1) // count))

    def to_revoke(self, member: Member) -> list[int]:
        """Partitions the member owns and should give up."""
        owned = [p for p, owner in self.owners.items() if owner is member]
        return sorted(set(owned) - self.target(member)) if owned else []

    def to_assign(self, member: Member) -> list[int]:
        """Partitions nobody owns that the member should take."""
        return sorted(p for p in self.target(member) if p not in self.owners)

    def release(self, member: Member) -> None:
        """Take a member and what it owns out of the group; it learns of it when it polls or commits."""
        if member in self.members:
            self.members.remove(member)
        self.epochs.pop(member, None)
        self.owners = {p: owner for p, owner in self.owners.items() if owner is not member}
