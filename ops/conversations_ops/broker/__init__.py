"""A real Kafka broker as a child process, for demos, tests and laptops.

Its jars are downloaded once from Maven Central, and verified against the lock file of this package (docs/decisions/0002).
"""

from conversations_ops.broker.broker import EmbeddedBroker
from conversations_ops.broker.errors import BrokerError

__all__ = ["BrokerError", "EmbeddedBroker"]
