"""The Kafka server's settings and command lines: one KRaft node for one developer, on 127.0.0.1 only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conversations_ops.broker.java import Java

KAFKA_VERSION = "4.3.1"  # of the jars in jars.lock
HOST = "127.0.0.1"
HEAP = "-Xmx512m"  # the most a laptop should give to a broker nobody else uses
JVM_OPTIONS = [
    HEAP,
    "-Xms128m",
    "-XX:+UseSerialGC",  # small heap, few cores: starts faster, uses less
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Dlog4j2.StatusLogger.level=OFF",  # log4j-core is on the class path, but slf4j-simple does the logging
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.group=info",
]
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # A killed member is missed after 3 s, so failover can be watched and tested (milliseconds everywhere).
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    # A killed producer's transaction is aborted soon after its own timeout.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # After SIGKILL the controller refuses the broker's return until the old session has run out.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "log.retention.check.interval.ms": "60000",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.cleaner.threads": "1",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
}


@dataclass(frozen=True)
class Layout:
    """Where a broker's files are below its data directory."""

    data: Path

    @property
    def logs(self) -> Path:
        """Kafka's own directory: topics and metadata."""
        return self.data / "kafka"

    @property
    def properties(self) -> Path:
        """The settings the server was last started with."""
        return self.data / "server.properties"

    @property
    def log(self) -> Path:
        """The server's log, when its data is kept."""
        return self.data / "broker.log"

    @property
    def marker(self) -> Path:
        """Says that the directory is ours and which Kafka formatted it."""
        return self.data / "kafka-dialogs.json"


def render(layout: Layout, port: int, controller_port: int, further: Mapping[str, str] | None = None) -> str:
    """Text of server.properties; ``further`` settings win over those for a laptop.

    A voter is named by address here, not in the data, so ports may change later.
    """
    own = {
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": str(layout.logs).replace("\\", "\\\\"),
    }
    return "".join(f"{key}={value}\n" for key, value in (SETTINGS | own | dict(further or {})).items())


def format_command(java: Java, jars: Sequence[Path], layout: Layout, cluster_id: str) -> list[str]:
    """Command that prepares an empty data directory."""
    settings = str(layout.properties)
    return [*jvm(java, jars), "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", settings]


def run_command(java: Java, jars: Sequence[Path], layout: Layout) -> list[str]:
    """Command that runs the server in the foreground."""
    return [*jvm(java, jars), "kafka.Kafka", str(layout.properties)]


def jvm(java: Java, jars: Sequence[Path]) -> list[str]:
    """Start of every command line: Java, its options, the class path."""
    return [str(java.path), *JVM_OPTIONS, "-cp", os.pathsep.join(map(str, jars))]
