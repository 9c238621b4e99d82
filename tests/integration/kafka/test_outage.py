"""A broker of our own that goes away and comes back."""

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

from conversations.config import Kafka
from conversations.errors import Fenced, InDoubt, Interrupted, KafkaUnreachable
from conversations.kafka.admin import apply
from conversations.kafka.catalog import read_catalog
from conversations.kafka.clients import make_admin
from conversations.ports import Out
from conversations.protocol.declarations import ServiceDeclaration
from conversations_ops.broker import EmbeddedBroker
from tests.integration.kafka.members import Member, restored, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def commits(member: Member, outs: Callable[[], list[Out]]) -> None:
    """Commit as a worker does: again after an abort, rejoin when in doubt."""

    def attempt() -> bool:
        try:
            member.connection.commit(outs(), {0: 1})
        except (Interrupted, Fenced):
            member.poll()
            return False
        except InDoubt:
            member.connection.close()
            member.join().owns(1)
            return False
        return True

    until(attempt, seconds=90)


@pytest.mark.timeout(240)
def test_a_worker_goes_on_after_its_broker_was_killed_and_came_back() -> None:
    with EmbeddedBroker() as broker:
        kafka = Kafka(broker.bootstrap)
        apply(kafka, [ServiceDeclaration("orders")], 1, 1)
        member = Member(kafka).join().owns(1)
        member.connection.commit([member.state(b"a", b"1")], {0: 1})
        # Seen committed before the kill: a lone broker that dies between the promise of a commit and its markers may
        # skip the markers when it loads, because it does not know its topics yet, and the transaction is undone.
        assert restored(member.connection.restore(0, None)) == [(b"a", b"1")]
        broker.kill()
        broker.restart()
        # The group's coordinator was out of the cluster: librdkafka may wait for it for ever, we may not.
        commits(member, lambda: [member.state(b"b", b"2")])
        member.owns(1)
        assert restored(member.connection.restore(0, None)) == [(b"a", b"1"), (b"b", b"2")]
        member.connection.close()


@pytest.mark.timeout(240)
def test_while_the_broker_restarts_the_catalog_is_read_or_nobody_answers() -> None:
    with EmbeddedBroker() as broker, ThreadPoolExecutor(1) as pool:
        kafka = Kafka(broker.bootstrap)
        apply(kafka, [ServiceDeclaration("orders")], 1, 1)
        admin = make_admin(kafka)
        known = read_catalog(kafka, admin)
        for _ in range(2):
            restarted = pool.submit(broker.restart)
            read = 0
            deadline = monotonic() + 60
            while not restarted.done() or not read:
                assert monotonic() < deadline, "the catalog is not read again"
                with contextlib.suppress(KafkaUnreachable):  # the one trouble there may be: the broker is away
                    known = read_catalog(kafka, admin, known)
                    read += restarted.done()
            restarted.result()
        assert known.partitions("orders") == 1
