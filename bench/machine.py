"""Describes the machine and the versions of the programs: the figures depend most on these."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import Any

import confluent_kafka

from conversations.machine import installed
from conversations_ops.broker.server import KAFKA_VERSION

PACKAGES = ("kafka-dialogs", "confluent-kafka", "fastavro", "pydantic", "rocksdict")


def machine() -> dict[str, Any]:
    """Return the hardware, the system and the broker."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(installed() / 2**30),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "kafka": f"{KAFKA_VERSION}, one embedded broker on the same cores",
    }


def versions() -> dict[str, str]:
    """Return the versions of this package and of the packages that it uses."""
    return {name: version(name) for name in PACKAGES} | {"librdkafka": confluent_kafka.libversion()[0]}


def conditions(found: dict[str, Any]) -> str:
    """Describe in one line the machine and the versions of a measurement."""
    where, which = found["machine"], found["versions"]
    return (
        f"{where['cores']} cores shared with the broker, Python {where['python']}, Kafka "
        f"{where['kafka'].split(',')[0]}, confluent-kafka {which['confluent-kafka']}; {found['measured_at'][:10]}."
    )
