"""Three Kafka nodes, each broker and controller, on 127.0.0.1; every listener but one is reached through the proxy."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from conversations_ops.broker import BrokerError
from conversations_ops.broker.class_archive import broker_classes
from conversations_ops.broker.data import new_cluster_id
from conversations_ops.broker.jars import ensure_jars
from conversations_ops.broker.java import find_java
from conversations_ops.broker.process import ServerProcess
from conversations_ops.broker.server import HOST, SETTINGS, jvm
from conversations_ops.broker.sockets import accepts
from tests.chaos.cluster.proxy import Route
from tests.support.ports import KeptPorts

NODES = ("1", "2", "3")
START_TIMEOUT = 240.0
PAUSE = 0.1
QUICK = [
    "-Xmx192m", "-Xms96m", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.group=warn",
]  # fmt: skip
"""Three that live for minutes: small heaps, and code that is not made better than it needs to be."""
INTERNAL, CONTROLLER, CLIENT, DIRECT = "INTERNAL", "CONTROLLER", "CLIENT", "DIRECT"
"""Listeners: between brokers, between controllers, for clients, and, past the proxy, for whoever watches."""
PROXIED = (INTERNAL, CONTROLLER, CLIENT)
BOUND = (*PROXIED, DIRECT)
REPLICATED = {
    "controller.listener.names": CONTROLLER,
    "inter.broker.listener.name": INTERNAL,
    "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in (INTERNAL, CONTROLLER, CLIENT, DIRECT)),
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    # Elections and sessions shorter than most faults, longer than a busy machine's hiccups (milliseconds).
    "group.consumer.session.timeout.ms": "4000",
    "broker.session.timeout.ms": "6000",
    "controller.quorum.election.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "4000",
    "replica.lag.time.max.ms": "5000",
    "replica.socket.timeout.ms": "5000",
    "leader.imbalance.check.interval.seconds": "15",
    "log.retention.check.interval.ms": "10000",
    "log.cleaner.backoff.ms": "2000",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.io.threads": "3",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
}


@dataclass(frozen=True)
class Ports:
    """Where a node listens, and where the proxy listens for it."""

    bound: dict[str, int]
    advertised: dict[str, int]


class Nodes:
    """The three nodes; a block ends them all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True)
        self._kept = KeptPorts(len(NODES) * (len(PROXIED) + len(BOUND)))
        self._ports = _ports(self._kept.numbers)
        self._java, self._jars = find_java(), ensure_jars()
        self._classes = broker_classes(self._java, self._jars)
        self._running: dict[str, ServerProcess] = {}
        self._frozen: set[str] = set()
        self._down: set[str] = set()
        """Nodes that are meant to be."""
        self.counts: Counter[str] = Counter()

    names = NODES

    @property
    def bootstrap(self) -> str:
        """For clients, through the proxy."""
        return ",".join(f"{HOST}:{self._ports[node].advertised[CLIENT]}" for node in NODES)

    @property
    def direct(self) -> str:
        """For whoever watches."""
        return ",".join(f"{HOST}:{self._ports[node].bound[DIRECT]}" for node in NODES)

    def routes(self) -> Iterator[Route]:
        """What the proxy must pass on."""
        for node, ports in self._ports.items():
            for listener in (INTERNAL, CONTROLLER, CLIENT):
                yield Route(ports.advertised[listener], ports.bound[listener], node, listener != CLIENT)

    def port(self, node: str) -> int:
        """Of a node, past the proxy."""
        return self._ports[node].bound[DIRECT]

    def data(self, node: str) -> Path:
        """Where a node has its partitions."""
        return self._directory / f"node-{node}"

    def log(self, node: str) -> Path:
        """What a node says."""
        return self._directory / f"node-{node}.log"

    def start_all(self) -> None:
        """Format and start all, and wait until they are one cluster.

        Raises:
            BrokerError: they did not become one.
        """
        cluster = new_cluster_id()
        for node in NODES:
            self._properties(node).write_text(self._settings(node), encoding="utf-8")
        with ThreadPoolExecutor(len(NODES)) as pool:
            list(pool.map(lambda node: self._format(node, cluster), NODES))
        for node in NODES:
            self.start(node)
        self.await_all(START_TIMEOUT)

    def await_all(self, patience: float) -> None:
        """Wait until every node serves, and knows all others.

        Raises:
            BrokerError: not within ``patience`` seconds.
        """
        deadline = monotonic() + patience
        left = list(NODES)
        while left := [node for node in left if not self.serves(node)]:
            self.tend()
            if monotonic() > deadline:
                raise BrokerError("\n".join(f"node {node} does not serve:\n{self._errors(node)}" for node in left))
            Event().wait(PAUSE)

    def _errors(self, node: str) -> str:
        lines = self.log(node).read_text(encoding="utf-8").splitlines()
        return "\n".join([line for line in lines if "ERROR" in line or "Exception" in line][-20:])

    def serves(self, node: str) -> bool:
        """Whether a node answers, and knows all three."""
        port = self._ports[node].bound[DIRECT]
        if not accepts(port):
            return False
        client = AdminClient({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})
        try:
            return len(client.list_topics(timeout=3).brokers) == len(NODES)
        except KafkaException:
            return False

    def start(self, node: str) -> None:
        """Start a node; harmless when it runs."""
        self._down.discard(node)
        if node not in self._running:
            command = [*self._jvm(), "kafka.Kafka", str(self._properties(node))]
            self._running[node] = ServerProcess(command, self.log(node), None)

    def _jvm(self) -> list[str]:
        return jvm(self._java, self._jars, [*QUICK, *self._classes.reading()])

    def kill(self, node: str) -> None:
        """SIGKILL it."""
        self._down.add(node)
        self._frozen.discard(node)
        if process := self._running.pop(node, None):
            process.kill()

    def stop(self, node: str) -> None:
        """Stop it in order, which takes a while."""
        self._down.add(node)
        if process := self._running.pop(node, None):
            process.stop()

    def freeze(self, node: str) -> None:
        """SIGSTOP it."""
        if process := self._running.get(node):
            self._frozen.add(node)
            os.killpg(process.pid, signal.SIGSTOP)

    def thaw(self, node: str) -> None:
        """SIGCONT it; harmless when it was not stopped."""
        if node in self._frozen and (process := self._running.get(node)):
            self._frozen.discard(node)
            os.killpg(process.pid, signal.SIGCONT)

    def tend(self) -> None:
        """Start again what ended without being asked to."""
        for node in NODES:
            process = self._running.get(node)
            if process is not None and process.exit_code is not None:
                self._running.pop(node).kill()
                self.counts["brokers that ended by themselves"] += 1
                self.start(node)

    def close(self) -> None:
        """End them all."""
        for node in NODES:
            self.kill(node)
        self._kept.close()

    def _properties(self, node: str) -> Path:
        return self._directory / f"node-{node}.properties"

    def _settings(self, node: str) -> str:
        ports = self._ports[node]
        voters = ",".join(f"{name}@{HOST}:{its.advertised[CONTROLLER]}" for name, its in self._ports.items())
        own = {
            "node.id": node,
            "listeners": _addresses(ports.bound),
            "advertised.listeners": _addresses(ports.bound | ports.advertised),
            "controller.quorum.voters": voters,
            "log.dirs": str(self.data(node)),
        }
        return "".join(f"{name}={value}\n" for name, value in (SETTINGS | REPLICATED | own).items())

    def _format(self, node: str, cluster: str) -> None:
        command = [
            *self._jvm(), "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}",
            "-c", str(self._properties(node)),
        ]  # fmt: skip
        with self.log(node).open("ab") as output:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
        if done.returncode != 0:
            raise BrokerError(f"node {node} cannot be formatted, see {self.log(node)}")


def _ports(numbers: Iterable[int]) -> dict[str, Ports]:
    found = iter(numbers)
    return {
        node: Ports({name: next(found) for name in BOUND}, {name: next(found) for name in PROXIED}) for node in NODES
    }


def _addresses(ports: dict[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
