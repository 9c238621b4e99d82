"""Dead letters, records set aside and their events: each keeps the bytes of one record, once, for a reason."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from tests.chaos.checker.fates import HOLD
from tests.chaos.checker.records import Position, Record
from tests.chaos.checker.topics import COMMANDS, DEAD_LETTER, DECISIONS, QUEUE, Topics
from tests.chaos.checker.verdict import Kind, Verdict

SET_ASIDE, COMMAND_REFUSED, SKIPPED, UNDELIVERABLE = "set-aside", "command-refused", "skipped", "undeliverable"
HEADERS_LIMIT = 16_384
"""Bytes of a record's own headers up to which its letter repeats them."""


class Letter(NamedTuple):
    """One dead letter: why, of what, and the record that holds it; or one part of one."""

    reason: str
    source: Position
    conversation: str
    from_initiator: bool
    sequence: int
    record: Record
    part: str
    """``number/count``; empty for a whole letter."""
    part_of: str
    held: bool
    """Its message is still the head of its dialog: the letter settles nothing."""
    uncertain: bool
    """Its sender wrote it, and does not know whether the message was accepted."""


_LETTERS = {QUEUE: b"q", COMMANDS: b"c", DECISIONS: b"d"}


def row_of(source: Position) -> bytes:
    """Key of the row of an open letter."""
    topic, _, offset = source
    return b"L" + _LETTERS[topic.rpartition(".")[2]] + offset.to_bytes(8, "big") + bytes(8)


def _place(key: bytes) -> str:
    kind = next((kind for kind, letter in _LETTERS.items() if letter == key[1:2]), "nothing")
    return f"{kind} offset {int.from_bytes(key[2:10], 'big')}"


