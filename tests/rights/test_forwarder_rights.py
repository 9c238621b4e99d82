"""The rights that ``conversations acl`` prints for a forwarder, on a Kafka that checks rights: enough on both clusters, and each one needed.

One broker plays both clusters: each has its own namespace.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time_ns
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from conversations import Kafka
from conversations.errors import LogError
from conversations.kafka.admin import add_route, apply
from conversations.kafka.catalog import read_catalog
from conversations.kafka.forwarder import Forwarder
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.envelope import Envelope, Kind, Prefix, encode
from conversations.protocol.identifiers import uuid7
from conversations.protocol.routes import Cluster
from conversations.protocol.topics import catalog_topic, events_topic, transmission_topic
from conversations_ops.operate.events import told
from conversations_ops.operate.rights import Right as Printed
from conversations_ops.operate.rights import rights_of, rights_to
from conversations_ops.read_model.file import File
from conversations_ops.why.routes import routes_of
from tests.rights.support.authorizing_kafka import GuardedBroker, Right
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400)]
USER = "stranger"
CREDIT, LOANS = ServiceDeclaration("credit"), ServiceDeclaration("loans")


def as_rights(printed: Iterable[Printed]) -> list[Right]:
    return [
        (it.operation, it.resource.upper().replace("-", "_"), it.name + ("*" if it.pattern == "PREFIXED" else ""))
        for it in dict.fromkeys(printed)
    ]


class Two:
    """Two clusters, and one user who has no right at first."""

    def __init__(self, broker: GuardedBroker) -> None:
        self.broker, name = broker, uuid4().hex[:8]
        self.here, self.there = (Kafka(broker.bootstrap, namespace=f"{where}{name}") for where in "ht")
        apply(self.here, [LOANS], 1, 1)
        apply(self.there, [CREDIT], 1, 1)
        add_route(self.here, "credit", Cluster("emea", broker.bootstrap, self.there.namespace, 1), 1)
        add_route(self.there, "loans", Cluster("home", broker.bootstrap, self.here.namespace, 1), 1)
        self._producer = Producer({"bootstrap.servers": broker.bootstrap})

    def rights(self) -> list[Right]:
        """Return the printed rights on both clusters."""
        here, there = self.here.namespace, self.there.namespace
        found = [
            *rights_of("forwarder", here, LOANS), *rights_to("forwarder", here, ["emea"]), *rights_of("forwarder-there", there, CREDIT)
        ]  # fmt: skip
        return as_rights(found)

    def transmit(self) -> None:
        """Write an envelope for the other cluster, as a worker does."""
        now = time_ns() // 1_000
        prefix = Prefix(uuid7(now, 1).bytes, True, "Checks", "loans", "credit", "key", False, now, -1)
        envelope = Envelope(prefix, Kind.MESSAGE, 0, -1, sent_at=now, message_type="Check", body=b"{}")
        self._producer.produce(transmission_topic(self.here.namespace, "emea"), encode(envelope), b"key", 0)
        assert self._producer.flush(30) == 0

    def carry(self) -> None:
        """Let a forwarder with the rights of the user carry one envelope.

        Raises:
            LogError: it does not carry, or it reports nothing.
        """
        here = self.broker.secured(USER, self.here.namespace)
        emea = read_catalog(here).clusters["emea"]  # as `conversations forward` does
        forwarder = Forwarder(here, emea, self.broker.secured(USER, self.there.namespace))
        before = len(events(self.here))
        with running(forwarder):
            self.transmit()
            until(
                lambda: (
                    forwarder.carried.envelopes or forwarder.trouble or "NOT_FORWARDED" in events(self.here)[before:]
                ),
                "it carries, or says why it does not", 60, pause=0.2,
            )  # fmt: skip
            if not forwarder.carried.envelopes:
                raise LogError(forwarder.trouble or "a queue refuses what it carries")
        if len(events(self.here)) == before:
            raise LogError("it reports no events")


def events(kafka: Kafka) -> list[str]:
    return [it.name for part in told(kafka) for it in part]


@contextmanager
def running(forwarder: Forwarder) -> Iterator[None]:
    thread = threading.Thread(target=forwarder.run)
    thread.start()
    try:
        yield
    finally:
        forwarder.stop()
        thread.join()


def test_the_printed_rights_of_a_forwarder_are_enough_and_each_is_needed(guarded_broker: GuardedBroker) -> None:
    two = Two(guarded_broker)
    rights = two.rights()
    assert len(rights) == 9
    assert ("WRITE", "TOPIC", events_topic(two.here.namespace)) in rights
    guarded_broker.grant(USER, rights)
    two.carry()
    for right in rights:
        guarded_broker.take_away(USER, [right])
        try:
            two.carry()
        except LogError:
            pass
        else:
            pytest.fail(f"a forwarder works without {right}")
        guarded_broker.grant(USER, [right])
    two.carry()
    guarded_broker.take_away(USER, rights)


def test_an_operator_of_both_clusters_needs_its_rights(guarded_broker: GuardedBroker, tmp_path: Path) -> None:
    """Without READ on a topic, nobody knows what is not carried; without the group, nobody knows whether a forwarder runs."""
    two = Two(guarded_broker)
    two.transmit()
    here, there = (guarded_broker.secured(USER, it.namespace) for it in (two.here, two.there))
    catalogs: list[Right] = [("READ", "TOPIC", catalog_topic(it.namespace)) for it in (here, there)]
    rights = as_rights(
        [*rights_to("operator", here.namespace, ["emea"]), *rights_to("operator", there.namespace, ["home"])]
    )
    assert len(rights) == 6

    def look() -> list[int | None]:
        found = []
        with File(tmp_path / "model.sqlite") as file:
            for kafka, other in ((here, there), (there, here)):
                (route,) = routes_of(kafka, file, lambda _name, _peers, other=other: other, time_ns() // 1_000)  # type: ignore[misc]
                found.append(route.not_carried)
        return found

    guarded_broker.grant(USER, [*catalogs, *rights])
    assert look() == [1, 0]
    for right in rights:
        guarded_broker.take_away(USER, [right])
        if right[1] == "GROUP":
            with pytest.raises(LogError, match="cannot be described"):
                look()
        else:
            assert (right, None in look()) == (right, True)
        guarded_broker.grant(USER, [right])
    assert look() == [1, 0]
    guarded_broker.take_away(USER, [*catalogs, *rights])
