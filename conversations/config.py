"""Settings in frozen groups; every default is safe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any

from conversations.brake import Brake
from conversations.periods import Periods
from conversations.protocol.limits import BODY_BYTES
from conversations.protocol.topics import DEFAULT_NAMESPACE

_BRAKE = Brake()
_PERIODS = Periods()


@dataclass(frozen=True)
class Kafka:
    """How to reach a Kafka cluster; making one does no I/O."""

    bootstrap: str
    """``host:port[,host:port...]`` of some brokers."""
    namespace: str = field(default=DEFAULT_NAMESPACE, kw_only=True)
    """First part of every topic name."""
    settings: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)
    """Further librdkafka settings, passed through: TLS, SASL, OAUTHBEARER, timeouts. No part of ``repr``: there are passwords."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on everything that could grow."""

    body_bytes: int = 900_000
    """Largest body of one message."""
    held_messages: int = 1_000
    """Messages kept per dialog while one before them is missing."""
    held_bytes: int = 64_000_000
    """Bytes of such messages per partition; beyond it the dialog that another one arrives for breaks."""
    delayed_bytes: int = 256_000_000
    """Bytes per partition that wait for a destination that takes none; beyond it handlers that would add to it wait too."""
    dialog_bytes: int = 16_000_000
    """Bytes of one dialog that are held, and that are delayed: so much of it goes into one transaction when it ends."""
    step_bytes: int = 32_000_000
    """Bytes that one step reads, and that it writes, before it takes on nothing more; a transaction may have both, and what the
    last thing taken on adds."""
    waiting_bytes: int = 64_000_000
    """Bytes of waiting rows per partition at which its queue input pauses."""
    parked_messages: int = 10_000
    """Messages of one dialog that wait behind one that failed; a dialog with more breaks."""
    parked_bytes: int = 64_000_000
    """Bytes of such messages per partition; beyond it the dialog that another one arrives for breaks. So many may also wait for the brake
    while other peers' messages are handled; what else waits for its queue pauses the input at it."""
    cached_endpoints: int = 50_000
    """Endpoints a worker keeps decoded in memory, about 3 KB each with their dialogs' lanes, and 4 KB of their group's state at most: larger
    ones are read from the local copy whenever they are needed. Its partitions share them."""

    def __post_init__(self) -> None:
        """Refuse limits that would stop a worker later.

        Raises:
            ValueError: one is not positive, or bodies are larger than a record of the queue may be.
        """
        for name in (found.name for found in fields(self)):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be more than zero")
        if self.body_bytes > BODY_BYTES:
            raise ValueError(
                f"body_bytes is at most {BODY_BYTES}: with what surrounds it a message must fit its topics"
            )


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """How a worker works."""

    concurrency: int = 16
    """Handlers that may run at the same time; handlers that never wait use one thread whatever this says."""
    batch: int = 5_000
    """Records read per step at most."""
    step: timedelta = timedelta(seconds=1)
    """How long a step works before it takes on nothing more; the rest follows in the next."""
    patience: timedelta = timedelta(milliseconds=50)
    """How long a step waits for its handlers before it commits without the slow ones."""
    revocation: timedelta = timedelta(seconds=5)
    """How long a partition that moves away waits for its running handlers."""
    clock_off: timedelta = timedelta(seconds=10)
    """How far the machine's clock may be off the log's before the worker warns; it goes by the log's in any case."""
    deaths: int = 3
    """Deaths of the process, while a handler ran and nothing else that was suspect, after which its message is given up on."""
    rollbacks: int | None = 5
    """Steps in a row that fail in the code around a handler after which the queue of a partition goes off; None: never."""
    brake: Brake | None = _BRAKE
    """When so many dialogs fail that nothing more is given up on; None: never."""
    limits: Limits = Limits()
    periods: Periods = _PERIODS
    """Those of all workers, clients and topics of the namespace."""
    slot: str | None = None
    """Names this worker across restarts, so that a restart ends the transaction its predecessor left open."""

    def scaled(self, factor: float) -> WorkerSettings:
        """Return the same with all periods shorter by a factor, and the brake's times; handlers get no less time.

        Raises:
            ValueError: as ``Periods.scaled``.
        """
        periods = self.periods.scaled(factor)  # checks the factor
        return replace(self, periods=periods, brake=None if self.brake is None else self.brake.scaled(factor))
