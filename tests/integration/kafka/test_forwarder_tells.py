"""What a forwarder tells while it works, while the other cluster is away, and at its end; and its connections."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from conversations import Client, Kafka
from conversations.kafka import forwarder as forwarding_module
from conversations.kafka import refusing_queues
from conversations.kafka.admin import add_route, apply
from conversations.kafka.clients import make_admin
from conversations.kafka.forwarder import Forwarder
from conversations.kafka.ownership import forwarded_partitions
from conversations.protocol.routes import Cluster
from conversations.protocol.topics import QUEUE, service_topic
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.operate.events import told
from tests.integration.kafka.test_forwarder import (
    Ask,
    Asker,
    _records,
    answerer,
    begin,
    forwarding,
    here,
    joined,
    working,
)
from tests.support.waiting import until

__all__ = ["here"]
pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(240)]
ESTABLISHED = "01"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def there(broker: EmbeddedBroker) -> Kafka:
    return Kafka(broker.bootstrap, namespace=f"t{uuid4().hex[:10]}")


def events(kafka: Kafka) -> list[tuple[str, dict[str, object]]]:
    """Return the events of forwarders, the oldest first."""
    names = ("FORWARDING_BEGAN", "FORWARDING_ENDED", "CLUSTER_AWAY", "CLUSTER_BACK", "NOT_FORWARDED")
    return [(it.name, dict(it.fields)) for part in told(kafka) for it in part if it.name in names]


def test_a_forwarder_tells_that_the_other_cluster_is_away_and_back(
    here: Kafka, there: Kafka, broker: EmbeddedBroker
) -> None:
    asker, _, emea, _ = joined(here, there, 0)
    forwarder = Forwarder(here, emea, there)
    with working((asker.service, here)), Client(asker.service, here) as client, forwarding(forwarder):
        begin(client, 1, 0)
        until(lambda: forwarder.carried.envelopes >= 2, "the envelopes are carried", 60)
        assert forwarder.carried.bytes > forwarder.carried.envelopes
        assert forwarder.report.condition.partitions == (0, 1, 2, 3)
        assert not forwarder.report.condition.away_since
        until(lambda: forwarder.report.condition.lag == 0, "everything is carried")
        broker.kill()
        begin(client, 1, 0)
        until(lambda: forwarder.report.condition.away_since, "the other cluster is away", 60)
        assert len(forwarded_partitions(here, "emea")) == 4, "a forwarder that cannot carry stays in its group"
        before = forwarder.carried.transactions
        broker.restart()
        until(lambda: not forwarder.report.condition.away_since, "the other cluster is back", 60)
        until(lambda: forwarder.carried.transactions > before, "the envelopes are carried", 60)
        assert forwarder.carried.failures > 0
    found = events(here)
    names = [name for name, _ in found]
    assert names[0] == "FORWARDING_BEGAN"
    assert names[-1] == "FORWARDING_ENDED"
    assert names.count("CLUSTER_AWAY") == names.count("CLUSTER_BACK") == 1, "an outage is told once"
    away, back = (dict(found)[name] for name in ("CLUSTER_AWAY", "CLUSTER_BACK"))
    assert away["cluster"] == back["cluster"] == "emea"
    assert away["why"]
    assert back["at"] > back["since"] > 0  # type: ignore[operator]


def test_a_forwarder_counts_what_waits_while_it_cannot_carry(here: Kafka, there: Kafka, broker: EmbeddedBroker) -> None:
    asker, _, emea, _ = joined(here, there, 0)
    forwarder = Forwarder(here, emea, there)
    with working((asker.service, here)), Client(asker.service, here) as client, forwarding(forwarder):
        begin(client, 1, 0)
        until(lambda: forwarder.carried.envelopes >= 2 and forwarder.report.condition.lag == 0, "all is carried", 60)
        broker.kill()
        begin(client, 20, 0)
        until(lambda: forwarder.report.condition.lag >= 20, "what waits is counted", 60)
        broker.restart()
        until(lambda: forwarder.report.condition.lag == 0, "all is carried again", 60)


def test_a_forwarder_follows_a_corrected_address(here: Kafka, there: Kafka) -> None:
    asker, _, emea, _ = joined(here, there, 0)
    wrong = emea._replace(bootstrap="127.0.0.1:1")
    add_route(here, "answerer", wrong, 1)
    forwarder = Forwarder(here, wrong, replace(there, bootstrap=wrong.bootstrap))
    with working((asker.service, here)), Client(asker.service, here) as client, forwarding(forwarder):
        begin(client, 1, 0)
        until(lambda: forwarder.trouble, "the address is wrong", 60)
        add_route(here, "answerer", emea, 1)
        until(lambda: forwarder.carried.envelopes >= 2, "the envelopes are carried to the right one", 90)


def test_a_cluster_without_a_topic_of_positions_is_told_with_the_remedy(here: Kafka, there: Kafka) -> None:
    asker, target = Asker(), answerer(0)
    apply(here, [asker.service.declaration()], 1, 1)
    apply(there, [target.declaration()], 1, 1)
    emea = Cluster("emea", there.bootstrap, there.namespace, 1)
    add_route(here, "answerer", emea, 1)
    forwarder = Forwarder(here, emea, there)
    with forwarding(forwarder):
        told = until(lambda: forwarder.trouble, "it says what is missing", 60)
        assert (
            told
            == f"cluster emea has no topic '{there.namespace}.forwarded': add a route for the answers with 'conversations route add' there"
        )
        add_route(there, "asker", Cluster("home", here.bootstrap, here.namespace, 1), 1)
        until(lambda: not forwarder.trouble, "it goes on by itself", 60)


def connections(port: int) -> set[str]:
    """Return the own addresses of the connections that this process has to a port of this machine."""
    mine = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            mine.add(str(entry.readlink()))
        except OSError:
            continue  # it was the directory itself, or was closed meanwhile
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {
        it[1] for it in lines if it[2].endswith(f":{port:04X}") and it[3] == ESTABLISHED and f"socket:[{it[9]}]" in mine
    }


def test_idle_connections_are_closed_and_a_forwarder_goes_on(
    here: Kafka, there: Kafka, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's client opens some of them again at once. So no connection is idle for long, and none dies without a word."""
    monkeypatch.setattr(forwarding_module, "IDLE_CONNECTION", 1_000)
    asker, _, emea, _ = joined(here, there, 0)
    forwarder = Forwarder(here, emea, there)
    with working((asker.service, here)), Client(asker.service, here) as client, forwarding(forwarder):
        for _ in range(2):
            carried = forwarder.carried.envelopes
            begin(client, 1, 0)
            until(lambda carried=carried: forwarder.carried.envelopes > carried, "the envelopes are carried", 60)  # type: ignore[misc]
            before = connections(broker.port)
            assert before
            until(lambda before=before: not before & connections(broker.port), "the connections are closed", 60)  # type: ignore[misc]
        assert forwarder.carried.failures == 0
    assert _records(there, "answerer") >= 2


