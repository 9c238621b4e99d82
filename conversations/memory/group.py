"""The consumer group of one service: its members, their epochs, and the owners of the queue partitions."""

from __future__ import annotations

from typing import Protocol

from conversations.memory.transactions import Transaction


class Member(Protocol):
    """A consumer of a group."""

    owned: set[int]
    epoch: int
    """The epoch that the member last learned. A commit is refused if the group has another epoch for the member."""


class Group:
    """The members of one service's consumer group, their epochs, and the owners of the queue partitions."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.members: list[Member] = []
        self.epochs: dict[Member, int] = {}
        """Epochs by member. A member without an epoch was never in the group, or was removed from it."""
        self.owners: dict[int, Member] = {}
        self.offsets: dict[int, int] = {}
        self.pending: dict[int, list[Transaction]] = {}
        """Undecided transactions that carry an offset of the group, by partition."""
        self._epoch = 0

    def join(self, member: Member) -> None:
        """Add a member, and set its epoch."""
        self.members.append(member)
        self.new_epoch(member)
        member.epoch = self.epochs[member]

    def new_epoch(self, member: Member) -> None:
        """Give a member a new epoch, because something about the member changed. The member cannot commit until it polls."""
        self._epoch += 1
        self.epochs[member] = self._epoch

    def knows(self, member: Member) -> bool:
        """Return True if a commit of this member is accepted: the member is in the group, and its epoch is current."""
        return self.epochs.get(member) == member.epoch

    def target(self, member: Member) -> set[int]:
        """Return the partitions that the member should own. Each member gets a range of partitions."""
        if member not in self.members:
            return set()
        index, count = self.members.index(member), len(self.members)
        return set(range(self.partitions * index // count, self.partitions * (index + 1) // count))

    def to_revoke(self, member: Member) -> list[int]:
        """Return the partitions that the member owns and should give up."""
        owned = [p for p, owner in self.owners.items() if owner is member]
        return sorted(set(owned) - self.target(member)) if owned else []

    def to_assign(self, member: Member) -> list[int]:
        """Return the partitions without an owner that the member should own."""
        return sorted(p for p in self.target(member) if p not in self.owners)

    def release(self, member: Member) -> None:
        """Remove a member and its partitions from the group. The member learns this when it polls or commits."""
        if member in self.members:
            self.members.remove(member)
        self.epochs.pop(member, None)
        self.owners = {p: owner for p, owner in self.owners.items() if owner is not member}
