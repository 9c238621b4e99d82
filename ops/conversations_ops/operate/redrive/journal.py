"""The journal of a redrive: records of the operators topic. They have each run and the outcome of each letter, so that any machine can resume a redrive.

Theory of operation. A run begins with a record that names it, and owns the redrive until the record of another run follows. Before a run gives
letters back, it writes that it does, and reads its records back. If another run began before these records, the run has lost the redrive: it ends, and
gives nothing back. Else the other run reads these records when it begins. So the log decides, and two machines never give the same letter
back without knowing it. This holds without transactions, so an operator needs no right but to read and write the topic.

A record has many letters, because a record for each letter costs more than to give the letter back. The key of a record has its run and its
number, so that compaction keeps all records, and a run that has lost cannot replace what its successor wrote.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice
from typing import NamedTuple, Self

from conversations.config import Kafka
from conversations.kafka.pen import Pen
from conversations_ops.operate.operators_topic import Written, encoded, existing, written
from conversations_ops.operate.redrive.outcomes import Outcome
from conversations_ops.operate.redrive.plan import PlannedLetter

REDRIVE = "redrive"
"""The first part of the keys of all records about redrives."""
RUN, LETTERS = "run", "letters"
LETTER = "letter"
"""In the key of a record with one letter. Earlier releases wrote such records."""
_OUTCOMES = {it.value: it for it in Outcome}
MANY = 1_000
"""Maximum number of letters in a record."""


class TakenOver(Exception):
    """Another run has begun, so this run must not give back any letter."""


class Entry(NamedTuple):
    """The outcome of one letter."""

    outcome: Outcome
    command: str = ""
    """Id of the command whose answer is awaited; empty if none is."""


class History:
    """What the runs of a redrive have written, in the order of the log."""

    def __init__(self, redrive: str) -> None:
        self.redrive = redrive
        self.run = ""
        """The run that owns the redrive; empty if it was never started."""
        self.entries: dict[str, Entry] = {}

    def take(self, records: Iterable[Written]) -> None:
        """Take records of the topic. Records about other things are left out, and records of a run that has lost the redrive."""
        for it in records:
            match it.key.split("/", 4):
                case [_, self.redrive, kind, run] if kind == RUN and it.fields:
                    self.run = run
                case [_, self.redrive, kind, run, _] if kind == LETTERS and run == self.run:
                    self._note_all(it.fields.get("letters"))
                case [_, self.redrive, kind, run, letter] if kind == LETTER and run == self.run:
                    self._note(letter, it.fields.get("outcome"), it.fields.get("command", ""))

    def _note_all(self, letters: object) -> None:
        """Note the letters of a record. Any program may have written the record, so the record may be anything."""
        if isinstance(letters, dict):
            for letter, it in letters.items():
                if isinstance(it, list) and len(it) == len(Entry._fields):
                    self._note(letter, *it)

    def _note(self, letter: str, outcome: object, command: object) -> None:
        if isinstance(outcome, str) and outcome in _OUTCOMES:
            self.entries[letter] = Entry(_OUTCOMES[outcome], str(command))

    def is_over(self, letters: Iterable[PlannedLetter]) -> bool:
        """Return True if each of the letters has its final outcome, so that no run can change anything."""
        return all(it.letter in self.entries and self.entries[it.letter].outcome.final for it in letters)


class Journal:
    """Writes what a run does. Use it in a ``with`` block.

    Args:
        kafka: the cluster and namespace.
        history: what earlier runs have written before the offset ``since``.
        since: offset in the operators topic.

    Raises:
        LogError: the topic is missing, or cannot be read.
    """

    def __init__(self, kafka: Kafka, history: History, since: int) -> None:
        self.history = history
        self._run = os.urandom(8).hex()
        self._numbers = count()
        self._pen = Pen(kafka, existing(kafka), lambda records: history.take(written(records)), since)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pen.__exit__(*exc)

    def begin(self, by: str, reason: str, at: int) -> None:
        """Begin the run. Afterwards ``history`` has everything that earlier runs have written. ``at`` is in microseconds since 1970.

        Raises:
            LogError: the topic cannot be written or read.
            TakenOver: another run began after this one.
        """
        name = _key(self.history.redrive, RUN, self._run)
        self._pen.append(encoded([(name, {"by": by, "reason": reason, "at": at})]))
        self._check()

    def send(self, commands: Mapping[str, str]) -> None:
        """Write that letters will be given back by commands, and return when this run may append the commands.

        Args:
            commands: ids of the commands, by letter.

        Raises:
            LogError: the topic cannot be written or read.
            TakenOver: another run began, so the letters must not be given back.
        """
        self._pen.append(self._records({letter: Entry(Outcome.SENT, command) for letter, command in commands.items()}))
        self._check()

    def note(self, outcomes: Mapping[str, Outcome]) -> None:
        """Begin to write outcomes of letters. They are written when the next ``send`` returns, and at the end of the ``with`` block."""
        self._pen.begin(self._records({letter: Entry(outcome) for letter, outcome in outcomes.items()}))

    def _records(self, entries: Mapping[str, Entry]) -> Iterator[tuple[bytes, bytes]]:
        return encoded(
            (_key(self.history.redrive, LETTERS, self._run, str(next(self._numbers))), {"letters": some})
            for some in parts(entries)
        )

    def _check(self) -> None:
        self._pen.read_back()
        if self.history.run != self._run:
            raise TakenOver


def parts(entries: Mapping[str, Entry]) -> Iterator[dict[str, Entry]]:
    """Yield the entries of each record: at most ``MANY`` in one."""
    left = iter(entries.items())
    while some := dict(islice(left, MANY)):
        yield some


def _key(*names: str) -> str:
    return "/".join((REDRIVE, *names))
