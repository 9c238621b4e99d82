"""Refusals: if a topic refuses records of a commit, these records are taken out, and the rest can be committed again.

A record that a handler published to a plain topic is not taken out alone, because it belongs to the effects of its handler. Its partition is
built anew from its committed rows, and the handler runs again, or is given up on. The other partitions are committed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from conversations.errors import DestinationFailed, LogError
from conversations.worker import departure
from conversations.worker.context import Context
from conversations.worker.partition import Partition
from conversations.worker.undelivered import Failed

log = logging.getLogger("conversations.worker")


def look_at_topics(context: Context, *, is_first: bool) -> None:
    """Look at the retry topics, and check that handlers can publish to the plain topics.

    At the first join of a worker, a plain topic that cannot be written to is an error of a declaration or of rights. After that, the topic is
    blocked: the handlers that publish to it wait, and the others go on.

    Raises:
        LogError: a plain topic cannot be written to at the first join.
    """
    unwritable = context.topics.look(context.connection, context.service.poison)
    if unwritable and is_first:
        told = "; ".join(f"{topic}: {why}" for topic, why in sorted(unwritable.items()))
        raise LogError(
            f"service {context.name!r} publishes to topics that cannot be written to: {told}. Their owner creates them, and grants the "
            "rights; 'conversations apply' does not"
        )
    for topic, why in unwritable.items():
        log.warning("handlers that publish to %s wait: %s", topic, why)
        context.destinations.block(topic, context.now)


class Refused(NamedTuple):
    """The partitions that cannot be committed without a refused record."""

    aside: dict[int, str]
    """Partitions that must be set aside, with the reasons."""
    anew: list[int]
    """Partitions that must be built anew, because a plain topic refuses a record that a handler published."""


def take_out(
    context: Context, partitions: Sequence[Partition], outs: Sequence[Any], error: DestinationFailed
) -> Refused:
    """Take refused records out of this transaction and the next. Return the partitions in which this is not possible.

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
    anew: list[int] = []
    with context.lock:
        for topic in error.topics:
            if not topic.startswith(context.topics.retry_prefix):
                context.destinations.block(topic, context.now)
        for partition in partitions:
            if partition.number in aside:
                continue
            if departure.refuse_publications(partition, failed):
                anew.append(partition.number)
                log.warning("partition %d is built anew, because a published record is refused", partition.number)
            else:
                departure.withdraw(partition, failed)
        context.topics.forget_retries(error.topics.keys())
    return Refused(aside, anew)
