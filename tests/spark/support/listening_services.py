"""Two services: Spark speaks for ``reader``, and ``listener`` keeps the lines that it hears. Its state shows what Spark has sent."""

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
    """The lines that one dialog has heard."""

    dialog: str
    numbers: tuple[int, ...]
    ended: bool


def reader() -> Service[dict[str, Any]]:
    """Return the service that sends the lines of Spark."""
    return Service(READER, initiates=[SPEECH])


def listener() -> Service[Heard]:
    """Return the service that keeps the numbers of the lines that it hears."""
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
    """Create the topics of both services, and run their workers in this process."""
    services: list[Service[Any]] = [reader(), listener()]
    apply(kafka, [service.declaration() for service in services], partitions, 1)
    with Crew([kafka_worker(service, kafka, WorkerSettings()) for service in services], kafka) as crew:
        crew.await_ready(60)
        yield


def heard(kafka: Kafka) -> list[Story]:
    """Return the lines that each dialog has heard so far, one story for each conversation group."""
    codec = listener().state
    found = []
    for table in tables(kafka, LISTENER, [rows.GROUP]).values():
        for value in table.values():
            group = rows.decode_group(value)
            state = codec.decode(group.state, group.version)
            found.append(Story(state.dialog, tuple(state.numbers), state.ended))
    return sorted(found)


def wait_for(kafka: Kafka, lines: int, ended: int = 0, seconds: float = 60) -> list[Story]:
    """Wait until at least ``lines`` lines are heard and ``ended`` dialogs have ended, but at most ``seconds``. Return the stories."""
    found: list[Story] = []

    def there() -> bool:
        found[:] = heard(kafka)
        return sum(len(it.numbers) for it in found) >= lines and sum(it.ended for it in found) >= ended

    with suppress(AssertionError):  # the caller compares the stories, and finds what is missing
        until(there, f"{lines} lines", seconds, pause=0.2 if lines < 10_000 else 3)
    return found


def commands(kafka: Kafka) -> list[tuple[Command, bool]]:
    """Return the reader's commands that send a line, in order within each partition. The second value is True for noise of the test."""
    found = []
    for record in _records(kafka, READER, COMMANDS):
        command = decode_command(record.value() or b"")
        if any(isinstance(operation, Send) for operation in command.operations):
            found.append((command, bool(record.headers())))
    return found


def refusals(kafka: Kafka) -> Counter[str]:
    """Return the number of dead letters of both services, by service and reason."""
    found: Counter[str] = Counter()
    for service in (READER, LISTENER):
        for record in _records(kafka, service, DEAD_LETTER):
            found[f"{service}: {dict(record.headers() or ()).get(letters.REASON, b'foreign').decode()}"] += 1
    return found


def _records(kafka: Kafka, service: str, kind: str) -> Sequence[Any]:
    with Follower(kafka, [service_topic(kafka.namespace, service, kind)]) as follower:
        return follower.to_the_end(60)
