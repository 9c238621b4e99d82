"""A leader that is cut off from its cluster, and goes on answering its clients, on three brokers behind a proxy of our own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from conversations import Client, Kafka
from conversations.errors import LogError
from conversations.kafka.admin import apply
from conversations.protocol.topics import QUEUE, service_topic
from tests.acceptance.services import counting
from tests.acceptance.support.command_line import Running
from tests.chaos.cluster.nodes import NODES, Nodes
from tests.chaos.cluster.proxy import Effect, Proxy, Trouble
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(480)]

LENGTH = 5


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with closing(Nodes(tmp_path / "nodes")) as made:
        yield made


def make_topics(kafka: Kafka) -> None:
    """A cluster that has just begun may need to be asked twice."""

    def made() -> bool:
        try:
            apply(kafka, [counting.source.declaration(), counting.sink.declaration()], 1, len(NODES))
        except (LogError, KafkaException):
            return False
        return True

    until(made, "the topics are made", 120, pause=1)


def leader(nodes: Nodes, topic: str) -> str:
    """Which node leads the only partition of a topic."""
    metadata = AdminClient({"bootstrap.servers": nodes.direct}).list_topics(topic, timeout=20)
    return str(metadata.topics[topic].partitions[0].leader)


def totals(out: Path) -> set[str]:
    path = out / "totals"
    return {line.split(" ")[0] for line in path.read_text().splitlines()} if path.exists() else set()


def test_a_worker_leaves_a_leader_that_is_cut_off_and_ends_when_it_is_told_to(nodes: Nodes, tmp_path: Path) -> None:
    """It goes on with the leader that the others chose, while the old one still answers; the supervisor need not kill it."""
    with Proxy(nodes.routes()) as proxy:
        nodes.start_all()
        kafka = Kafka(nodes.bootstrap, namespace="cut")
        make_topics(kafka)
        with (
            Running(kafka, tmp_path, "counting:source", "counting:sink") as run,
            Client(counting.source, kafka) as client,
        ):
            until(run.is_well, "both services work", 120)

            def counted(dialogs: int) -> None:
                ids = set()
                for _ in range(dialogs):
                    with client.begin_dialog("sink", counting.COUNTING) as dialog:
                        for n in range(LENGTH):
                            dialog.send(counting.Number(n=n, of=LENGTH))
                    ids.add(dialog.id)
                until(lambda: totals(tmp_path) >= ids, "every dialog is counted to its end", 150)

            counted(2)
            pids = {worker["pid"] for service in run.health()[1]["services"] for worker in service["workers"]}
            cut = leader(nodes, service_topic(kafka.namespace, "sink", QUEUE))
            others = [node for node in NODES if node != cut]
            proxy.begin(Trouble(frozenset({way for node in others for way in ((cut, node), (node, cut))}), Effect.LOST))
            counted(2)
            assert {w["pid"] for s in run.health()[1]["services"] for w in s["workers"]} == pids
            run.tell(signal.SIGTERM)
            assert run.ended(60)[0] == 0, run.log.read_text()
    disorder = tmp_path / "disorder"
    assert not disorder.exists()
