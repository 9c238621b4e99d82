"""Every alert is fired by its cause: a real Prometheus reads real supervisors on a real Kafka, with the rules of the repository."""

import json
import os
import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer

from conversations import Client, Kafka
from conversations.kafka.admin import add_route, apply
from conversations.protocol.envelope import (
    Envelope,
    Extras,
    Kind,
    Prefix,
    Seal,
    encode,
)
from conversations.protocol.integrity import CRC
from conversations.protocol.routes import Cluster
from conversations.protocol.topics import COMMANDS, QUEUE, partition_of, service_topic
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.host.health import served
from conversations_ops.metrics.exposition import CONTENT_TYPE, exposition
from conversations_ops.metrics.services import of_services
from conversations_ops.read_model.file import File, path_of
from conversations_ops.read_model.projector import current
from conversations_ops.read_model.status import statuses
from conversations_ops.why.unowned import unowned_partitions
from tests.acceptance.services import counting, feeding
from tests.acceptance.services.fragile import SUMS, Entry, asker, fragile
from tests.acceptance.support.command_line import ROOT, Running
from tests.acceptance.support.forwarding import Forwarding
from tests.acceptance.support.operator import Terminal
from tests.acceptance.support.prometheus import ALERTS, Prometheus, prometheus
from tests.integration.support.plain_topics import create_topic, delete_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]
WHY = ("--reason", "INC-4711")
FEW = (
    "--setting",
    "brake.dialogs=5",
    "--setting",
    "limits.parked_bytes=6kB",
    "--setting",
    "periods.topics_looked_at=2s",
)
NOT_RUN = ("conversations run", "curl")
"""Commands of runbooks that do not end, or that ask the machine of the reader."""


class Night(Terminal):
    """Everything that runs in the night of the test."""

    def __init__(self, kafka: Kafka, out: Path, client: Client) -> None:
        super().__init__(kafka, out)
        self.client = client

    def begin(self, *entries: str, to: str = "fragile", lifetime: timedelta = timedelta(hours=5)) -> str:
        """Begin a dialog; the service may be one that the catalog does not name."""
        with self.client.begin_dialog(to, SUMS, lifetime=lifetime, wait_for_service=True) as dialog:
            for entry in entries:
                dialog.send(Entry(text=entry))
        return dialog.id

    def catch_up(self) -> None:
        """Bring the read model up to date, as the web console does all the time."""
        with current(self.kafka, lambda done, total: None, self.out / "model"):
            pass

    def page(self) -> tuple[int, str, bytes]:
        """Return the metrics of the read model, as the web console serves them."""
        with File(path_of(self.kafka, self.out / "model")) as file:
            unowned = unowned_partitions(self.kafka, file, statuses(file))
            return 200, CONTENT_TYPE, exposition(of_services(file, unowned))


@contextmanager
def console(night: Night) -> Iterator[str]:
    """Serve the metrics of the read model; yield the address."""
    night.catch_up()
    with served("127.0.0.1", 0, list, metrics=night.page) as address:
        yield urlsplit(address).netloc


def target(run: Running) -> str:
    return urlsplit(str(run.told["health"])).netloc


