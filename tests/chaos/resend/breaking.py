"""Breaks dialogs in a chaos run of resends, and turns queues off and on, with records of a plain producer."""

from __future__ import annotations

import os
import time
from collections import Counter
from random import Random
from typing import Any
from uuid import UUID

from confluent_kafka import Producer

from conversations.config import Kafka
from conversations.protocol.command import Cleanup, Command, Switch, encode_command, to_partition, topic_for
from conversations.protocol.envelope import (
    Envelope,
    Kind,
    Prefix,
    encode,
)
from conversations.protocol.topics import QUEUE, partition_of, service_topic
from tests.chaos.resend.plan import SIMULATED, Break, Plan
from tests.chaos.resend.services import ITEMS, SINK, SOURCE

DAY = 86_400_000_000
OFF_EVERY, OFF_FOR = 12.0, 4.0
"""Seconds between two times at which a queue of the sink is turned off, and seconds until it is on again."""


class Breaking:
    """Does what the plan says, as soon as it is told how far each dialog is."""

    def __init__(self, kafka: Kafka, plan: Plan, partitions: int, random: Random) -> None:
        self._kafka, self._plan, self._partitions, self._random = kafka, plan, partitions, random
        self._producer: Any = Producer(
            {"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True, "log_level": 2}
        )
        self._untold: dict[str, tuple[int, str]] = {}
        """By id of the first dialog: the error of which the source must be told still, and the dialog."""
        self._off: tuple[int, float] | None = None
        self._off_at = time.monotonic() + OFF_EVERY
        self.counts: Counter[str] = Counter()

    def told(self, first: str, number: int, dialog: str) -> None:
        """Break a dialog if the plan says so; ``dialog`` is the one on which the item was sent."""
        if (late := self._untold.pop(first, None)) is not None:
            self._say(late[0], late[1], first, from_initiator=False)
        kind = self._plan.breaks[first].get(number)
        if kind is None:
            return
        self.counts[kind.value] += 1
        if kind is Break.CLEANUP:
            self._order(
                SINK, Command(os.urandom(16), UUID(dialog).bytes, False, first, "", "chaos", _now(), (Cleanup(),))
            )
            return
        # The source learns of it when it has sent the next item: then there is an item that the sink has not accepted.
        self._untold[first] = SIMULATED[kind], dialog
        self._say(SIMULATED[kind], dialog, first, from_initiator=True)

    def tick(self) -> None:
        """Turn a queue off, or on again, when it is time."""
        now = time.monotonic()
        if self._off is not None and now >= self._off[1]:
            self._switch(self._off[0], on=True)
            self._off = None
        elif self._off is None and now >= self._off_at:
            self._off = self._random.randrange(self._partitions), now + OFF_FOR
            self._off_at = now + OFF_EVERY
            self._switch(self._off[0], on=False)
            self.counts["queues off"] += 1
        self._producer.poll(0)

    def finish(self) -> None:
        """Turn on what is off, and stop breaking."""
        for partition in range(self._partitions):
            self._switch(partition, on=True)
        self._off, self._off_at = None, float("inf")
        self._producer.flush(30.0)

    def _say(self, code: int, dialog: str, key: str, *, from_initiator: bool) -> None:
        ours, theirs = (SOURCE, SINK) if from_initiator else (SINK, SOURCE)
        now = _now()
        # It begins no dialog, so it claims no time until which its dialog may begin. The audit would believe the claim.
        prefix = Prefix(UUID(dialog).bytes, from_initiator, ITEMS.name, ours, theirs, key, from_initiator, 0, now + DAY)
        value = encode(Envelope(prefix, Kind.ERROR, -1, -1, -1, sent_at=now, code=code, description="a chaos run"))
        topic = service_topic(self._kafka.namespace, theirs, QUEUE)
        partition = partition_of(key.encode(), self._partitions)
        self._producer.produce(topic, value, key.encode(), partition)

    def _switch(self, partition: int, *, on: bool) -> None:
        command = to_partition(
            (partition, self._partitions), Switch(on, "a chaos run"), "chaos", os.urandom(16), _now()
        )  # fmt: skip
        self._order(SINK, command)

    def _order(self, service: str, command: Command) -> None:
        topic, key = service_topic(self._kafka.namespace, service, topic_for(command)), command.key.encode()
        self._producer.produce(topic, encode_command(command), key, partition_of(key, self._partitions))


def _now() -> int:
    return time.time_ns() // 1_000
