"""A real Kafka broker as a child process, for demos, tests and laptops.

Its jars come once from Maven Central, by coordinate, verified against the lock shipped here (docs/decisions/0002).
"""

from conversations_ops.broker.broker import EmbeddedBroker
from conversations_ops.broker.errors import BrokerError

__all__ = ["BrokerError", "EmbeddedBroker"]
