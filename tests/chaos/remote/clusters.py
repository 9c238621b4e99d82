"""The two Kafkas of a run: each has a listener for its own processes, and one whose address is the network between the clusters."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from conversations.config import Kafka
from conversations.kafka.admin import add_route, apply
from conversations.protocol.routes import Cluster
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.broker.server import HOST
from tests.chaos.remote.services import LEFT, RIGHT, left_1, right_1
from tests.support.ports import KeptPorts

HOME, EMEA = "home", "emea"
OTHER = {HOME: EMEA, EMEA: HOME}
SERVICES = {HOME: LEFT, EMEA: RIGHT}
FAR = "FAR"
"""The listener for forwarders of the other cluster."""
PATIENCE = 60.0
TRANSMISSION = 4

log = logging.getLogger("conversations.chaos")


class Side:
    """One cluster: a broker that may be killed, and starts again with its data."""

    def __init__(self, name: str, directory: Path) -> None:
        self.ports = KeptPorts(4)
        near, self.far, controller, self.proxied = self.ports.numbers
        self.name = name
        self.broker = EmbeddedBroker(directory / f"kafka-{name}", near, settings={
            "listeners": f"PLAINTEXT://{HOST}:{near},{FAR}://{HOST}:{self.far},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{near},{FAR}://{HOST}:{self.proxied}",
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,{FAR}:PLAINTEXT",
            "controller.quorum.voters": f"1@{HOST}:{controller}",
        })  # fmt: skip
        self._killing: threading.Thread | None = None
        self.failure: BaseException | None = None

    def kafka(self, namespace: str) -> Kafka:
        """How its own processes reach it."""
        return Kafka(self.broker.bootstrap, namespace=namespace)

    def cluster(self, namespace: str) -> Cluster:
        """How the other cluster names it: its address is in the network between the clusters."""
        return Cluster(self.name, f"{HOST}:{self.proxied}", namespace, TRANSMISSION)

    @property
    def is_up(self) -> bool:
        """True if nobody has killed the broker, or it has started again."""
        return self._killing is None or not self._killing.is_alive()

    def kill(self) -> None:
        """SIGKILL the broker, and start it again, in a thread."""
        self._killing = threading.Thread(target=self._kill, name=f"killing {self.name}", daemon=True)
        self._killing.start()

    def settle(self) -> None:
        """Wait until the broker has started again."""
        if self._killing is not None:
            self._killing.join(2 * PATIENCE)

    def _kill(self) -> None:
        try:
            self.broker.kill()
            log.warning("%s %s: the broker is killed", time.strftime("%T"), self.name)
            self.broker.restart()
            log.warning("%s %s: the broker has started again", time.strftime("%T"), self.name)
        except BaseException as error:  # noqa: BLE001 - carried to the thread that looks
            self.failure = error


@contextlib.contextmanager
def running(directory: Path) -> Iterator[dict[str, Side]]:
    """Start both clusters, and end them after the block."""
    sides = {name: Side(name, directory) for name in (HOME, EMEA)}
    with contextlib.ExitStack() as stack:
        for side in sides.values():
            stack.enter_context(side.ports)
            stack.enter_context(side.broker)
            stack.callback(side.settle)
        yield sides


def reroute(sides: dict[str, Side], namespace: str) -> None:
    """Let the routes go past the network between the clusters, which has ended."""
    for name, side in sides.items():
        other = sides[OTHER[name]]
        direct = other.cluster(namespace)._replace(bootstrap=other.broker.bootstrap)
        add_route(side.kafka(namespace), SERVICES[other.name], direct, 1)


def prepare(sides: dict[str, Side], namespace: str, notes: str, partitions: int) -> None:
    """Make the topics and the routes of both clusters."""
    declarations = {HOME: left_1().declaration(), EMEA: right_1().declaration()}
    for name, side in sides.items():
        kafka = side.kafka(namespace)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 2})
        for future in admin.create_topics([NewTopic(notes, partitions, 1)]).values():
            future.result(PATIENCE)
        apply(kafka, [declarations[name]], partitions, 1)
        other = OTHER[name]
        add_route(kafka, SERVICES[other], sides[other].cluster(namespace), 1)
