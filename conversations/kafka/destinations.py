"""Which topics a transaction writes to can take its records, and which one is to blame when they cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import KafkaError

from conversations.errors import DestinationFailed, Interrupted, KafkaUnreachable, LogError
from conversations.kafka.clients import Topic
from conversations.kafka.failures import describe, refuses, timed_out
from conversations.ports import Produced

Lookup = Callable[[list[str]], Mapping[str, Topic | None]]


class Destinations:
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
        self._known |= {name for name, topic in found.items() if topic is not None}
        if missing := [name for name, topic in found.items() if topic is None]:
            raise DestinationFailed(dict.fromkeys(missing, "the topic does not exist"))

    def failed(
        self, outs: Sequence[Produced], reports: Mapping[str, KafkaError], delivered: set[str]
    ) -> dict[str, str]:
        """Name the topics that made a transaction fail, and why, from its delivery reports and a look at the cluster."""
        failed = {topic: describe(error) for topic, error in reports.items() if refuses(error)}
        failed |= self.look_again(outs)
        # A topic whose records time out while others' arrive is that topic's trouble, not the cluster's.
        if delivered:
            late = {topic: describe(error) for topic, error in reports.items() if timed_out(error)}
            failed |= {topic: why for topic, why in late.items() if topic not in delivered | self._own}
        return failed

    def look_again(self, outs: Sequence[Produced]) -> dict[str, str]:
        """Name the topics and partitions that do not exist now, whatever was known of them."""
        highest: dict[str, int] = {}
        for out in outs:
            topic, partition = out[0], out[1]
            highest[topic] = max(highest.get(topic, 0), partition)
        try:
            found = self._lookup(sorted(highest))
        except LogError:
            return {}  # no broker answers: no verdict on a topic
        failed: dict[str, str] = {}
        for name, now in found.items():
            if now is None:
                self._known.discard(name)
                failed[name] = "the topic does not exist"
            elif highest[name] >= now.partitions:
                failed[name] = f"partition {highest[name]} of {now.partitions} does not exist"
        return failed
