"""The two processes of the measurement: the service whose handlers block or fail, and the client that measures."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Any

from bench.blocked.services import ANSWERING, ASKING, ORDERS, Answering, Blocked, Receipt
from bench.children import Child
from bench.ground import Ground
from bench.workload import PARTITIONS, Job, Workload
from conversations import Kafka, Service
from conversations.kafka.admin import apply


def declare(kafka: Kafka) -> None:
    """Create the topics of both services."""
    asking: Service[Any] = Service(ASKING, initiates=[ORDERS], ignores=[Receipt.__name__, Blocked.__name__])
    apply(kafka, [asking.declaration(), Answering(0).service.declaration()], partitions=PARTITIONS, replication=1)


def start(stack: ExitStack, ground: Ground, space: str, longest: int) -> dict[str, Child]:
    """Start both services, and return them by name. A handler may block for ``longest`` seconds."""
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
    declare(Kafka(ground.bootstrap, namespace=space))

    def child(name: str, module: str, *arguments: str) -> Child:
        job = Job(name, ground.bootstrap, space, directory, Workload())
        return stack.enter_context(Child(module, job.to_json(), *arguments))

    children = {
        ANSWERING: child(ANSWERING, "bench.blocked.services", str(longest)),
        ASKING: child(ASKING, "bench.blocked.asker"),
    }
    for each in children.values():
        each.await_start()
    return children
