"""``python -m tests.chaos.intervals``: when a message is transmitted again, observed on two real Kafkas (four minutes).

A forwarder carries the message, but nothing carries acknowledgements back. So the sender transmits the message again and again, and the times
of the copies are those of the records in its transmission topic. Then a forwarder in the other direction brings the answer, which is the first
success, and is stopped. The waits of the next message must begin anew.

Exit codes: 0 each wait is within a quarter of what is promised, 1 it is not, 3 no broker.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from time import monotonic
from typing import Any, NamedTuple

from pydantic import BaseModel

from conversations import Client, Contract, Dialog, Kafka, Service, WorkerSettings
from conversations.crew import Crew, kafka_worker
from conversations.kafka.admin import add_route, apply
from conversations.kafka.follow import Follower
from conversations.kafka.forwarder import Forwarder
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.routes import Cluster
from conversations.protocol.topics import transmission_topic
from conversations_ops.broker import BrokerError, EmbeddedBroker

WAITS = (4, 8, 16, 32, 64, 64)
"""The promised waits in seconds; after the last one each wait is as long."""
TOLERANCE = 0.25
PATIENCE = 60.0
"""Seconds beyond the promised ones after which a copy does not come any more."""
HOME, EMEA = "home", "emea"


class Ask(BaseModel):
    n: int


class Answer(BaseModel):
    n: int


QUESTIONS = Contract("Questions", sent_by_initiator=[Ask], sent_by_target=[Answer], lifetime=timedelta(hours=1))


class Observed(NamedTuple):
    """The waits between the transmissions of a message, in seconds."""

    first: list[float]
    """Of the first message, while nothing is acknowledged."""
    after: list[float]
    """Of the message after the first success."""

    def wrong(self, factor: float = 1.0) -> list[str]:
        """Return what is not as promised; waits may be longer by ``TOLERANCE`` times ``factor``."""
        return [
            f"{name}: wait {number} took {found:.1f} s, not {wanted} s"
            for name, waits in (("first message", self.first), ("after the first success", self.after))
            for number, (found, wanted) in enumerate(zip(waits, WAITS, strict=False), 1)
            if not (1 - TOLERANCE) * wanted <= found <= (1 + TOLERANCE * factor) * wanted
        ]


def observe(here: Kafka, there: Kafka, first: int, after: int) -> Observed:
    """Observe so many waits of the first message, and of the message after the first success."""
    heard = threading.Event()
    asker, answerer = _asker(heard), _answerer()
    apply(here, [asker.declaration()], 1, 1)
    apply(there, [answerer.declaration()], 1, 1)
    to_emea, to_home = (
        Cluster(EMEA, there.bootstrap, there.namespace, 1),
        Cluster(HOME, here.bootstrap, here.namespace, 1),
    )
    add_route(here, "answerer", to_emea, 1)
    add_route(there, "asker", to_home, 1)
    with (
        Crew([kafka_worker(asker, here, WorkerSettings(slot="0"))], here),
        Crew([kafka_worker(answerer, there, WorkerSettings(slot="0"))], there),
        _forwarding(Forwarder(here, to_emea, there)),
        Client(asker, here) as client,
        contextlib.closing(Follower(here, [transmission_topic(here.namespace, EMEA)])) as copies,
    ):
        with client.begin_dialog("answerer", QUESTIONS) as dialog:
            dialog.send(Ask(n=0))
        found = _waits(copies, dialog.id, 0, first)
        with _forwarding(Forwarder(there, to_home, here)):
            assert heard.wait(2 * max(WAITS) + PATIENCE), "the answer does not arrive"
        with client.dialog(dialog.id) as dialog:
            dialog.send(Ask(n=1))
        return Observed(found, _waits(copies, dialog.id, 1, after))


def _asker(heard: threading.Event) -> Service[dict[str, Any]]:
    service: Service[dict[str, Any]] = Service("asker", initiates=[QUESTIONS])

    @service.on(Answer)
    def answered(answer: Answer, dialog: Dialog[dict[str, Any]]) -> None:
        heard.set()

    return service


def _answerer() -> Service[dict[str, Any]]:
    service: Service[dict[str, Any]] = Service("answerer", accepts=[QUESTIONS])

    @service.on(Ask)
    def asked(ask: Ask, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.send(Answer(n=ask.n))

    return service


@contextlib.contextmanager
def _forwarding(forwarder: Forwarder) -> Iterator[None]:
    thread = threading.Thread(target=forwarder.run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        forwarder.stop()
        thread.join()


def _waits(copies: Follower, dialog: str, number: int, count: int) -> list[float]:
    """Return the waits between the copies of one message, in seconds, by the dates of their records."""
    dates: list[int] = []
    deadline = monotonic() + sum(WAITS[:count]) + PATIENCE
    while len(dates) <= count:
        assert monotonic() < deadline, f"{len(dates)} of {count + 1} copies came"
        for record in copies.poll(0.2):
            envelope = decode(record.value() or b"")
            if (envelope.kind, envelope.seq, uuid_text(envelope.prefix.conversation_id)) == (
                Kind.MESSAGE,
                number,
                dialog,
            ):
                dates.append(record.timestamp()[1])
    return [(later - earlier) / 1_000 for earlier, later in pairwise(dates)][:count]


def main(arguments: Sequence[str] | None = None) -> int:
    """Start two Kafkas, observe, and print the waits; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.intervals", description="Observe when a message is transmitted again."
    )
    parser.add_argument("--first", type=int, default=len(WAITS), help="waits of the first message")
    parser.add_argument("--after", type=int, default=3, help="waits of the message after the first success")
    options = parser.parse_args(arguments)
    try:
        with EmbeddedBroker() as here, EmbeddedBroker() as there:
            found = observe(
                Kafka(here.bootstrap, namespace=HOME),
                Kafka(there.bootstrap, namespace=EMEA),
                options.first,
                options.after,
            )
    except BrokerError as error:
        sys.stderr.write(f"error: {error}\n")
        return 3
    sys.stdout.write(json.dumps({**found._asdict(), "promised": WAITS, "wrong": found.wrong()}) + "\n")
    return 1 if found.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