def test_every_alert_is_fired_by_its_cause_and_every_panel_has_data(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with EmbeddedBroker() as broker, EmbeddedBroker() as emea:
        kafka = Kafka(broker.bootstrap)
        others = [
            asker.declaration(),
            counting.sink.declaration(),
            feeding.web.declaration(),
            feeding.stock.declaration(),
        ]
        apply(kafka, [fragile.declaration(), *others], 2, 1)
        create_topic(kafka, feeding.ORDERED)
        joined(kafka, Kafka(emea.bootstrap))
        with (
            Client(asker, kafka) as client,
            Running(kafka, tmp_path, "fragile:fragile", "--workers", "2", "--slot", "f", *FEW) as fragiles,
            Running(kafka, tmp_path, "fragile:asker", "counting:sink", "feeding:web", "--slot", "o", *FEW) as more,
            Forwarding(kafka, "emea", tmp_path) as forwarder,
        ):
            fragiles.ready()
            more.ready()
            night = Night(kafka, tmp_path, client)
            with console(night) as page:
                jobs = {
                    "conversations": [target(fragiles), target(more)],
                    "conversations-console": [page],
                    "conversations-forwarders": [forwarder.target()],
                }
                with prometheus(tmp_path, jobs) as watch:
                    until(lambda: len(watch.query("up == 1")) == 4, "Prometheus reads all pages")
                    assert watch.firing().keys() <= {"ConversationsReadModelBehind"}, "nothing is wrong yet"
                    what_waits(night, watch)
                    panels_have_data(watch)
                    runbooks_run(night)
                    forged(night, watch)
                    where_nothing_goes_on(night, watch)
                    another_cluster(night, watch, emea)
                    who_is_gone(watch, fragiles)
                    commits_that_fail(night, watch)
                    fragiles.tell(signal.SIGTERM)
                    fragiles.ended()
                    watch.fires("SupervisorGone", "")
                    watch.fires("ServiceWithoutWorker", "fragile")
                    night.begin("1")
                    watch.fires("RecordsWithoutOwner", "fragile")
                    assert set(re.findall(r"- alert: (\w+)", ALERTS.read_text())) - watch.fired == set()


def what_waits(night: Night, watch: Prometheus) -> None:
    """Messages fail, a peer does not exist, a lifetime ends, the read model is not kept, the topic of a feed is deleted."""
    delete_topic(night.kafka, feeding.ORDERED)
    night.begin("1", "one", "10")
    watch.fires("MessagesHeld", "fragile")
    watch.fires("DeadLettersArrive", "fragile")
    watch.fires("OldestWaitTooLong", "fragile")
    night.begin("1", to="nobody")
    watch.fires("DestinationDelayed", "asker")
    night.begin("1", to="nobody", lifetime=timedelta(seconds=2))
    watch.fires("DialogsBroken", "asker")
    watch.fires("ReadModelBehind", "fragile")
    watch.fires("FeedInTrouble", "web")
    night.catch_up()
    held = 'conversations_service_held_messages{service="fragile"} == 1'
    until(lambda: watch.query(held), "the read model has the held message, as the worker has")
    until(lambda: watch.query('sum(conversations_partition_held_messages{service="fragile"}) == 1'))


def where_nothing_goes_on(night: Night, watch: Prometheus) -> None:
    """Everything of a peer fails, a queue is off, too many bytes wait for it, a queue is deleted."""
    for _ in range(10):  # so that one of the two workers has five of them
        night.begin("one")
    watch.fires("BrakeOn", "fragile")
    assert night("queue", "off", "fragile", *WHY)[0] == 0
    watch.fires("QueueOff", "fragile")

    def paused() -> bool:
        night.begin(*["1" * 500] * 20)
        return "fragile" in watch.firing().get("ConversationsQueuePaused", set())

    until(paused, "so much waits that the queue is not read")
    watch.fires("QueuePaused", "fragile")

    def grows() -> bool:
        night.begin(*["1"] * 20)
        return "fragile" in watch.firing().get("ConversationsLagGrows", set())

    until(grows, "the lag grows")
    watch.fires("LagGrows", "fragile")
    delete_topic(night.kafka, service_topic(night.kafka.namespace, "sink", COMMANDS))
    watch.fires("PartitionSetAside", "sink")


def joined(here: Kafka, there: Kafka) -> None:
    """Give the service "abroad" a cluster of its own, which does not have it yet."""
    apply(there, [counting.sink.declaration()], 2, 1)
    add_route(here, "abroad", Cluster("emea", there.bootstrap, there.namespace, 2), 1)
    add_route(there, "asker", Cluster("home", here.bootstrap, here.namespace, 2), 1)


def forged(night: Night, watch: Prometheus) -> None:
    """A record was damaged on the way, and another one was sealed by nobody who may."""
    key = str(uuid4())
    prefix = Prefix(UUID(key).bytes, True, SUMS.name, "asker", "fragile", key, False, 1, -1)
    value = encode(Envelope(prefix, Kind.MESSAGE, 0, -1, extras=Extras(seal=Seal("key", b"n", b"t"))))
    producer = Producer({"bootstrap.servers": night.kafka.bootstrap})
    headers: Any
    for headers in (None, [(CRC, b"1234")]):
        producer.produce(
            service_topic(night.kafka.namespace, "fragile", QUEUE), value, key, partition_of(key.encode(), 2), headers=headers
        )  # fmt: skip
    producer.flush(30)
    watch.fires("RecordsNotAuthentic", "fragile")
    watch.fires("RecordsDamaged", "fragile")


def another_cluster(night: Night, watch: Prometheus, emea: EmbeddedBroker) -> None:
    """The other cluster does not have a service. Then its broker is killed, and more and more waits for it."""
    night.begin("1", to="abroad")
    watch.fires("ServiceNotThere", "")
    emea.kill()

    def waits() -> bool:
        night.begin("1", "2", "3", to="abroad")
        return "ConversationsForwarderBehind" in watch.firing()

    until(waits, "more and more waits for the other cluster")
    watch.fires("ForwarderBehind", "")
    watch.fires("ClusterAway", "")


def who_is_gone(watch: Prometheus, run: Running) -> None:
    """A worker process is killed, and the next one stands still before it joins. So its partition has no owner until Kafka misses it."""
    owners = {slot: worker["pid"] for slot, worker in run.workers().items() if worker["partitions"]}
    (slot, killed), (_, other) = owners.items()
    os.kill(killed, signal.SIGKILL)

    def following() -> int | None:
        pid: int | None = run.workers()[slot]["pid"]
        return pid if pid != killed else None

    next_one = until(following, "the next process starts")
    assert next_one is not None
    with standing_still(next_one):
        watch.fires("WorkerRestarts", "fragile")
        watch.fires("PartitionsWithoutOwner", "fragile")
    with standing_still(other):
        watch.fires("WorkerNotRunning", "fragile")


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """Let a process stand still during the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def commits_that_fail(night: Night, watch: Prometheus) -> None:
    """The queue of a service is gone, so Kafka aborts each transaction with an offset of it."""
    delete_topic(night.kafka, service_topic(night.kafka.namespace, "asker", QUEUE))
    night.begin("1")
    watch.fires("CommitsFail", "asker")


# -- dashboards and runbooks -----------------------------------------------------------------------------------------------


def panels_have_data(watch: Prometheus) -> None:
    """Every query of every dashboard has a result, for all services and for one of them."""
    boards = sorted((ROOT / "ops" / "grafana").glob("*.json"))
    panels = [panel for board in boards for panel in json.loads(board.read_text())["panels"] if panel["type"] != "row"]
    assert len(panels) > 45
    for panel in panels:
        for found in panel["targets"]:
            for service in (".*", "fragile"):
                asked = found["expr"].replace("$service", service).replace("$__rate_interval", "1m")
                assert "$" not in asked
                until(lambda asked=asked: watch.query(asked), f"{panel['title']} has data: {asked}", seconds=20)  # type: ignore[misc]


def runbooks_run(night: Night) -> None:
    """Every command of every runbook does what it should, with the names of this night. A command of several runbooks runs once."""
    letter = until(night.letters, "a letter is held")[0]
    names = {
        "SERVICE": "fragile", "LETTER": letter["letter"], "DIALOG": letter["conversation"], "shop.orders:service": "fragile:asker",
        "shop.billing:service": "fragile:fragile", "plan.json": str(night.out / "plan.json"), "3": "1",
    }  # fmt: skip
    for line in lines_of_runbooks():
        program, *arguments = [names.get(word, word) for word in shlex.split(line)]
        assert program == "conversations"
        code, told = night(*arguments)
        assert code in {0, 1}, f"{line}: {told}"
        assert "error" not in told, f"{line}: {told}"
    assert night.letters()[0]["letter"] == letter["letter"], "a message that was tried again has failed again"


def lines_of_runbooks() -> list[str]:
    texts = [path.read_text() for path in sorted((ROOT / "ops" / "runbooks").glob("*.md"))]
    blocks = [block for text in texts for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    lines = dict.fromkeys(line for block in blocks for line in block.splitlines())
    return [line for line in lines if not line.startswith(NOT_RUN)]
