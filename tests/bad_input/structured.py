"""Structured fuzzing of whole workers: well-formed records and commands with extreme fields. No process may end.

``python -m tests.bad_input.structured --inputs 1000000 --seed 7`` in memory; ``--kafka --minutes 10`` on a real Kafka, the
broker of ``KAFKA_BOOTSTRAP`` or an embedded one. The records of a round depend only on the seed and the number of the round. ``--first N`` begins with round N.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

from conversations import Dialog, GiveUp, PoisonPolicy, RetryLater, Service, Then, WorkerSettings
from conversations.crew import Crew, kafka_worker
from conversations.errors import PeerError
from conversations.protocol.command import Switch, decode_command, encode_command, to_partition
from conversations.protocol.topics import COMMANDS, DECISIONS
from conversations.testing import Simulation
from conversations.worker import Worker
from conversations_ops.broker import EmbeddedBroker
from tests.bad_input.extremes import UNREADABLE, Extremes
from tests.bad_input.fuzzing import peak_memory
from tests.bad_input.support import raw_headers
from tests.bad_input.support.forging import Forged, Known
from tests.bad_input.support.kafka_log import KafkaPlace
from tests.bad_input.support.logs import Memory, Place
from tests.bad_input.support.outcomes import begin, order
from tests.bad_input.support.services import BLOB, LEDGER, PARTITIONS, PING, TRADE, Order, Receipt, Seen, web
from tests.support.waiting import until

BATCH = 25
"""Number of records that are sent together."""
BATCHES = 16
"""Number of batches in a round. After a round the healthy dialogs must be complete, and a new simulation begins."""
PAUSES = [timedelta(0)] * 6 + [timedelta(seconds=1), timedelta(minutes=2), timedelta(hours=2)]
HEALTHY = 2


def moody() -> Service[Seen]:
    """Return the shop with handlers that do everything that a handler may do. The number of the order selects the action."""
    shop = Service("shop", accepts=[TRADE], state=Seen, poison=[
        PoisonPolicy(exception=KeyError, then=Then.SKIP), PoisonPolicy(delays=[timedelta(seconds=5)]),
    ])  # fmt: skip

    @shop.on(Order)
    def handle(body: Order, dialog: Dialog[Seen]) -> None:
        dialog.group.state.orders = [*dialog.group.state.orders, body.n][-50:]
        dialog.send(Receipt(n=body.n))
        if body.n == 3:
            dialog.set_timer(timedelta(seconds=1))
        elif body.n == 4:
            raise ValueError(body.n)
        elif body.n == 7:
            raise RetryLater(timedelta(days=100))
        elif body.n < -1_000:
            raise GiveUp("too small")
        elif body.n > 1 << 40:
            raise KeyError(body.n)

    @shop.on(BLOB)
    @shop.on(PING)
    @shop.on(LEDGER)
    def other(body: object, dialog: Dialog[Seen]) -> None:
        dialog.group.state.other += 1
        if body is None:
            dialog.end()

    @shop.on_timer()
    def ring(dialog: Dialog[Seen]) -> None:
        dialog.set_timer(timedelta(days=30))
        if dialog.group.state.other % 3 == 1:
            raise ValueError("the timer's own")

    @shop.on_error()
    def broken(error: PeerError, dialog: Dialog[Seen]) -> None:
        if error.code > 1_000:
            raise ValueError(error.description)

    return shop


@dataclass
class Tally:
    """Counts of the records that were sent, and of the outcomes."""

    inputs: int = 0
    rounds: int = 0
    events: Counter[str] = field(default_factory=Counter)
    caught: Counter[str] = field(default_factory=Counter)
    """Exceptions of our own code for which a record was set aside."""


CATCHING_UP = 300.0
"""Seconds that the workers may take at the end for records that were sent faster than they handle them."""


class Ended(AssertionError):
    """A worker ended, stopped working, or set a partition aside."""


def check(place: Place, healthy: list[Known], expected: list[int], tally: Tally) -> None:
    """Raise ``Ended`` if a healthy dialog is not complete, or if a partition was set aside. Count the events."""
    states = place.states("web")
    for one in healthy:
        if (found := states.get(str(one.conversation), {}).get("receipts")) != expected:
            raise Ended(f"a healthy dialog has the receipts {found}, not {expected}")
    for name in ("PARTITION_SET_ASIDE", "SET_ASIDE", "COMMAND_REFUSED", "GAVE_UP", "QUEUE_DISABLED"):
        tally.events[name] += len(place.events(name))
    for event in (*place.events("SET_ASIDE"), *place.events("COMMAND_REFUSED")):
        if "failed: " in event["why"] or event.get("code") == 0:
            tally.caught[event["why"][:120]] += 1
    if found := place.events("PARTITION_SET_ASIDE"):
        raise Ended(f"a partition was set aside: {found[0]}")


def queues_on(now: int, random: Random) -> list[Forged]:
    """Return commands that turn the queue of every partition on."""
    commands = [
        to_partition((number, PARTITIONS), Switch(on=True, reason="healthy"), "operator", random.randbytes(16), now)
        for number in range(PARTITIONS)
    ]
    return [Forged(it.key.encode(), encode_command(it), None, number) for number, it in enumerate(commands)]


# -- in memory -------------------------------------------------------------------------------------------------------


def round_in_memory(seed: str, tally: Tally) -> None:
    """Send one round of records to two services, in a new simulation.

    Raises:
        Exception: a worker ended with this exception.
    """
    random = Random(seed)
    with Simulation(moody(), web(), partitions=PARTITIONS, raise_failures=False) as sim:
        place = Memory(sim)
        extremes = Extremes(random, place.now)
        healthy = [extremes.healthy() for _ in range(HEALTHY)]
        extremes.dialogs = [extremes.healthy() for _ in range(4)]
        place.throw("web", COMMANDS, [begin(one) for one in healthy + extremes.dialogs])
        sim.run()
        for batch in range(1, BATCHES + 1):
            for _ in range(BATCH):
                service, kind, record = extremes.record()
                place.throw(service, kind, [record])
            tally.inputs += BATCH
            if batch % 8 == 0:
                place.throw("web", COMMANDS, [replace_now(order(one, 1 + batch // 8), place) for one in healthy])
            sim.advance(random.choice(PAUSES))
            if random.random() < 0.05:
                sim.crash(random.choice(["shop", "web"]))
        for service in ("shop", "web"):
            place.throw(service, DECISIONS, queues_on(place.now(), random))
        sim.advance(timedelta(minutes=5))
        check(place, healthy, [0, *range(2, 2 + BATCHES // 8)], tally)
    tally.rounds += 1


def in_memory(inputs: int, seed: int, first: int, tally: Tally) -> None:
    """Send this many records, round by round, and show the progress."""
    while tally.inputs < inputs:
        name = f"{seed} {first + tally.rounds}"
        try:
            round_in_memory(name, tally)
        except BaseException as failure:
            failure.add_note(f"repeat it: --seed {seed} --first {first + tally.rounds} --inputs 1")
            raise
        _show(tally, tally.inputs / inputs)


# -- on Kafka --------------------------------------------------------------------------------------------------------


class Bar:
    """Shows the progress: in one line that is overwritten on a terminal, else in a new line from time to time."""

    last = 0.0


def _show(tally: Tally, share: float) -> None:
    now = time.monotonic()
    if now - Bar.last < (0.5 if sys.stderr.isatty() else 30) and share < 1:
        return
    Bar.last = now
    done = int(40 * min(share, 1))
    end = "\r" if sys.stderr.isatty() and share < 1 else "\n"
    sys.stderr.write(f"[{'#' * done}{'.' * (40 - done)}] {share:4.0%} {tally.inputs:,} records{end}")
    sys.stderr.flush()


@contextmanager
def _kafka() -> Iterator[str]:
    if given := os.environ.get("KAFKA_BOOTSTRAP"):
        yield given
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


def on_kafka(bootstrap: str, seconds: float, seed: int, tally: Tally) -> None:
    """Send records to two workers for this many seconds, and check that the healthy dialogs complete.

    Raises:
        Exception: a worker ended with this exception.
    """
    place, random = KafkaPlace(bootstrap), Random(seed)
    extremes = Extremes(random, place.now)
    workers = [kafka_worker(service, place.kafka, WorkerSettings()) for service in (moody(), web())]
    crew = Crew(workers, place.kafka)
    healthy = [extremes.healthy() for _ in range(HEALTHY)]
    extremes.dialogs = [extremes.healthy() for _ in range(4)]
    began = time.monotonic()
    with crew:
        crew.await_ready(60)
        place.throw("web", COMMANDS, [begin(one) for one in healthy + extremes.dialogs])
        while (spent := time.monotonic() - began) < seconds:
            for _ in range(BATCH):
                _throw(place, *extremes.record())
            tally.inputs += BATCH
            crew.raise_failure()
            _show(tally, spent / seconds)
            if random.random() < 0.1:
                extremes.dialogs = [extremes.healthy() for _ in range(4)]
                place.throw("web", COMMANDS, [begin(one) for one in extremes.dialogs])
        for service in ("shop", "web"):
            place.throw(service, DECISIONS, queues_on(place.now(), random))
        place.throw("web", COMMANDS, [replace_now(order(one, 1), place) for one in healthy])

        def complete() -> bool:
            crew.raise_failure()
            states = place.states("web")
            return all(states.get(str(one.conversation), {}).get("receipts") == [0, 1] for one in healthy)

        try:
            until(complete, "the receipts of the healthy dialogs", CATCHING_UP)
        except AssertionError as error:
            raise Ended(f"{error}: {_where(workers, place, healthy)}") from error
        crew.stop()
    check(place, healthy, [0, 1], tally)
    tally.rounds += 1


def _where(workers: list[Worker], place: KafkaPlace, healthy: list[Known]) -> str:
    states = place.states("web")
    receipts = [states.get(str(one.conversation), {}).get("receipts") for one in healthy]
    at = [worker.condition()["partitions"] for worker in workers]
    return f"receipts {receipts}, partitions {at}, {place.events('QUEUE_DISABLED')[-1:]}"


def _throw(place: KafkaPlace, service: str, kind: str, record: Forged) -> None:
    headers = record.headers or []
    if any(it in headers for it in UNREADABLE):
        names = [(name.encode("utf-8", "surrogateescape"), content) for name, content in headers]
        where = place.topic(service, kind), record.partition
        raw_headers.produce(place.kafka.bootstrap, where, record.key or b"", record.value or b"", names)
    else:
        place.throw(service, kind, [record])


def replace_now(record: Forged, place: Place) -> Forged:
    """Return the command with the present time as its time of issue."""
    command = decode_command(record.value or b"")
    return replace(record, value=encode_command(replace(command, issued_at=place.now())))


def main() -> None:
    """Fuzz with the options of the command line. Print the seed first, and the figures at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="number of records to send in memory")
    parser.add_argument("--seed", type=int, default=None, help="seed of an earlier run, to draw the same records again")
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first round, to repeat a round of an earlier run"
    )
    parser.add_argument("--kafka", action="store_true", help="use a real Kafka")
    parser.add_argument("--minutes", type=float, default=10, help="minutes for which records are sent, with --kafka")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    logging.disable(logging.CRITICAL)
    tally, began, before = Tally(), time.monotonic(), peak_memory()
    if given.kafka:
        with _kafka() as bootstrap:
            on_kafka(bootstrap, 60 * given.minutes, seed, tally)
    else:
        in_memory(given.inputs, seed, given.first, tally)
    grown = (peak_memory() - before) / 1_000_000
    facts = ", ".join(f"{count:,} {name}" for name, count in sorted(tally.events.items()))
    sys.stdout.write(
        f"{tally.inputs:,} records in {tally.rounds:,} rounds with seed {seed} in {time.monotonic() - began:.0f} s, no worker ended; "
        f"events: {facts}; caught in our own code: {dict(tally.caught) or 'nothing'}; peak memory grew by {grown:.0f} MB\n"
    )


if __name__ == "__main__":
    main()
