"""The wire between two clusters: a test takes records off it, and puts others on it."""

from collections import Counter
from collections.abc import Callable, Iterator

from conversations.ports import Out
from conversations.protocol.envelope import Envelope, Kind, decode
from conversations.protocol.events import MessageCorrupt, WorkerEvent
from conversations.protocol.topics import events_topic
from conversations.testing import Simulation
from conversations.testing.damage import flip, parts_of
from conversations.testing.reading import visible
from tests.simulation.support.records import queued

BITS = (0x01, 0x80, 0x20)
"""The wrong bits that every byte of a record gets, one of them at a time."""


def taken(sim: Simulation, to: str, is_wanted: Callable[[Envelope], bool] = lambda _: True) -> list[Out]:
    """Take every record to a service off the wire from now on, and return the list that they go into."""
    records: list[Out] = []

    def take(out: Out) -> bool:
        envelope = decode(out.value or b"")
        if envelope.prefix.to_service != to:
            return False
        if is_wanted(envelope):
            records.append(out)
        return True

    sim.wire.lose = take
    return records


def pass_all(sim: Simulation) -> None:
    """Let all later records pass."""
    sim.wire.lose = lambda _: False


def each_byte_wrong(out: Out) -> Iterator[Out]:
    """Return copies of a record: in each of them one byte is wrong, in one bit."""
    for at in range(sum(map(len, parts_of(out)))):
        yield flip(out, at, BITS[at % len(BITS)])


def put(sim: Simulation, out: Out) -> None:
    """Put a record into the queue of its service, as one that must have no effect."""
    sim.broker_of(out.topic.split(".")[1]).ruin(out)


def events(sim: Simulation, kind: type[WorkerEvent] = MessageCorrupt) -> int:
    """Return the number of events of a kind."""
    name = f'"{kind.NAME}"'.encode()
    found = [it for broker in sim.brokers for it in visible(broker, events_topic(broker.namespace))]
    return sum(name in (it.value() or b"") for it in found)


def effects(sim: Simulation, service: str) -> Counter[str]:
    """Count what a service has done: handled messages, acknowledgements and other envelopes that it sent, and dead letters."""
    counts = sim.worker(service).counts
    letters = len(sim.dead_letters(service))
    return Counter(
        handled=counts.handled, accepted=counts.accepted, duplicates=counts.duplicates, set_aside=counts.set_aside, letters=letters
    )  # fmt: skip


def said(sim: Simulation, to: str) -> list[Kind]:
    """Return the kinds of all envelopes in the queue of a service."""
    return [it.kind for it in queued(sim, to)]
