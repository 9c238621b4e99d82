"""What the figures depend on most: the machine and the versions of what took part."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import Any

import confluent_kafka

from conversations_ops.broker.server import KAFKA_VERSION

PACKAGES = ("kafka-dialogs", "confluent-kafka", "fastavro", "pydantic", "rocksdict")


def machine() -> dict[str, Any]:
    """The hardware, the system and the broker."""
    page = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(page / 2**30),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "kafka": f"{KAFKA_VERSION}, one embedded broker on the same cores",
    }


def versions() -> dict[str, str]:
    """Versions of our own packages."""
    return {name: version(name) for name in PACKAGES} | {"librdkafka": confluent_kafka.libversion()[0]}


def conditions(found: dict[str, Any]) -> str:
    """Say in a line what something was measured on."""
    where, which = found["machine"], found["versions"]
    return (
        f"{where['cores']} cores shared with the broker, Python {where['python']}, Kafka "
        f"{where['kafka'].split(',')[0]}, confluent-kafka {which['confluent-kafka']}; {found['measured_at'][:10]}."
    )