def test_a_cluster_that_is_rebuilt_empty_gets_what_the_transmission_topic_has(
    here: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its service has the open dialogs again, and they go on. What it says again is dropped.

    That its queue has refused records before, for example because the cluster came back without any topic, is forgotten.
    """
    monkeypatch.setattr(refusing_queues, "AGAIN_AFTER", 3_600.0)
    namespace = f"t{uuid4().hex[:10]}"
    with EmbeddedBroker() as broker:
        there, port = Kafka(broker.bootstrap, namespace=namespace), broker.port
        asker, service, emea, home = joined(here, there, 99)
        forwarder = Forwarder(here, emea, there)
        with working((asker.service, here)), Client(asker.service, here) as client, forwarding(forwarder):
            with working((service, there)), forwarding(Forwarder(there, home, here)):
                (name,) = begin(client, 1, 4)
                until(lambda: len(asker.answers.get(name, ())) == 5, "all is answered", 60)
            queue, admin = service_topic(namespace, "answerer", QUEUE), make_admin(there)
            admin.delete_topics([queue])[queue].result()
            with client.dialog(name) as dialog:
                dialog.send(Ask(n=5))
            until(lambda: forwarder.carried.unknown, "the queue is missing, and what is for it is left out", 120)
            broker.stop()
            with EmbeddedBroker(port=port):
                apply(there, [service.declaration()], 2, 1)
                add_route(there, "asker", home, 1)
                with working((service, there)), forwarding(Forwarder(there, home, here)):
                    with client.dialog(name) as dialog:
                        dialog.send(Ask(n=7))
                    until(lambda: len(asker.answers[name]) > 6, "the dialog goes on", 120)
    assert asker.answers == {name: [0, 1, 2, 3, 4, 5, 7]}
