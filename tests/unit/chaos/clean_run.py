"""A run of two services on the log in memory, with crashes, aborts and slow handlers, and everything it left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from random import Random
from uuid import UUID

from pydantic import BaseModel

from conversations import Contract, Dialog, MessageType, Service, Then
from conversations.memory.record import MemoryRecord
from conversations.ports import Out
from conversations.protocol.command import Action, Begin, Command, Operation, Send, encode_command
from conversations.protocol.identifiers import RANDOM_BITS, uuid7
from conversations.protocol.parked import Decision
from conversations.testing import Faults, Simulation
from tests.chaos.checker.files import plan_of
from tests.chaos.checker.records import HandlerRun, Log, Notes, Plan, Position, Record
from tests.chaos.fates import CODES, MENDED, POLICIES, Fate, suffer

TELLER, LEDGER = "chaos-teller", "chaos-ledger"
LENGTHS = (1, 5, 17, 30, 8, 12, 3, 21)
OPEN = 2
"""The last dialogs are not ended."""
BLOCK = 4
SICK = {
    0: Fate(0, 5, Then.DISABLE_QUEUE), 1: Fate(2, 3, Then.SKIP), 2: Fate(5, 5, Then.SKIP), 3: Fate(7, 6, Then.HOLD, Action.RETRY),
    4: Fate(3, 4, Then.HOLD, Action.EDIT), 5: Fate(4, 5, Then.HOLD, Action.SKIP), 6: Fate(1, 9, Then.HOLD, Action.END),
    7: Fate(10, 4, Then.END_DIALOG),
}  # fmt: skip
"""Of each dialog an entry that fails: one at first only, the others until their policy gives up; the last two end by that."""
PAUSE = timedelta(seconds=5)


class Entry(BaseModel):
    n: int
    pad: str


class Receipt(BaseModel):
    n: int
    digest: str


class Tally(BaseModel):
    count: int = 0
    digest: str = ""


ENTRIES = Contract(
    "chaos.entries",
    sent_by_initiator=[MessageType("chaos.Entry", Entry)],
    sent_by_target=[MessageType("chaos.Receipt", Receipt)],
)


@dataclass
class Run:
    """What the checker is given of a run."""

    log: Log
    plan: Plan
    notes: Notes
    aborted: list[Record]
    """Records of transactions that did not commit."""


class _Services:
    """Both services, and the notes of their handlers."""

    def __init__(self, ends: dict[str, int], fates: Mapping[str, Fate]) -> None:
        self.notes: list[HandlerRun] = []
        self.teller = Service(TELLER, initiates=[ENTRIES], state=Tally)
        self.ledger = Service(LEDGER, accepts=[ENTRIES], state=Tally, poison=POLICIES)
        receipts = {name: length - (name in fates and fates[name].skipped) for name, length in ends.items()}

        @self.teller.on("chaos.Receipt")
        def received(receipt: Receipt, dialog: Dialog[Tally]) -> None:
            self.notes.append(HandlerRun(dialog.id, True, receipt.n))
            _advance(dialog.group.state, receipt.n, receipt.digest)
            if dialog.group.state.count == receipts.get(dialog.id):
                dialog.end()

        @self.ledger.on("chaos.Entry")
        def written(entry: Entry, dialog: Dialog[Tally]) -> None:
            self.notes.append(HandlerRun(dialog.id, False, entry.n))
            fate = fates.get(dialog.id)
            suffer(fate and fate.plain(), entry.n, entry.pad, dialog.message.attempt)
            _advance(dialog.group.state, entry.n, entry.pad)
            dialog.send(Receipt(n=entry.n, digest=dialog.group.state.digest))


def _advance(state: Tally, n: int, text: str) -> None:
    state.count += 1
    state.digest = sha256(f"{state.digest}{n}:{text}".encode()).hexdigest()


def run(seed: int = 7, *, faulty: bool = True, sick: Mapping[int, Fate] | None = None) -> Run:
    """Let the services handle a few dialogs, with records duplicated, misrouted and broken on the way.

    Args:
        seed: of everything drawn.
        faulty: transactions are aborted, workers die and partitions move; without it no offset is left out.
        sick: which dialogs hold an entry that fails.
    """
    random = Random(seed)
    faults = Faults(seed=seed, crash=0.05, abort=0.05, revoke=0.02, slow=0.1) if faulty else None
    with Simulation(faults=faults, raise_failures=False) as sim:
        names = [str(uuid7(sim.clock.now(), random.getrandbits(RANDOM_BITS))) for _ in LENGTHS]
        lengths = dict(zip(names, LENGTHS, strict=True))
        ends = dict(list(lengths.items())[:-OPEN])
        fates = {names[number]: fate for number, fate in (sick or {}).items()}
        services = _Services(ends, fates)
        sim.deploy(services.teller)
        sim.deploy(services.ledger)
        where: dict[str, list[Position]] = {"duplicates": [], "misrouted": [], "corrupt": []}
        commands = [command for name, length in lengths.items() for command in _commands(name, length, sim.clock.now())]
        for number, (key, value) in enumerate(commands):
            sim.broker.append_keyed(TELLER, "commands", key, value)
            if number % 4 == 0:
                sim.run()
                _inject(sim, random, where)
        _let_operators_work(sim, fates)
        _inject(sim, random, where)
        sim.run()
    plan = plan_of({
        "namespace": sim.broker.namespace, "dialogs": lengths, "ends": list(ends),
        "fates": {name: fate.plain() for name, fate in fates.items()},
        "faults": {kind: {"count": len(places), "where": places} for kind, places in where.items()},
    })  # fmt: skip
    records = [record for partitions in sim.broker.topics.values() for found in partitions for record in found]
    log = Log(
        [_record(record) for record in records if record.visible],
        {(topic, number): len(found) for topic, logs in sim.broker.topics.items() for number, found in enumerate(logs)},
    )
    aborted = [_record(record) for record in records if not record.visible and record.value() is not None]  # no markers
    return Run(log, plan, {"all.jsonl": services.notes}, aborted)


def _let_operators_work(sim: Simulation, fates: Mapping[str, Fate]) -> None:
    """Wait for further attempts, decide about what is held, and turn queues on, until nothing waits."""
    sim.run()
    while waiting := sim.parked(LEDGER):
        for it in waiting:
            fate = fates[it.conversation]
            if it.held and fate.decision is not None:
                body = json.dumps({"n": it.number, "pad": MENDED}).encode() if fate.edited else b""
                sim.decide(it, Decision(fate.decision, "test", "a reason", body, CODES[Then.HOLD], "ended by hand"))
        if any(it.queue_off for it in waiting):
            sim.turn_queue(LEDGER, on=True)
        sim.advance(PAUSE)


def _commands(name: str, length: int, now: int) -> list[tuple[bytes, bytes]]:
    """Cut a dialog into commands of a few entries; one of them is sent twice."""
    found = []
    for first in range(0, length, BLOCK):
        numbers = range(first, min(first + BLOCK, length))
        sends: list[Operation] = [
            Send("chaos.Entry", "application/json", json.dumps({"n": n, "pad": f"{name[-4:]}é{n}"}).encode())
            for n in numbers
        ]
        begin: list[Operation] = [Begin(LEDGER, "chaos.entries", 0, "")] if first == 0 else []
        conversation = UUID(name).bytes
        value = encode_command(
            Command(conversation, conversation, True, name, f"{first}", "test", now, (*begin, *sends))
        )
        found += [(name.encode(), value)] * (2 if first == BLOCK else 1)
    return found


def _inject(sim: Simulation, random: Random, where: dict[str, list[Position]]) -> None:
    """Repeat, misroute and spoil records of the queues and of the commands."""
    for service, kind in ((LEDGER, "queue"), (TELLER, "queue"), (TELLER, "commands")):
        logs = sim.broker.topics[f"{sim.broker.namespace}.{service}.{kind}"]
        there = [record for found in logs for record in found if record.visible]
        if not there:
            continue
        for fault, change in (("duplicates", _same), ("misrouted", _elsewhere), ("corrupt", _broken)):
            out = change(random.choice(there), len(logs))
            where[fault].append((out.topic, out.partition, sim.broker.append(out)))


def _same(record: MemoryRecord, partitions: int) -> Out:
    return Out(record.topic(), record.partition(), record.key(), record.value(), record.headers())


def _elsewhere(record: MemoryRecord, partitions: int) -> Out:
    return _same(record, partitions)._replace(partition=(record.partition() + 1) % partitions)


def _broken(record: MemoryRecord, partitions: int) -> Out:
    return _same(record, partitions)._replace(value=(record.value() or b"")[:-1])


def _record(record: MemoryRecord) -> Record:
    return Record(
        record.topic(), record.partition(), record.offset(), record.timestamp()[1], record.key(), record.value(),
        tuple(record.headers() or ()),
    )  # fmt: skip
