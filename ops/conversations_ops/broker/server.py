"""The Kafka server's settings and command lines: one KRaft node for one developer, on 127.0.0.1 only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conversations_ops.broker.java import Java

KAFKA_VERSION = "4.3.1"  # of the jars in jars.lock
HOST = "127.0.0.1"
HEAP = "-Xmx512m"  # enough for the broker of one developer on a laptop
JVM_OPTIONS = [
    HEAP,
    "-Xms128m",
    "-XX:+UseSerialGC",  # with a small heap and few cores, the JVM starts faster and uses less memory
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Dlog4j2.StatusLogger.level=OFF",  # log4j-core is on the class path, but slf4j-simple does the logging
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.group=info",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.controller.ClusterControlManager=info",  # last_run.py reads its lines
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
    # The group notices a killed member after 3 s, so failover can be watched and tested. All times are in milliseconds.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    # The transaction of a killed producer is aborted soon after its transaction timeout.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # After a SIGKILL, the controller accepts the restarted broker only when the broker's old session has expired.
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
CONTROLLER_ALONE = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    # No broker runs. So the controller may notice soon that the last one is gone.
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "500",
}
"""Settings of the server while it only notes that the last run of its broker has ended; see ``last_run``."""


@dataclass(frozen=True)
class Layout:
    """Paths of a broker's files below its data directory."""

    data: Path

    @property
    def logs(self) -> Path:
        """Kafka's own directory: topics and metadata."""
        return self.data / "kafka"

    @property
    def properties(self) -> Path:
        """The settings of the server's last start."""
        return self.data / "server.properties"

    @property
    def log(self) -> Path:
        """The server's log, if the data directory is kept."""
        return self.data / "broker.log"

    @property
    def lock(self) -> Path:
        """File that is locked as long as a server works on the directory."""
        return self.data / "server.lock"

    @property
    def marker(self) -> Path:
        """File that marks the directory as made by this program. It has the version of Kafka that formatted the directory."""
        return self.data / "kafka-dialogs.json"


def render(layout: Layout, port: int, controller_port: int, further: Mapping[str, str] | None = None) -> str:
    """Return the text of server.properties. The settings in ``further`` override all other settings.

    The address of the quorum voter is only in this file, not in the data. So a later start may use other ports.
    """
    own = {
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
    }
    return _lines(SETTINGS | own | _places(layout, controller_port) | dict(further or {}))


def render_controller(layout: Layout, controller_port: int) -> str:
    """Return the text of server.properties for a start of the controller without its broker."""
    listeners = {"listeners": f"CONTROLLER://{HOST}:{controller_port}"}
    return _lines(CONTROLLER_ALONE | listeners | _places(layout, controller_port))


def _places(layout: Layout, controller_port: int) -> dict[str, str]:
    return {
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": str(layout.logs).replace("\\", "\\\\"),
    }


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def format_command(jvm: Sequence[str], layout: Layout, cluster_id: str) -> list[str]:
    """Return the command that formats an empty data directory. ``jvm`` is the beginning of the command line."""
    settings = str(layout.properties)
    return [*jvm, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", settings]


def run_command(jvm: Sequence[str], layout: Layout) -> list[str]:
    """Return the command that runs the server in the foreground. ``jvm`` is the beginning of the command line."""
    return [*jvm, "kafka.Kafka", str(layout.properties)]


def jvm(java: Java, jars: Sequence[Path], options: Sequence[str] = ()) -> list[str]:
    """Return the beginning of every command line: Java, its options and the class path."""
    return [str(java.path), *JVM_OPTIONS, *options, "-cp", os.pathsep.join(map(str, jars))]
