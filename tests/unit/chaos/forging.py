"""Changes what a run left, as a product that breaks its promises would have left it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol
from uuid import UUID

from tests.chaos.checker import avro
from tests.chaos.checker.check import check
from tests.chaos.checker.fates import Fate
from tests.chaos.checker.letters import row_of
from tests.chaos.checker.records import HandlerRun, Plan, Record
from tests.chaos.checker.verdict import Kind, Verdict
from tests.unit.chaos.clean_run import LEDGER, TELLER, Run

Fields = dict[str, Any]


class Forged:
    """A run that may be changed."""

    def __init__(self, run: Run) -> None:
        self.plan: Plan = run.plan
        self.records = list(run.log.records)
        self.ends = dict(run.log.ends)
        self.stable = dict(run.log.stable)
        self.notes: list[HandlerRun] = [note for notes in run.notes.values() for note in notes]
        self.aborted = run.aborted
        self.closed = next(name for name in run.plan.dialogs if name in run.plan.ends and run.plan.dialogs[name] > 9)
        self.open = [name for name in run.plan.dialogs if name not in run.plan.ends][-1]
        self.length = run.plan.dialogs[self.open]

    def verdict(self, log: Any) -> Verdict:
        """What the checker says of it; ``log`` is the type of the checker's log."""
        return check(log(self.records, self.ends, self.stable), self.plan, {"all.jsonl": self.notes})

    # -- finding ------------------------------------------------------------------------------------------------

    def topic(self, service: str, kind: str) -> str:
        return f"{self.plan.namespace}.{service}.{kind}"

    def all(self, topic: str, *, injected: bool = False) -> list[Record]:
        """Records of a topic, those somebody injected or only those nobody did."""
        return [r for r in self.records if r.topic == topic and (r.position in self.plan.injected) == injected]

    def envelope(self, dialog: str, service: str, number: int, kind: str = "MESSAGE") -> Record:
        """The envelope with a number in the queue of a service."""
        for record in self.all(self.topic(service, "queue")):
            if record.value is not None and record.value[10:26] == UUID(dialog).bytes:
                fields = avro.ENVELOPE.decode(record.value)
                if (fields["kind"], fields["seq"]) == (kind, number):
                    return record
        raise LookupError(f"{kind} {number} of {dialog}")

    def entry(self, dialog: str, number: int) -> Record:
        return self.envelope(dialog, LEDGER, number)

    def receipt(self, dialog: str, number: int) -> Record:
        return self.envelope(dialog, TELLER, number)

    def last_command(self, dialog: str) -> Record:
        """The command with the last entries of a dialog, where it came first."""
        of = [r for r in self.all(self.topic(TELLER, "commands")) if r.key == dialog.encode()]
        first = {record.value: record for record in sorted(of, key=lambda r: r.offset, reverse=True)}
        return max(first.values(), key=lambda record: record.offset)

    def row(self, service: str, key: bytes, partition: int | None = None) -> Record:
        """The last row of a key."""
        found = [
            r for r in self.all(self.topic(service, "state")) if r.key == key and partition in {None, r.partition}
        ]  # fmt: skip
        return found[-1]

    def endpoint_key(self, dialog: str, service: str) -> bytes:
        return b"E" + UUID(dialog).bytes + (b"\1" if service == TELLER else b"\0")

    def group_key(self, dialog: str, service: str) -> bytes:
        return b"G" + (b"" if service == TELLER else TELLER.encode()) + b"\0" + dialog.encode()

    def acknowledged(self, dialog: str, service: str) -> int:
        """The largest acknowledgement in what was sent to a service in a dialog."""
        of = [r for r in self.all(self.topic(service, "queue")) if (r.value or b"")[10:26] == UUID(dialog).bytes]
        return max(int(avro.ENVELOPE.decode(r.value or b"")["ack"]) for r in of)

    # -- changing -----------------------------------------------------------------------------------------------

    def remove(self, *records: Record) -> None:
        for record in records:
            self.records.remove(record)

    def lose(self, record: Record) -> None:
        """Remove a record and the duplicates of it that were injected."""
        same = record._replace(offset=0, timestamp=0)
        self.remove(*[r for r in self.records if r._replace(offset=0, timestamp=0) == same])

    def put(self, record: Record, **changes: Any) -> Record:
        """Change a record where it stands."""
        changed = record._replace(**changes)
        self.records[self.records.index(record)] = changed
        return changed

    def append(self, record: Record) -> Record:
        """Append a record to its partition; whoever reads the topic has read it."""
        place = record.topic, record.partition
        added = record._replace(offset=self.ends[place])
        self.ends[place] += 1
        self.records.append(added)
        topic, _, kind = record.topic.rpartition(".")
        service = topic.removeprefix(f"{self.plan.namespace}.")
        if kind in {"queue", "commands"}:
            self.change_row(self.row(service, b"P", record.partition), avro.PARTITION, **{kind: self.ends[place]})
        return added

    def inject(self, record: Record, kind: str) -> Record:
        """Append a record that the plan knows of."""
        added = self.append(record)
        self.plan = replace(self.plan, injected={**self.plan.injected, added.position: kind})
        return added

    def change_row(self, record: Record, schema: avro.Schema, **changes: Any) -> Record:
        """Change fields of a record of the state."""
        fields = schema.decode(record.value or b"") | changes
        return self.put(record, value=schema.encode(fields))

    def like(self, record: Record, **changes: Any) -> Record:
        """An envelope like another one."""
        fields = avro.ENVELOPE.decode(record.value or b"") | changes
        return record._replace(value=avro.ENVELOPE.encode(fields))

    def next_row(self, service: str, partition: int, key: bytes, value: bytes | None) -> Record:
        """Append a row to a state partition."""
        place = self.topic(service, "state"), partition
        timestamp = self.records[0].timestamp
        return self.append(Record(*place, 0, timestamp, key, value))

    def set_aside(self) -> Record:
        """A dead letter of a record that was set aside."""
        return self.letters("set-aside")[0]

    def letters(self, reason: str) -> list[Record]:
        return [
            r for s in (TELLER, LEDGER) for r in self.all(self.topic(s, "dead-letter"))
            if dict(r.headers)["dl.reason"] == reason.encode()
        ]  # fmt: skip

    def letter_of(self, record: Record, reason: str, dialog: str = "", number: int = -1) -> Record:
        """Append a dead letter that keeps a record."""
        topic, partition, offset = record.position
        headers = {
            "dl.reason": reason, "dl.source-topic": topic, "dl.source-partition": partition, "dl.source-offset": offset,
            "dl.conversation": dialog, "dl.from-initiator": "true", "dl.sequence": number,
        }  # fmt: skip
        said: list[tuple[str, bytes | None]] = [(name, str(what).encode()) for name, what in headers.items()]
        said += [(f"dl.header.{name}", what) for name, what in record.headers if reason == "set-aside"]
        letter = self.append(record._replace(topic=f"{topic.rpartition('.')[0]}.dead-letter", headers=tuple(said)))
        if reason != "command-refused":
            service = topic.removeprefix(f"{self.plan.namespace}.").rpartition(".")[0]
            self.next_row(service, partition, row_of(record.position), bytes(8))
        return letter

    def give_back(self, record: Record, dialog: str, number: int, *, uncertain: bool = False, **changes: Any) -> Record:
        """Append a dead letter of the initiator that gives an entry back."""
        topic, partition, _ = record.position
        headers = {
            "dl.reason": "undeliverable", "dl.source-topic": topic, "dl.source-partition": partition, "dl.source-offset": 1 << 62,
            "dl.conversation": dialog, "dl.from-initiator": "true", "dl.sequence": number,
        } | ({"dl.uncertain": "true"} if uncertain else {})  # fmt: skip
        said = tuple((name, str(what).encode()) for name, what in headers.items())
        letter = self.like(record, **changes)
        return self.append(letter._replace(topic=self.topic(TELLER, "dead-letter"), headers=said))

    def keep_sent(self, dialog: str, first: int, count: int) -> Record:
        """Append a row of the initiator with envelopes that are not acknowledged."""
        key = b"U" + UUID(dialog).bytes + b"\1" + first.to_bytes(8, "big")
        partition = self.row(TELLER, self.endpoint_key(dialog, TELLER)).partition
        return self.next_row(TELLER, partition, key, avro.UNACKNOWLEDGED.encode({"tails": [b"x"] * count}))

    def forget(self, letter: Record) -> None:
        """Remove the row that says that a letter is open."""
        headers = {name: value or b"" for name, value in letter.headers}
        topic = headers["dl.source-topic"].decode()
        key = row_of((topic, letter.partition, int(headers["dl.source-offset"])))
        service = topic.removeprefix(f"{self.plan.namespace}.").rpartition(".")[0]
        self.next_row(service, letter.partition, key, None)

    def sick(self, then: str, decision: str = "") -> tuple[str, Fate]:
        """A dialog whose policy, and operator, did this to an entry."""
        fates = self.plan.fates.items()
        return next((n, f) for n, f in fates if (f.then, f.decision) == (then, decision) and f.given_up)

    def other_fate(self, dialog: str, **changes: Any) -> None:
        """Let the plan say something else of an entry than what happened."""
        fates = {**self.plan.fates, dialog: self.plan.fates[dialog]._replace(**changes)}
        self.plan = replace(self.plan, fates=fates)


class Plant(Protocol):
    """A function that plants a fault."""

    __name__: str

    def __call__(self, run: Forged, /) -> None: ...


class Plants(list[tuple[Plant, Kind, set[Kind]]]):
    """What is planted, the name of its violation, and the names of what may follow from it."""

    def __call__(self, kind: Kind, *following: Kind) -> Callable[[Plant], Plant]:
        """Add the function that is decorated."""

        def register(plant: Plant) -> Plant:
            self.append((plant, kind, set(following)))
            return plant

        return register
