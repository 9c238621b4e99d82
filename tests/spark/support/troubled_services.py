"""Services in trouble on a real Kafka: their messages are held, tried again, skipped, set aside, delayed or not read, or end their dialogs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import NoReturn

from confluent_kafka import Producer
from pydantic import BaseModel

from conversations import Client, Contract, Dialog, Kafka, PoisonPolicy, Service, Then, WorkerSettings
from conversations.crew import Crew, kafka_worker
from conversations.kafka.admin import apply
from conversations.kafka.offsets import ends_of, positions_of
from conversations.protocol import rows
from conversations.protocol.topics import DEAD_LETTER, QUEUE, service_topic
from conversations_ops.operate.open_letters import open_letters
from conversations_ops.operate.parked import parked_messages
from conversations_ops.operate.state import tables
from tests.support.waiting import until


class Task(BaseModel):
    what: str


class Done(BaseModel):
    what: str


TASKS = Contract("Tasks", sent_by_initiator=[Task], sent_by_target=[Done])
NO_DELAY: list[timedelta] = []

clerk = Service("clerk", initiates=[TASKS], ignores=[Done])
desk = Service(
    "desk", accepts=[TASKS],
    poison=[
        PoisonPolicy(exception=KeyError, delays=NO_DELAY, then=Then.SKIP),
        PoisonPolicy(exception=PermissionError, delays=NO_DELAY, then=Then.END_DIALOG, code=1404, description="No."),
        PoisonPolicy(exception=OverflowError, delays=[timedelta(hours=1)]),
        PoisonPolicy(delays=NO_DELAY, then=Then.HOLD),
    ],
)  # fmt: skip
till = Service("till", accepts=[TASKS], poison=[PoisonPolicy(delays=NO_DELAY, then=Then.DISABLE_QUEUE)])
sleeper = Service("sleeper", accepts=[TASKS])
RAISES = {"hold": ValueError, "skip": KeyError, "refuse": PermissionError, "later": OverflowError, "off": RuntimeError}


def work(task: Task, dialog: Dialog) -> None:
    if task.what in RAISES:
        raise RAISES[task.what](f"cannot {task.what}")
    if task.what == "timer":
        dialog.set_timer(timedelta(0))
    elif task.what == "bye":
        dialog.end()
    else:
        dialog.send(Done(what=task.what))


def ring(_dialog: Dialog) -> NoReturn:
    raise ValueError("cannot ring")


for service in (desk, till, sleeper):
    service.on(Task)(work)
desk.on_timer()(ring)


@dataclass
class Troubles:
    """The address of these services, and the id of each dialog, by the name of its trouble."""

    kafka: Kafka
    dialogs: dict[str, str] = field(default_factory=dict)

    def options(self, *others: str) -> list[str]:
        """Return the arguments of a job that reads these services."""
        return ["--bootstrap", self.kafka.bootstrap, "--namespace", self.kafka.namespace, *others]


SAID = {
    "held": ("desk", ["a", "hold", "b", "c"]),
    "retrying": ("desk", ["later", "d"]),
    "skipped": ("desk", ["skip", "e"]),
    "refused": ("desk", ["refuse"]),
    "timer": ("desk", ["timer"]),
    "fine": ("desk", ["f", "bye"]),
    "off": ("till", ["off", "g"]),
    "unread": ("sleeper", ["h", "i"]),
    "nowhere": ("nobody", ["j"]),
}


def make_troubles(kafka: Kafka) -> Troubles:
    """Run the services until each kind of trouble has happened, and stop them."""
    apply(kafka, [desk.declaration()], 2, 1)
    apply(kafka, [clerk.declaration(), till.declaration(), sleeper.declaration()], 1, 1)
    made = Troubles(kafka)
    workers = [kafka_worker(it, kafka, WorkerSettings()) for it in (clerk, desk, till)]
    with Crew(workers, kafka) as crew, Client(clerk, kafka) as client:
        crew.await_ready(60)
        for name, (service, tasks) in SAID.items():
            with client.begin_dialog(service, TASKS, wait_for_service=True) as dialog:
                for what in tasks:
                    dialog.send(Task(what=what))
            made.dialogs[name] = dialog.id
        _put(kafka, "desk", QUEUE, b"garbage")
        _put(kafka, "desk", DEAD_LETTER, b"of Spring", [("kafka_dlt-original-topic", b"orders")])
        until(lambda: len(open_letters(kafka, "desk")) == 4, "letters: skipped, refused, set aside, another tool's")
        until(
            lambda: sorted(it.behind for it in parked_messages(kafka)) == [0, 1, 1, 2],
            "parked: held, tried again, a timer, a queue that is off",
        )
        until(lambda: _delayed(kafka) == 1, "one envelope is delayed")
        until(lambda: all(_all_read(kafka, it) for it in ("clerk", "desk", "till")), "everything is read")
    return made


def _put(
    kafka: Kafka, service: str, kind: str, value: bytes, headers: list[tuple[str, str | bytes | None]] | None = None
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(service_topic(kafka.namespace, service, kind), value, b"k", 0, headers=headers or [])
    assert producer.flush(10) == 0


def _delayed(kafka: Kafka) -> int:
    return sum(len(table) for table in tables(kafka, "clerk", (rows.DELAYED,)).values())


def _all_read(kafka: Kafka, service: str) -> bool:
    """Return True if a service has read its topics to the end. After the last record, only the marker of its transaction may follow."""
    positions = positions_of(kafka, service)
    ends = ends_of(kafka, list(positions))
    return all(ends[place] - position <= 1 for place, position in positions.items())
