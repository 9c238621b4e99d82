"""A broker of our own that goes away and comes back."""

from collections.abc import Callable

import pytest

from conversations.config import Kafka
from conversations.errors import Fenced, InDoubt, Interrupted
from conversations.kafka.admin import apply
from conversations.kafka.embedded import EmbeddedBroker
from conversations.ports import Out
from conversations.protocol.declarations import ServiceDeclaration
from tests.integration.kafka.members import Member, restored, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def commits(member: Member, outs: Callable[[], list[Out]]) -> None:
    """Commit as a worker does: again after an abort, rejoin when in doubt."""

    def attempt() -> bool:
        try:
            member.log.commit(outs(), {0: 1})
        except (Interrupted, Fenced):
            member.poll()
            return False
        except InDoubt:
            member.log.close()
            member.join().owns(1)
            return False
        return True

    until(attempt, 90)


@pytest.mark.timeout(240)
def test_a_worker_goes_on_after_its_broker_was_killed_and_came_back() -> None:
    with EmbeddedBroker() as broker:
        kafka = Kafka(broker.bootstrap)
        apply(kafka, [ServiceDeclaration("orders")], 1, 1)
        member = Member(kafka).join().owns(1)
        member.log.commit([member.state(b"a", b"1")], {0: 1})
        # Seen committed before the kill: a lone broker that dies between the promise of a commit and its markers may
        # skip the markers when it loads, because it does not know its topics yet, and the transaction is undone.
        assert restored(member.log.restore(0, None)) == [(b"a", b"1")]
        broker.kill()
        broker.restart()
        # The group's coordinator was out of the cluster: librdkafka may wait for it for ever, we may not.
        commits(member, lambda: [member.state(b"b", b"2")])
        member.owns(1)
        assert restored(member.log.restore(0, None)) == [(b"a", b"1"), (b"b", b"2")]
        member.log.close()
