"""Sorts the records of a namespace by what their topic is for."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from tests.chaos.checker.records import Log, Place, Plan, Position, Record

QUEUE, COMMANDS, DECISIONS, STATE, DEAD_LETTER = "queue", "commands", "decisions", "state", "dead-letter"
INPUTS = (QUEUE, COMMANDS, DECISIONS)
KINDS = (*INPUTS, STATE, DEAD_LETTER)


def names(plan: Plan) -> list[str]:
    """Every topic the checker reads."""
    services = (plan.initiator, plan.target)
    return [f"{plan.namespace}.{service}.{kind}" for service in services for kind in KINDS] + [
        f"{plan.namespace}.events"
    ]


class Topics:
    """The log of a run, by service and kind of topic; records of a partition are in the order of their offsets."""

    def __init__(self, log: Log, plan: Plan) -> None:
        self.plan = plan
        self.log = log
        self.services = (plan.initiator, plan.target)
        self.records: dict[str, list[Record]] = defaultdict(list)
        for record in log.records:
            self.records[record.topic].append(record)
        for records in self.records.values():
            records.sort(key=lambda record: (record.partition, record.offset))
        self._counts: dict[str, int] = defaultdict(int)
        for topic, partition in log.ends:
            self._counts[topic] = max(self._counts[topic], partition + 1)

    def name(self, service: str, kind: str) -> str:
        """Name the topic of a service."""
        return f"{self.plan.namespace}.{service}.{kind}"

    @property
    def events(self) -> str:
        """The topic of events."""
        return f"{self.plan.namespace}.events"

    def of(self, service: str, kind: str) -> list[Record]:
        """Records of a topic."""
        return self.records[self.name(service, kind)]

    def partitions(self, service: str) -> int:
        """How many partitions each topic of a service has."""
        return self._counts[self.name(service, QUEUE)]

    @cached_property
    def inputs(self) -> dict[Position, Record]:
        """What services read, by position."""
        return {record.position: record for s in self.services for k in INPUTS for record in self.of(s, k)}

    @cached_property
    def last(self) -> dict[Place, int]:
        """Offset of the last committed record of each partition."""
        return {
            (record.topic, record.partition): record.offset for records in self.records.values() for record in records
        }
