"""A service that is spoken for and one that listens and remembers: what Spark has said is told by its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from pydantic import BaseModel

from conversations import Contract, Dialog, Service, WorkerSettings
from conversations.config import Kafka
from conversations.crew import Crew, kafka_worker
from conversations.kafka.admin import apply
from conversations.kafka.follow import Follower
from conversations.protocol import letters, rows
from conversations.protocol.command import Command, Send, decode_command
from conversations.protocol.topics import COMMANDS, DEAD_LETTER, service_topic
from conversations_ops.operate.state import tables
from tests.support.waiting import until

READER, LISTENER = "reader", "listener"


class Line(BaseModel):
    dialog: str
    number: int
    pad: str = ""


SPEECH = Contract("Speech", sent_by_initiator=[Line])


class Heard(BaseModel):
    dialog: str = ""
    numbers: list[int] = []
    ended: bool = False


class Story(NamedTuple):
    """What one dialog has heard."""

    dialog: str
    numbers: tuple[int, ...]
    ended: bool


def reader() -> Service[dict[str, Any]]:
    """Says what Spark tells it."""
    return Service(READER, initiates=[SPEECH])


def listener() -> Service[Heard]:
    """Keeps what it hears."""
    service = Service(LISTENER, accepts=[SPEECH], state=Heard)

    @service.on(Line)
    def hear(line: Line, dialog: Dialog[Heard]) -> None:
        state = dialog.group.state
        assert state.dialog in ("", line.dialog), "a line of another dialog"
        state.dialog = line.dialog
        state.numbers.append(line.number)

    @service.on_end(SPEECH)
    def end(dialog: Dialog[Heard]) -> None:
        dialog.group.state.ended = True

    return service


@contextmanager
def working(kafka: Kafka, partitions: int) -> Iterator[None]:
    """Declare both services, and let them work in this process."""
    services: list[Service[Any]] = [reader(), listener()]
    apply(kafka, [service.declaration() for service in services], partitions, 1)
    with Crew([kafka_worker(service, kafka, WorkerSettings()) for service in services], kafka) as crew:
        crew.await_ready(60)
        yield


def heard(kafka: Kafka) -> list[Story]:
    """Say what each dialog has heard so far, a story for every conversation id."""
    codec = listener().state
    found = []
    for table in tables(kafka, LISTENER, [rows.GROUP]).values():
        for value in table.values():
            group = rows.decode_group(value)
            state = codec.decode(group.state, group.version)
            found.append(Story(state.dialog, tuple(state.numbers), state.ended))
    return sorted(found)


def wait_for(kafka: Kafka, lines: int, ended: int = 0, seconds: float = 60) -> list[Story]:
    """Wait until so many lines are heard and so many dialogs ended; return the stories, as they are then at the latest."""
    found: list[Story] = []

    def there() -> bool:
        found[:] = heard(kafka)
        return sum(len(it.numbers) for it in found) >= lines and sum(it.ended for it in found) >= ended

    with suppress(AssertionError):  # what is missing is told by who compares
        until(there, f"{lines} lines", seconds, pause=0.2 if lines < 10_000 else 3)
    return found


def commands(kafka: Kafka) -> list[tuple[Command, bool]]:
    """Read the reader's commands that say something, those of one partition in order, and whether each is noise."""
    found = []
    for record in _records(kafka, READER, COMMANDS):
        command = decode_command(record.value() or b"")
        if any(isinstance(operation, Send) for operation in command.operations):
            found.append((command, bool(record.headers())))
    return found


def refusals(kafka: Kafka) -> Counter[str]:
    """Count the dead letters of both services, by service and reason."""
    found: Counter[str] = Counter()
    for service in (READER, LISTENER):
        for record in _records(kafka, service, DEAD_LETTER):
            found[f"{service}: {dict(record.headers() or ()).get(letters.REASON, b'foreign').decode()}"] += 1
    return found


def _records(kafka: Kafka, service: str, kind: str) -> Sequence[Any]:
    with Follower(kafka, [service_topic(kafka.namespace, service, kind)]) as follower:
        return follower.to_the_end(60)
