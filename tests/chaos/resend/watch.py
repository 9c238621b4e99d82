"""How far a chaos run of resends is: the items that are told, and those that are decided, by the topics that the checker reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from conversations.config import Kafka
from conversations.kafka.follow import Follower
from conversations.protocol.topics import DEAD_LETTER, service_topic
from tests.chaos.checker.reader import record_of
from tests.chaos.checker.resends import Item, given_up, noted
from tests.chaos.resend.plan import Plan
from tests.chaos.resend.services import HANDLED, SINK, SOURCE, TOLD, topic


class Watch:
    """Follows the accounts of all items; a block."""

    def __init__(self, kafka: Kafka, plan: Plan) -> None:
        letters = [service_topic(kafka.namespace, service, DEAD_LETTER) for service in (SOURCE, SINK)]
        self._follower = Follower(kafka, [topic(TOLD), topic(HANDLED), *letters])
        self._plan = plan
        self._told: set[Item] = set()
        self._decided: set[Item] = set()
        self._left: Counter[str] = Counter(dict.fromkeys(plan.ids, plan.length))
        self.finished = 0
        """Number of dialogs whose items are all decided."""

    def close(self) -> None:
        """Stop following."""
        self._follower.close()

    @property
    def told(self) -> int:
        """Number of items that were sent."""
        return len(self._told)

    @property
    def decided(self) -> int:
        """Number of items that were handled, or are dead letters."""
        return len(self._decided)

    @property
    def done(self) -> bool:
        """True if all items of the plan are sent and decided."""
        return self.finished == len(self._plan.ids)

    def look(self, timeout: float) -> Iterator[tuple[str, int, str]]:
        """Read what is new, and yield the sent items with the dialogs on which they were sent."""
        for each in self._follower.poll(timeout):
            record = record_of(each)
            if record.topic == topic(TOLD):
                note = noted(record)
                self._told.add(note.item)
                yield *note.item, note.dialog
                continue
            decided = noted(record).item if record.topic == topic(HANDLED) else given_up(record)
            if decided is not None and decided not in self._decided:
                self._decided.add(decided)
                self._left[decided[0]] -= 1
                self.finished += not self._left[decided[0]]
