"""Checks, before a transaction, whether its topics accept records. After a failure, finds the topics that caused the failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import KafkaError

from conversations.errors import DestinationFailed, Interrupted, KafkaUnreachable, LogError
from conversations.kafka.clients import Topic
from conversations.kafka.failures import describe, forbidden, refuses, timed_out
from conversations.ports import Produced

Lookup = Callable[[list[str]], Mapping[str, Topic | None]]


class WritableTopics:
    """Remembers the topics that can be written to. Producing to a missing topic would time out, or create the topic."""

    def __init__(self, lookup: Lookup, own: set[str]) -> None:
        self._lookup, self._own = lookup, own
        self._known: set[str] = set()

    def forget(self) -> None:
        """Forget all topics. Each topic is looked up again before it is next written to."""
        self._known.clear()

    def check(self, outs: Sequence[Produced]) -> None:
        """Look up the topics that are not known yet.

        Raises:
            DestinationFailed: some topics do not exist, or the right to write to them is missing.
            Interrupted: no broker answered.
        """
        unknown = {out[0] for out in outs} - self._known
        if not unknown:
            return
        try:
            found = self._lookup(sorted(unknown))
        except KafkaUnreachable as failure:
            raise Interrupted(f"nothing was begun: {failure}") from failure
        failed = {name: why for name, topic in found.items() if (why := fault(name, topic))}
        self._known |= found.keys() - failed.keys()
        if failed:
            raise DestinationFailed(failed, forbidden=_forbidden(found))

    def failed(
        self, outs: Sequence[Produced], reports: Mapping[str, KafkaError], delivered: set[str]
    ) -> DestinationFailed | None:
        """Return an exception that names the topics that made a transaction fail, with reasons; None if no topic is the cause.

        The topics are found from the delivery reports, and by a new look-up of the topics.
        """
        failed = {topic: describe(error) for topic, error in reports.items() if refuses(error)}
        unfit, refused = self.look_again(outs)
        failed |= unfit
        # If records of one topic time out while records of other topics arrive, the topic is at fault, not the cluster.
        if delivered:
            late = {topic: describe(error) for topic, error in reports.items() if timed_out(error)}
            failed |= {topic: why for topic, why in late.items() if topic not in delivered | self._own}
        self._known -= failed.keys()
        refused |= {topic for topic, error in reports.items() if forbidden(error)}
        return DestinationFailed(failed, forbidden=refused) if failed else None

    def look_again(self, outs: Sequence[Produced]) -> tuple[dict[str, str], set[str]]:
        """Look all topics up again. Return the topics that cannot be written to, with reasons, and the topics on which WRITE is missing."""
        highest: dict[str, int] = {}
        for out in outs:
            topic, partition = out[0], out[1]
            highest[topic] = max(highest.get(topic, 0), partition)
        try:
            found = self._lookup(sorted(highest))
        except LogError:
            return {}, set()  # the look-up failed, so no topic is known to be at fault
        failed = {name: why for name, now in found.items() if (why := fault(name, now))}
        for name, now in found.items():
            if now is not None and name not in failed and highest[name] >= now.partitions:
                failed[name] = f"partition {highest[name]} of {now.partitions} does not exist"
        return failed, _forbidden(found)


def fault(name: str, topic: Topic | None) -> str:
    """Return the reason why a topic cannot be written to; empty if it can be written to."""
    if topic is None:
        return "the topic does not exist"
    return "" if topic.may("WRITE") else f"WRITE on topic {name} is missing"


def _forbidden(found: Mapping[str, Topic | None]) -> set[str]:
    return {name for name, topic in found.items() if topic is not None and not topic.may("WRITE")}
