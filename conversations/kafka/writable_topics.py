"""Which topics a transaction writes to can take its records, and which one is to blame when they cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import KafkaError

from conversations.errors import DestinationFailed, Interrupted, KafkaUnreachable, LogError
from conversations.kafka.clients import Topic
from conversations.kafka.failures import describe, forbidden, refuses, timed_out
from conversations.ports import Produced

Lookup = Callable[[list[str]], Mapping[str, Topic | None]]


class WritableTopics:
    """Remembers which topics exist: producing to a missing one could only time out, or create it."""

    def __init__(self, lookup: Lookup, own: set[str]) -> None:
        self._lookup, self._own = lookup, own
        self._known: set[str] = set()

    def forget(self) -> None:
        """Look every topic up anew when it is next written to."""
        self._known.clear()

    def check(self, outs: Sequence[Produced]) -> None:
        """Look up the topics not seen before.

        Raises:
            DestinationFailed: some of them do not exist.
            Interrupted: no broker answered.
        """
        unknown = {out[0] for out in outs} - self._known
        if not unknown:
            return
        try:
            found = self._lookup(sorted(unknown))
        except KafkaUnreachable as failure:
            raise Interrupted(f"nothing was begun: {failure}") from failure
        failed = {name: why for name, topic in found.items() if (why := _fault(name, topic))}
        self._known |= found.keys() - failed.keys()
        if failed:
            raise DestinationFailed(failed, forbidden=_forbidden(found))

    def failed(
        self, outs: Sequence[Produced], reports: Mapping[str, KafkaError], delivered: set[str]
    ) -> DestinationFailed | None:
        """Name the topics that made a transaction fail, and why, from its delivery reports and a look at the cluster."""
        failed = {topic: describe(error) for topic, error in reports.items() if refuses(error)}
        unfit, refused = self.look_again(outs)
        failed |= unfit
        # A topic whose records time out while others' arrive is that topic's trouble, not the cluster's.
        if delivered:
            late = {topic: describe(error) for topic, error in reports.items() if timed_out(error)}
            failed |= {topic: why for topic, why in late.items() if topic not in delivered | self._own}
        self._known -= failed.keys()
        refused |= {topic for topic, error in reports.items() if forbidden(error)}
        return DestinationFailed(failed, forbidden=refused) if failed else None

    def look_again(self, outs: Sequence[Produced]) -> tuple[dict[str, str], set[str]]:
        """Name the topics that cannot be written to now, whatever was known of them; and those a right is missing on."""
        highest: dict[str, int] = {}
        for out in outs:
            topic, partition = out[0], out[1]
            highest[topic] = max(highest.get(topic, 0), partition)
        try:
            found = self._lookup(sorted(highest))
        except LogError:
            return {}, set()  # no broker answers: nothing is known of a topic
        failed = {name: why for name, now in found.items() if (why := _fault(name, now))}
        for name, now in found.items():
            if now is not None and name not in failed and highest[name] >= now.partitions:
                failed[name] = f"partition {highest[name]} of {now.partitions} does not exist"
        return failed, _forbidden(found)


def _fault(name: str, topic: Topic | None) -> str:
    """Say why nothing can be written to a topic; empty when it can."""
    if topic is None:
        return "the topic does not exist"
    return "" if topic.may("WRITE") else f"WRITE on topic {name} is missing"


def _forbidden(found: Mapping[str, Topic | None]) -> set[str]:
    return {name for name, topic in found.items() if topic is not None and not topic.may("WRITE")}
