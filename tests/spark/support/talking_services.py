"""Two services that talk on a real Kafka: a run without faults, whose dialogs have every possible outcome."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event
from uuid import UUID

from confluent_kafka import Producer
from pydantic import BaseModel

from conversations import Client, Contract, Dialog, PoisonPolicy, Service, Then, WorkerSettings
from conversations.config import Kafka
from conversations.crew import Crew, kafka_worker
from conversations.kafka.admin import apply
from conversations.protocol.command import Settle, Source, encode_command, to_partition
from conversations.protocol.envelope import Kind, decode
from conversations.worker import Worker
from tests.chaos.checker.records import Record
from tests.spark.support.topics import topics_of_kafka
from tests.support.waiting import until

PARTITIONS = 3
CHATS = 40
"""Number of dialogs with only plain messages and replies. Tests plant faults into them."""
SAID = 4
"""Number of messages in each of these dialogs, and of replies."""
COPIED = 3
"""Number of dialogs whose messages arrive twice."""
EACH = 8
"""Number of dialogs for each outcome of a failing message: it is skipped, it ends the dialog, or the dialog waits behind it."""


class Say(BaseModel):
    n: int
    how: str = ""


class Heard(BaseModel):
    n: int


class Extra(BaseModel):
    n: int = 0


class Skipped(Exception):
    pass


class Ended(Exception):
    pass


class Failing(Exception):
    pass


TALK = Contract("Talk", sent_by_initiator=[Say], sent_by_target=[Heard])
SECRET = Contract("Secret", sent_by_initiator=[Say])
"""A contract that ``desk`` does not accept."""
WIDE = {
    "web": Contract("Wide", sent_by_initiator=[Say, Extra]),
    "desk": Contract("Wide", sent_by_initiator=[Say], sent_by_target=[Extra]),
}
"""A contract that the two services declare differently: each lets itself send ``Extra``."""
POISON = [
    PoisonPolicy(exception=Skipped, delays=[], then=Then.SKIP),
    PoisonPolicy(exception=Ended, delays=[], then=Then.END_DIALOG, code=77, description="enough"),
    PoisonPolicy(exception=Failing, delays=[timedelta(milliseconds=300)], then=Then.HOLD),
    PoisonPolicy(delays=[]),
]


@dataclass
class Talks:
    """A run of both services, and its dialogs by their outcome."""

    kafka: Kafka
    replies: list[int] = field(default_factory=list)
    blocked: Event = field(default_factory=Event)
    let_go: Event = field(default_factory=Event)
    dialogs: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.web = Service("web", initiates=[TALK, SECRET, WIDE["web"]])
        self.desk = Service("desk", accepts=[TALK, WIDE["desk"]], poison=POISON)
        self.web.on(Heard)(self._hear)
        self.desk.on(Say)(self._answer)

    def _hear(self, heard: Heard, dialog: Dialog) -> None:
        self.replies.append(heard.n)

    def _answer(self, said: Say, dialog: Dialog) -> None:
        if said.how == "quiet":
            return
        if said.how == "skip":
            raise Skipped
        if said.how == "end":
            raise Ended
        if said.how == "hold":
            raise ValueError("held")
        if said.how == "later" and not dialog.attempt > 1:
            raise Failing
        if said.how == "error":
            dialog.end_with_error(42, "no")
            return
        if said.how == "block":
            self.blocked.set()
            self.let_go.wait(120)
        dialog.send(Heard(n=said.n))

    @contextmanager
    def at_work(self) -> Iterator[Client]:
        """Run workers of both services, and yield a client of ``web``."""
        apply(self.kafka, [self.web.declaration(), self.desk.declaration()], PARTITIONS, 1)
        settings = WorkerSettings(revocation=timedelta(milliseconds=100), brake=None)
        workers = [kafka_worker(service, self.kafka, settings) for service in (self.web, self.desk)]
        try:
            with Crew(workers, self.kafka) as crew, Client(self.web, self.kafka) as client:
                crew.await_ready(60)
                self._workers = dict(zip(("web", "desk"), workers, strict=True))
                yield client
        finally:
            self.let_go.set()

    @property
    def heard(self) -> int:
        return len(self.replies)

    def worker(self, service: str) -> Worker:
        return self._workers[service]

    # -- what the services send -----------------------------------------------------------------------------------------------

    def say(
        self, client: Client, name: str, *hows: str, contract: Contract = TALK, to: str = "desk", end: bool = False
    ) -> str:
        """Begin a dialog, and send a message for each of ``hows``. Return the id of the dialog."""
        with client.begin_dialog(to, contract, wait_for_service=True) as dialog:
            for n, how in enumerate(hows):
                dialog.send(Extra(n=n) if how == "extra" else Say(n=n, how=how))
            if end:
                dialog.end()
        self.dialogs.setdefault(name, []).append(dialog.id)
        return dialog.id

    def run(self) -> None:
        """Send all messages. Stop while one handler runs, one dialog is held, and the destination of one dialog does not exist."""
        with self.at_work() as client:
            # These come alone: in a long step, the messages after the one that fails would be accepted before it fails.
            for _ in range(EACH):
                self.say(client, "end", "", "end", "", "")
            until(lambda: self.heard == EACH, f"{EACH} replies before the end of a dialog", 60)
            for which in range(CHATS):
                self.say(client, "ended" if which % 4 == 0 else "open", *[""] * SAID)
            for _ in range(EACH):
                self.say(client, "skip", "", "skip", "", end=True)
                self.say(client, "skip open", "quiet", "skip", "quiet")
                self.say(client, "hold", "", "hold", "", "", end=True)
            for _ in range(COPIED):
                self.say(client, "copied", "", "", "")
            self.say(client, "hold open", "hold", "", "")
            self.say(client, "later", "later", "", end=True)
            self.say(client, "error", "", "error", "")
            self.say(client, "refused", "", "", contract=SECRET)
            self.say(client, "breach", "quiet", "extra", "quiet", contract=WIDE["web"])
            self.say(client, "delayed", "", "", to="nobody")
            replies = CHATS * SAID + EACH + 3 * COPIED + 1  # replies that arrive after web has ended reach no handler
            until(lambda: self.heard == replies, f"{replies} replies, not {self.heard}", 60)
            for dialog in self.dialogs["ended"]:
                with client.dialog(dialog) as going_on:
                    going_on.end()
            self.disturb()
            counts = self.worker("desk").counts
            until(
                lambda: counts.set_aside == 3 and counts.duplicates == 3 * COPIED,
                "copies and unusable records are read",
            )
            self.close_a_letter()
            self.say(client, "blocked", "block", "", "")
            assert self.blocked.wait(60)
            until(lambda: self._waiting() == 3, "messages wait for a handler", pause=0.2)
            closed = len(self.dialogs["ended"]) + 2 * EACH + 2
            until(lambda: counts.closed >= closed, f"{closed} dialogs are over at the desk")

    def _waiting(self) -> int:
        rows = topics_of_kafka(self.kafka).of("desk", "state")
        newest = {(row.partition, row.key): row.value for row in rows if (row.key or b"")[:1] == b"W"}
        return sum(value is not None for value in newest.values())

    def disturb(self) -> None:
        """Append to the queue of ``desk``: copies of messages, a record in the wrong partition, and two unusable records."""
        queue = f"{self.kafka.namespace}.desk.queue"
        ids = {UUID(dialog).bytes for dialog in self.dialogs["copied"]}
        there = [
            record for record in topics_of_kafka(self.kafka).of("desk", "queue") if (record.value or b"")[10:26] in ids
        ]
        there = [record for record in there if decode(record.value or b"").kind is Kind.MESSAGE]
        first = there[0]
        self.put(
            *there,
            first._replace(partition=(first.partition + 1) % PARTITIONS),
            Record(queue, 0, -1, 0, b"k", b"junk"),
            first._replace(value=(first.value or b"")[:20]),
        )

    def put(self, *records: Record) -> None:
        """Append records unchanged, outside any transaction."""
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap, "linger.ms": 0})
        for record in records:
            producer.produce(record.topic, record.value, record.key, record.partition, headers=list(record.headers))
        assert producer.flush(30) == 0

    def close_a_letter(self) -> None:
        """Close the letter of a record that was set aside, as an operator does."""
        letters = topics_of_kafka(self.kafka).of("desk", "dead-letter")
        letter = next(it for it in letters if (b"set-aside") in dict(it.headers).values())
        offset = int(dict(letter.headers)["dl.source-offset"] or b"0")
        operation = Settle((Source("QUEUE", offset),), "discarded", "of no use")
        command = to_partition((letter.partition, PARTITIONS), operation, "me", os.urandom(16), time.time_ns() // 1_000)
        decisions = f"{self.kafka.namespace}.desk.decisions"
        self.put(Record(decisions, letter.partition, -1, 0, command.key.encode(), encode_command(command)))
        until(lambda: self._told("SETTLED"), "the letter is closed", pause=0.2)

    def _told(self, event: str) -> bool:
        return any(
            event.encode() in (record.value or b"")
            for record in topics_of_kafka(self.kafka).records
            if record.topic.endswith(".events")
        )
