"""What a member does between two polls must not answer what it has not been told yet."""

from contextlib import closing
from time import monotonic

import pytest

from conversations.config import Kafka
from conversations.kafka.consumer import PROTOCOLS
from conversations.kafka.ownership import settled_partitions
from tests.integration.kafka.members import PARTITIONS, START, Member, until

HEARTBEATS = 1.5
"""Seconds in which a member that does not poll hears of a new target in the background, more than once."""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_partition_leaves_its_owner_only_once_the_owner_has_been_told(kafka: Kafka, protocol: str) -> None:
    """The client hears of a partition it must give back in the background, and says so at the next poll.

    Opening a partition in between, because its restore has finished, must not be taken for the answer: the heir would
    go to work, and the owner could still commit.
    """
    owner, heir = Member(kafka, protocol=protocol), Member(kafka, protocol=protocol)
    with closing(owner.connection), closing(heir.connection):
        owner.join().owns(PARTITIONS)
        heir.join()
        for partition in range(PARTITIONS):
            deadline = monotonic() + HEARTBEATS
            while monotonic() < deadline:
                heir.poll()
                assert not heir.owned, f"{heir.owned} are given away, their owner was told {owner.told}"
            owner.connection.open(partition, START)
        until(lambda: (owner.poll(), heir.poll(), heir.owned and not owner.owned & heir.owned)[2])


def test_partitions_that_change_hands_are_not_taken_for_partitions_without_an_owner(
    kafka: Kafka,
) -> None:
    def settled() -> frozenset[int] | None:
        return settled_partitions(kafka, ["orders"]).get("orders")

    first, second = Member(kafka, protocol="consumer"), Member(kafka, protocol="consumer")
    with closing(first.connection), closing(second.connection):
        first.join().owns(PARTITIONS)
        until(lambda: (first.poll(), settled() == frozenset(range(PARTITIONS)))[1])
        second.join()
        seen = set()

        def shared() -> bool:
            """Return True when both have their part. Look whenever one of them has done something."""
            for member in (second, first):
                member.poll()
                seen.add(settled())
            return len(first.owned) == len(second.owned) == PARTITIONS // 2

        until(shared)
        until(lambda: (first.poll(), second.poll(), settled() == frozenset(range(PARTITIONS)))[2])
        assert seen == {None, frozenset(range(PARTITIONS))}
