"""MirrorMaker 2, from Maven at the version of the embedded broker, in a process of its own. It mirrors topics at least once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.unavailable import Unavailable
from conversations_ops.broker import BrokerError
from conversations_ops.broker.jars import Jar, ensure_jars, parse_lock
from conversations_ops.broker.java import find_java
from conversations_ops.broker.process import ServerProcess

LOCK = Path(__file__).resolve().parent / "jars.lock"
MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
JVM_OPTIONS = ("-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-XX:+ExitOnOutOfMemoryError")
SETTINGS = """
clusters = home, away
home.bootstrap.servers = {here}
away.bootstrap.servers = {there}
home->away.enabled = true
home->away.topics = {topic}
away->home.enabled = false
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
tasks.max = 4
replication.factor = 1
offset-syncs.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
config.storage.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
sync.topic.configs.enabled = false
sync.topic.acls.enabled = false
"""
"""Everything else is MirrorMaker's default. The mirrored topic has its own name, and is created before."""


def jars() -> tuple[Jar, ...]:
    """Return the locked jars."""
    return parse_lock(LOCK.read_text(encoding="utf-8"))


@contextmanager
def mirroring(here: str, there: str, topic: str, directory: Path) -> Iterator[ServerProcess]:
    """Mirror one topic from a cluster to another one until the block is left.

    Raises:
        Unavailable: there is no Java, or the jars cannot be fetched.
    """
    try:
        java, paths = find_java().path, ensure_jars(jars(), what="MirrorMaker 2")
    except BrokerError as error:
        raise Unavailable(f"MirrorMaker 2: {error}") from error
    settings = directory / f"{topic}.properties"
    settings.write_text(SETTINGS.format(here=here, there=there, topic=topic), encoding="utf-8")
    path = os.pathsep.join(map(str, paths))
    process = ServerProcess(
        [str(java), *JVM_OPTIONS, "-cp", path, MAIN, str(settings)], directory / f"{topic}.log", None
    )
    try:
        yield process
    finally:
        process.kill()
