"""Kafka's own command line tools, as their scripts start them, from the jar that has them and the jars of the embedded broker."""

import shlex
from pathlib import Path

from conversations_ops.broker.jars import Jar, broker_jars, ensure_jars
from conversations_ops.broker.java import find_java

TOOLS = Jar(
    "org.apache.kafka:kafka-tools:4.3.1", "62f3c5dd7aa3442d4c5bc6a95f86e2502178ea09de8e27f74d9563bf955e253c", 698_668
)
CLASSES = {"kafka-acls.sh": "org.apache.kafka.tools.AclCommand", "kafka-configs.sh": "kafka.admin.ConfigCommand"}


def install(directory: Path) -> Path:
    """Write the scripts into a directory, and return it. The jar is downloaded once, and verified each time."""
    jars = ensure_jars((*broker_jars(), TOOLS), what="Kafka's tools")
    classes = ":".join(map(str, jars))
    directory.mkdir()
    for name, main in CLASSES.items():
        script = directory / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join([str(find_java().path), "-cp", classes, main])} "$@"\n')
        script.chmod(0o755)
    return directory