class Letters:
    """All dead letters, by the position of the record they keep."""

    def __init__(self, topics: Topics, verdict: Verdict) -> None:
        self._topics, self._verdict = topics, verdict
        self.by_source: dict[Position, list[Letter]] = defaultdict(list)
        self.messages: dict[tuple[str, bool, int], Letter] = {}
        """Those that settle a numbered message, by conversation, sender's side and number."""
        self.returned: dict[tuple[str, bool, int], Letter] = {}
        """Those that a sender wrote of its own message, which its peer has left to it."""
        self.reasons: dict[str, dict[tuple[bool, int], list[str]]] = defaultdict(lambda: defaultdict(list))
        """Of all letters of numbered messages, in order, by conversation; then by sender's side and number."""
        self.open: set[tuple[str, int, bytes]] = set()
        """Letters that no dialog waits for: service, partition, and the key of the row that says so."""
        self._unbelievable: set[Position] = set()
        for service in topics.services:
            for record in topics.of(service, DEAD_LETTER):
                self._read(service, record)
        self.gave_up: dict[str, list[str]] = defaultdict(list)
        """What was done each time a message of a conversation was given up on, as the events tell it."""
        self._events = self._read_events()
        self._check_bytes()

    # -- asked by others ------------------------------------------------------------------------------------

    def took_aside(self, position: Position) -> bool:
        """Whether the service set a record aside; such a one takes no number."""
        return any(letter.reason == SET_ASIDE for letter in self.by_source.get(position, ()))

    def of_command(self, position: Position) -> bool:
        """Whether the service refused a command."""
        return any(letter.reason == COMMAND_REFUSED for letter in self.by_source.get(position, ()))

    def must_be_set_aside(self, record: Record) -> None:
        """Nobody may believe this record."""
        self._unbelievable.add(record.position)
        if record.position not in self._topics.plan.injected:
            self._verdict.add(Kind.UNBELIEVABLE, str(record.position), "it is not what its topic is for")
        if not self.took_aside(record.position):
            self._verdict.add(Kind.LETTER_LOST, str(record.position), "it should have become a dead letter")

    # -- reading ----------------------------------------------------------------------------------------------

    def _read(self, service: str, record: Record) -> None:
        headers = {name: value.decode("utf-8", "replace") for name, value in record.headers if value is not None}
        try:
            letter = Letter(
                headers["dl.reason"],
                (headers["dl.source-topic"], int(headers["dl.source-partition"]), int(headers["dl.source-offset"])),
                headers.get("dl.conversation", ""),
                headers.get("dl.from-initiator") == "true",
                int(headers.get("dl.sequence", "-1")),
                record,
                headers.get("dl.part", ""),
                headers.get("dl.part-of", ""),
                headers.get("dl.held") == "true",
                headers.get("dl.uncertain") == "true",
            )
        except (KeyError, ValueError) as error:
            self._verdict.add(
                Kind.LETTER_BYTES, str(record.position), f"its headers do not say where it is from: {error!r}"
            )
            return
        if letter.reason == UNDELIVERABLE:
            self._came_back(service, letter)
            return
        if letter.source[0].rpartition(".")[0] != self._topics.name(service, "")[:-1]:
            self._verdict.add(Kind.LETTER_UNFOUNDED, str(record.position), f"it is of another service: {letter.source}")
        if letter.source[1] != record.partition:
            self._verdict.add(Kind.WRONG_PARTITION, str(record.position), f"a dead letter of {letter.source}")
        self.by_source[letter.source].append(letter)
        if not letter.held and letter.reason not in (SKIPPED, COMMAND_REFUSED):
            self.open.add((service, record.partition, row_of(letter.source)))
        if letter.sequence >= 0 and letter.source not in self._topics.plan.injected:
            self.reasons[letter.conversation][letter.from_initiator, letter.sequence].append(letter.reason)
            if not letter.held:
                self.messages.setdefault((letter.conversation, letter.from_initiator, letter.sequence), letter)

    def _came_back(self, service: str, letter: Letter) -> None:
        """Note a letter of a sender: it keeps no record, but an envelope that only its sender has."""
        name = letter.conversation, letter.from_initiator, letter.sequence
        if name in self.returned:
            self._verdict.add(Kind.LETTER_TWICE, letter.conversation, f"number {letter.sequence} came back twice")
        if letter.from_initiator != (service == self._topics.plan.initiator):
            self._verdict.add(Kind.LETTER_UNFOUNDED, letter.conversation, f"{service} did not send {letter.sequence}")
        self.returned[name] = letter
        self.reasons[letter.conversation][letter.from_initiator, letter.sequence].append(letter.reason)

    def _read_events(self) -> Counter[Position]:
        found: Counter[Position] = Counter()
        for record in self._topics.records[self._topics.events]:
            try:
                event = json.loads(record.value or b"")
                if event["event"] == "GAVE_UP":
                    self.gave_up[event["conversation"]].append(event["then"])
                elif event["event"] == "SET_ASIDE":
                    found[event["topic"], event["partition"], event["offset"]] += 1
            except (ValueError, KeyError, TypeError) as error:
                self._verdict.add(Kind.ROW_BROKEN, str(record.position), f"an event that cannot be read: {error!r}")
        return found

    def _check_bytes(self) -> None:
        inputs = self._topics.inputs
        for source, letters in self.by_source.items():
            where = str(source)
            whole = [letter for letter in letters if not letter.part]
            final = [letter for letter in whole if not letter.held]
            if len(final) + bool(len(letters) - len(whole)) > 1:
                self._verdict.add(Kind.LETTER_TWICE, where, f"{len(letters)} dead letters keep it")
            original = inputs.get(source)
            if original is None:
                self._verdict.add(Kind.LETTER_UNFOUNDED, where, f"there is no such record; {letters[0].reason}")
                continue
            if len(letters) > len(whole):
                self._check_parts(original, [letter for letter in letters if letter.part])
            for letter in whole:
                self._check_whole(original, letter)

    def _check_whole(self, original: Record, letter: Letter) -> None:
        if (letter.record.key, letter.record.value) != (original.key, original.value):
            self._verdict.add(
                Kind.LETTER_BYTES, str(letter.source), f"{letter.record.position} differs from the original"
            )
        if letter.reason != SET_ASIDE or letter.conversation:
            return  # what was understood needs no header
        own = [(name, value or b"") for name, value in original.headers]
        if sum(len(name.encode()) + len(value) + len("dl.header.") for name, value in own) > HEADERS_LIMIT:
            return
        kept = [
            (n.removeprefix("dl.header."), v or b"") for n, v in letter.record.headers if n.startswith("dl.header.")
        ]
        if kept != own:
            self._verdict.add(Kind.LETTER_BYTES, str(letter.source), f"it had headers {own}, its letter has {kept}")

    def _check_parts(self, original: Record, parts: list[Letter]) -> None:
        """A record too large for one letter is kept in several, in order."""
        numbers = [f"{number}/{len(parts)}" for number in range(1, len(parts) + 1)]
        key, value = (
            b"".join(letter.record.value or b"" for letter in parts if letter.part_of == of) for of in ("key", "value")
        )
        if [letter.part for letter in parts] != numbers:
            self._verdict.add(Kind.LETTER_BYTES, str(original.position), f"parts {[letter.part for letter in parts]}")
        elif value != (original.value or b"") or (key or parts[0].record.key) != original.key:
            self._verdict.add(Kind.LETTER_BYTES, str(original.position), "its parts are not the original")

    # -- afterwards -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Compare with what was to be set aside, and with the events."""
        aside = {source for source in self.by_source if self.took_aside(source)}
        for source in sorted(aside - self._unbelievable):
            if source not in self._topics.plan.injected:
                self._verdict.add(Kind.LETTER_UNFOUNDED, str(source), "set aside, though nothing is wrong with it")
        for source in sorted(aside):
            if self._events[source] != 1:
                self._verdict.add(Kind.EVENT_MISSING, str(source), f"{self._events[source]} events for it")
        for source in sorted(set(self._events) - aside):
            self._verdict.add(Kind.EVENT_UNFOUNDED, str(source), "an event says that it was set aside")
        self._unwanted()

    def _unwanted(self) -> None:
        """Of dialogs without a fate nothing is given up on; of the others `Dialog` says what may be."""
        for source, letters in self.by_source.items():
            for letter in letters:
                fate = self._topics.plan.fates.get(letter.conversation)
                may_refuse = fate is not None and (fate.ends or fate.then == HOLD)  # an operator may decide twice
                if source in self._topics.plan.injected or (fate is not None and letter.sequence >= 0):
                    continue
                if letter.reason != SET_ASIDE and not (letter.reason == COMMAND_REFUSED and may_refuse):
                    kind = Kind.COMMAND_REFUSED if letter.reason == COMMAND_REFUSED else Kind.GAVE_UP
                    self._verdict.add(kind, letter.conversation or str(source), f"{letter.reason}, {source}")

        for conversation, _, number in self.returned:
            if conversation not in self._topics.plan.fates:
                self._verdict.add(Kind.GAVE_UP, conversation, f"{UNDELIVERABLE}, number {number}")

    def check_open(self, rows: AbstractSet[tuple[str, int, bytes]]) -> None:
        """Compare with the rows that say which letters are open."""
        for service, partition, key in sorted(self.open - rows):
            where = f"partition {partition} of {service}"
            self._verdict.add(Kind.LETTER_NOT_OPEN, where, f"of {_place(key)}")
        for service, partition, key in sorted(rows - self.open):
            where = f"partition {partition} of {service}"
            self._verdict.add(Kind.LETTER_ROW, where, f"of {_place(key)}")

    def count(self, *, set_aside: bool) -> int:
        """How many records were set aside, or became dead letters for another reason."""
        came_back = 0 if set_aside else len(self.returned)
        return came_back + sum(self.took_aside(source) == set_aside for source in self.by_source)
