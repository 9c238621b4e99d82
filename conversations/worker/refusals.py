"""Refusals: if a topic refuses records of a commit, these records are taken out, and the rest can be committed again."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from conversations.errors import DestinationFailed, LogError
from conversations.ports import Produced
from conversations.worker import departure
from conversations.worker.context import Context
from conversations.worker.partition import Partition
from conversations.worker.undelivered import Failed

log = logging.getLogger("conversations.worker")


def take_out(
    context: Context, partitions: Sequence[Partition], outs: Sequence[Produced], error: DestinationFailed
) -> dict[int, str]:
    """Take refused records out of this transaction and the next. Return the partitions that must be set aside, with the reasons.

    Raises:
        LogError: the service's own state, commands or dead-letter topic takes no records.
    """
    own = {topic: why for topic, why in error.topics.items() if topic in context.topics.needed}
    if own:
        raise LogError(f"the service's own topics refuse records: {'; '.join(f'{t}: {why}' for t, why in own.items())}")
    aside: dict[int, str] = {}
    for place, refused in error.records.items():
        topic, number, _, value, _ = outs[place]
        if topic in {context.topics.state, context.topics.dead_letter}:
            aside[number] = (
                f"{topic} does not take a record of {len(value or b'')} bytes ({refused.why}): raise its "
                "max.message.bytes, as 'conversations apply' does, and start again"
            )
    log.warning("some records are refused and are taken out of the transaction: %s", error)
    failed = Failed(error.topics, error.forbidden, {id(outs[place]): found for place, found in error.records.items()})
    with context.lock:
        for topic in error.topics:
            if not topic.startswith(context.topics.retry_prefix):
                context.destinations.block(topic, context.now)
        for partition in partitions:
            if partition.number not in aside:
                departure.withdraw(partition, failed)
        context.topics.forget_retries(error.topics.keys())
    return aside
