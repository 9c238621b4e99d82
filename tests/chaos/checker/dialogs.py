"""One dialog: what was asked for, what went over the wire, what was answered, and what both sides remember."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.chaos.checker import avro, chain
from tests.chaos.checker.chain import NotABody, Numbered
from tests.chaos.checker.commands import Begun
from tests.chaos.checker.envelopes import Envelopes, Wire
from tests.chaos.checker.fates import Fate
from tests.chaos.checker.letters import Letter, Letters
from tests.chaos.checker.records import Plan
from tests.chaos.checker.rows import Rows
from tests.chaos.checker.verdict import Direction, Kind, Verdict

NUMBERS_SHOWN = 8
GRACE = 600_000_000
"""Log time, in microseconds, that a tombstone outlives what could revive its dialog."""


class Dialog:
    """Checks one dialog. The steps build on one another: ``check`` runs them in order."""

    def __init__(self, name: str, begun: Begun, envelopes: Envelopes, letters: Letters, rows: Rows) -> None:
        self.name = name
        self.begun = begun
        self.there = envelopes.wire(name, from_initiator=True)
        """What went from the initiator to the target: entries, then END."""
        self.back = envelopes.wire(name, from_initiator=False)
        """Receipts."""
        self.letters = letters
        self.rows = rows
        self.entries: list[Numbered] = []
        self.receipts: list[tuple[int, Numbered]] = []
        """With their numbers on the wire."""
        self.account = Direction(), Direction()
        """Of entries, of receipts."""
        self.fate: Fate | None = None
        self.evidence_missing: set[bool] = set()
        """Sides (the initiator's: True) of whose messages some are not in the topics: their state cannot be computed."""

    def check(self, plan: Plan, verdict: Verdict) -> None:
        """Check everything but the endpoints' rows."""
        self.fate = plan.fates.get(self.name)
        self._check_told(plan.dialogs.get(self.name), verdict)
        self._check_fate(verdict)
        self._check_wire(verdict)
        self._check_end(plan, verdict)
        self._check_receipts(verdict)
        self._check_ledger(verdict)
        self._check_teller(verdict)
        self._check_sums(verdict)
        verdict.account[self.name, True], verdict.account[self.name, False] = self.account

    # -- entries ----------------------------------------------------------------------------------------------

    def _check_told(self, planned: int | None, verdict: Verdict) -> None:
        if planned is None:
            verdict.add(Kind.UNPLANNED_DIALOG, self.name, f"{len(self.begun.sends)} entries")
        elif len(self.begun.sends) + self._refused() < planned:
            verdict.add(Kind.COMMAND_LOST, self.name, f"commands hold {len(self.begun.sends)} of {planned} entries")
        elif len(self.begun.sends) > planned:
            verdict.add(
                Kind.SENT_BY_NOBODY, self.name, f"commands hold {len(self.begun.sends)} entries, planned {planned}"
            )
        for index, said in enumerate(self.begun.sends):
            try:
                told = chain.entry(said.body)
            except NotABody as error:
                verdict.add(Kind.WRONG_BYTES, self.name, f"a command at {said.position} holds {error}")
                told = Numbered(index, "")
            self.entries.append(self._as_decided(told))
        numbers = [told.n for told in self.entries]
        if planned is not None and numbers != list(range(len(numbers))):
            verdict.add(Kind.OUT_OF_ORDER, self.name, f"commands hold entries {_few(numbers)}")

    def _refused(self) -> int:
        """Count the entries whose commands came when the dialog had ended with an error."""
        return sum(self.begun.refused.values()) if self.ended_by_error else 0

    def _as_decided(self, told: Numbered) -> Numbered:
        fate = self.fate
        return told._replace(text=fate.text) if fate is not None and fate.edited and told.n == fate.n else told

    @property
    def ended_by_error(self) -> bool:
        """An entry that failed ended the dialog, as it was to be."""
        return self.fate is not None and self.fate.ends

    # -- the entry that fails -----------------------------------------------------------------------------------

    def _check_fate(self, verdict: Verdict) -> None:
        """The letters of the dialog are those that its failing entry must cause, and its sender knows of it."""
        fate, events = self.fate, self.letters.gave_up.get(self.name, [])
        if events != (fate.events if fate is not None else []):
            verdict.add(Kind.OTHER_FATE, self.name, f"events tell that it was given up on: {events}; {fate}")
        if fate is None:
            return
        reasons = self.letters.reasons.get(self.name, {})
        if (there := list(reasons.get((True, fate.n), ()))) != fate.letters:
            verdict.add(Kind.OTHER_FATE, self.name, f"entry {fate.n} has letters {there}, not {fate.letters}")
        for (to_target, number), others in sorted(reasons.items()):
            if (to_target, number) != (True, fate.n) and not fate.allows(number if to_target else 1 << 62, others):
                what = "entry" if to_target else "receipt"
                verdict.add(Kind.GAVE_UP, self.name, f"{what} {number}: {', '.join(others)}")
        if self.back.skipped != ({fate.n} if fate.skipped else set()):
            verdict.add(Kind.NOT_TOLD, self.name, f"{fate} and its sender was told of {sorted(self.back.skipped)}")
        if fate.ends and self.back.errors != 1:
            verdict.add(Kind.OTHER_FATE, self.name, f"it was to end with an error; {self.back.errors} were sent")

    def _check_wire(self, verdict: Verdict) -> None:
        """Every message asked for became one envelope, in order, with the next number."""
        self.account[0].sent = len(self.begun.sends)
        absent = []
        for number, said in enumerate(self.begun.sends):
            sent = self.there.first.get(number)
            if sent is None and (self.name, True, number) in self.rows.waiting:
                self.account[0].waiting.add(number)  # delayed: its destination takes no records
            elif sent is None:
                absent.append(number)
            elif (sent.kind, sent.message_type, sent.content_type, sent.body) != ("MESSAGE", *said[:-1]):
                verdict.add(Kind.WRONG_BYTES, self.name, f"number {number} at {sent.position} is not {said.position}'s")
        self._note_absent(absent, verdict)
        for wire, what in ((self.there, "to the target"), (self.back, "from the target")):
            self._check_order(wire, what, verdict)
            if wire.errors and not (wire is self.back and self.ended_by_error):
                verdict.add(Kind.BROKEN_DIALOG, self.name, f"{wire.errors} errors {what}")

    def _note_absent(self, absent: Sequence[int], verdict: Verdict) -> None:
        last = max(self.there.first, default=-1)
        gap = [number for number in absent if number < last]
        tail = [number for number in absent if number > last]
        if gap:
            verdict.add(Kind.SEQUENCE_GAP, self.name, f"entries {_few(gap)} are not on the wire, {last} is")
        if tail:
            verdict.add(Kind.MESSAGE_LOST, self.name, f"entries {_few(tail)} were never transmitted")
        self.account[0].missing.update(absent)

    def _check_order(self, wire: Wire, what: str, verdict: Verdict) -> None:
        numbers = list(wire.first)
        if numbers != sorted(numbers):
            late = [b for a, b in pairwise(numbers) if b < a]
            verdict.add(Kind.OUT_OF_ORDER, self.name, f"numbers {what} that came late: {_few(late)}")

    def _check_end(self, plan: Plan, verdict: Verdict) -> None:
        told = len(self.begun.sends)
        ends = [number for number, sent in self.there.first.items() if sent.kind == "END"]
        wanted = self.name in plan.ends or self.begun.ends
        beyond = [number for number in self.there.first if number >= told and number not in ends]
        if beyond:
            verdict.add(Kind.SENT_BY_NOBODY, self.name, f"numbers {_few(beyond)} beyond the {told} entries")
            self.evidence_missing.update((True, False))
        if wanted and not ends:
            verdict.add(Kind.END_LOST, self.name, "it was meant to end, and no END is on the wire")
        if ends and not wanted:
            verdict.add(Kind.UNPLANNED_END, self.name, f"END has number {ends[0]}")
        if ends and ends != [told]:
            verdict.add(Kind.OUT_OF_ORDER, self.name, f"END has number {_few(ends)}, there were {told} entries")

    # -- receipts ---------------------------------------------------------------------------------------------

    def _check_receipts(self, verdict: Verdict) -> None:
        """The target numbers its receipts without a gap, and writes one for every entry, in order."""
        for number in sorted(self.back.first):
            sent = self.back.first[number]
            if sent.kind == "ERROR" and self.ended_by_error:
                continue
            if sent.kind != "MESSAGE":
                kind = Kind.UNPLANNED_END if sent.kind == "END" else Kind.BROKEN_DIALOG
                verdict.add(kind, self.name, f"the target sent {sent.kind}")
                continue
            try:
                self.receipts.append((number, chain.receipt(sent.body)))
            except NotABody as error:
                verdict.add(Kind.WRONG_BYTES, self.name, f"receipt {number} is {error}")
        numbers = [number for number, _ in self.receipts]
        whole = range(max(numbers, default=-1) + 1)
        if gap := sorted(set(whole) - set(numbers)):
            verdict.add(Kind.SEQUENCE_GAP, self.name, f"receipts {_few(gap)} are not on the wire")
            self.evidence_missing.add(True)
        self.account[1].sent = len(whole)
        self.account[1].missing.update(gap)

    def _check_ledger(self, verdict: Verdict) -> None:
        """Every entry was handled once, in order: receipts and the target's state say so."""
        account = self.account[0]
        answered = {receipt.n for _, receipt in self.receipts}
        for n in range(len(self.entries)):
            back = self.letters.returned.get((self.name, True, n))
            lettered = (self.name, True, n) in self.letters.messages or self._came_back(n, back, verdict)
            if (self.name, True, n) in self.rows.waiting:
                account.waiting.add(n)
            if lettered:
                account.dead_lettered.add(n)
            if n in answered:
                account.handled.add(n)
                account.missing.discard(n)
                if lettered:
                    verdict.add(Kind.LETTER_OF_HANDLED, self.name, f"entry {n}")
        state = self._state(False, verdict)
        self._place_unanswered(verdict, state)
        if self.fate is not None and self.fate.ends and (late := [n for n in answered if n >= self.fate.n]):
            verdict.add(Kind.OTHER_FATE, self.name, f"{self.fate.n} ended it, and {_few(sorted(late))} were handled")
        handled = [self.entries[n] for n in sorted(account.handled)]
        self._check_digests(handled, verdict)
        self._compare(state, handled, False, verdict)

    def _came_back(self, n: int, letter: Letter | None, verdict: Verdict) -> bool:
        """Whether an entry is settled by a letter of its sender. Such a letter has the bytes of the entry."""
        if letter is None:
            return False
        said = self.begun.sends[n]
        try:
            fields = avro.ENVELOPE.decode(letter.record.value or b"")
        except avro.Undecodable as error:
            verdict.add(Kind.LETTER_BYTES, self.name, f"entry {n} came back as {error}")
            return True
        there = fields["kind"], fields["seq"], fields["message_type"], fields["content_type"], fields["body"]
        if there != ("MESSAGE", n, *said[:-1]):
            verdict.add(Kind.LETTER_BYTES, self.name, f"entry {n} came back with other bytes")
        return not letter.uncertain or n not in {receipt.n for _, receipt in self.receipts}

    def _place_unanswered(self, verdict: Verdict, state: Mapping[str, Any] | None) -> None:
        account = self.account[0]
        silent = [
            n for n in range(len(self.entries))
            if n not in account.handled and n not in account.dead_lettered and n in self.there.first
        ]  # fmt: skip
        service, rest = self.begun.target, []
        for n in silent:
            _, partition, offset = self.there.first[n].position
            if n in account.waiting:
                continue
            if offset >= self.rows.read_to(service, partition):
                account.unread.add(n)
            else:
                rest.append(n)
        if not rest:
            return
        if state is not None and state.get("count") == len(account.handled) + len(rest):
            verdict.add(Kind.REPLY_MISSING, self.name, f"entries {_few(rest)} were handled, and have no receipt")
            account.handled.update(rest)
            self.evidence_missing.add(True)
        else:
            verdict.add(Kind.MESSAGE_LOST, self.name, f"entries {_few(rest)} were read, and never handled")
            account.missing.update(rest)

    def _check_digests(self, handled: Sequence[Numbered], verdict: Verdict) -> None:
        digest, right = "", {}
        for told in handled:
            digest = right[told.n] = chain.following(digest, told)
        before, seen, off = -1, dict[int, str](), False
        for number, receipt in self.receipts:
            if receipt.n not in right:
                verdict.add(
                    Kind.SENT_BY_NOBODY, self.name, f"receipt {number} is for entry {receipt.n}, which nobody sent"
                )
            elif receipt.n in seen:
                same = seen[receipt.n] == receipt.text
                verdict.add(
                    Kind.REPLY_TWICE if same else Kind.HANDLED_TWICE,
                    self.name,
                    f"entry {receipt.n}: receipt {number} again",
                )
            elif receipt.n < before:
                verdict.add(Kind.OUT_OF_ORDER, self.name, f"entry {receipt.n} was handled after {before}")
            elif receipt.text != right[receipt.n] and not off:
                off = True
                verdict.add(
                    Kind.STATE_DIGEST, self.name, f"receipt of entry {receipt.n}: not that of the entries up to it"
                )
            seen.setdefault(receipt.n, receipt.text)
            before = max(before, receipt.n)

    def _check_teller(self, verdict: Verdict) -> None:
        """Every receipt was handled once, in order: the initiator's state says so."""
        account = self.account[1]
        state = self._state(True, verdict)
        arrived: list[tuple[int, Numbered]] = []
        for number, receipt in self.receipts:
            _, partition, offset = self.back.first[number].position
            if (self.name, False, number) in self.letters.messages:
                account.dead_lettered.add(number)
            elif (self.name, False, number) in self.rows.waiting:
                account.waiting.add(number)
            elif offset >= self.rows.read_to(self.begun.initiator, partition):
                account.unread.add(number)
            else:
                arrived.append((number, receipt))
        right = self._compare(state, [receipt for _, receipt in arrived], True, verdict)
        (account.handled if right else account.missing).update(number for number, _ in arrived)

    def _check_sums(self, verdict: Verdict) -> None:
        """What was sent is in flight, waits, was handled or is a dead letter: each message is one of these."""
        for account, what in zip(self.account, ("entries", "receipts"), strict=True):
            places = account.unread, account.waiting, account.handled, account.dead_lettered, account.missing
            total = sum(map(len, places))
            if total != account.sent:
                names = ("unread", "waiting", "handled", "dead letters", "missing")
                parts = ", ".join(f"{len(place)} {name}" for name, place in zip(names, places, strict=True) if place)
                verdict.add(Kind.SUM, self.name, f"{account.sent} {what}, but {parts}")

    # -- states -----------------------------------------------------------------------------------------------

    def _state(self, initiator: bool, verdict: Verdict) -> Mapping[str, Any] | None:
        row = self.rows.groups.get((self.name, initiator))
        if row is None:
            return None
        try:
            state = json.loads(row["state"])
            return {"count": state["count"], "digest": state["digest"]}
        except (ValueError, KeyError, TypeError) as error:
            verdict.add(Kind.ROW_BROKEN, self.name, f"group state {row['state'][:80]!r}: {error!r}")
            return None

    def _compare(
        self, state: Mapping[str, Any] | None, handled: Sequence[Numbered], initiator: bool, verdict: Verdict
    ) -> bool:
        """Compare a group's state with what its service must have handled."""
        service = self.begun.initiator if initiator else self.begun.target
        where = f"{self.name} at {service}"
        if state is None:
            if handled and not self.forgotten(initiator):
                verdict.add(Kind.STATE_MISSING, where, f"{len(handled)} messages were handled")
                return False
            return True
        count, right = state["count"], bool(state["digest"] == chain.digest_of(handled))
        if (count == len(handled) and right) or initiator in self.evidence_missing:
            return right
        if right:
            verdict.add(Kind.STATE_COUNT, where, f"it counts {count}, its digest is that of {len(handled)} messages")
        elif count < len(handled):
            verdict.add(Kind.MESSAGE_LOST, where, f"its state counts {count} of {len(handled)} messages")
        elif count > len(handled):
            verdict.add(Kind.HANDLED_TWICE, where, f"its state counts {count}, there were {len(handled)} messages")
        else:
            verdict.add(Kind.STATE_DIGEST, where, f"it counts {count} messages, but others, or in another order")
        return False

    def forgotten(self, initiator: bool) -> bool:
        """Whether log time has passed the last moment this side's rows must be kept for."""
        wire = self.back if initiator else self.there
        if (self.name, initiator) in self.rows.tombstones or not wire.first:
            return False
        service = self.begun.initiator if initiator else self.begun.target
        partition = next(iter(wire.first.values())).position[1]
        row = self.rows.partitions.get((service, partition))
        return row is not None and self.there.accept_until + GRACE / self.rows.divided_by <= row["queue_time"]


def _few(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:NUMBERS_SHOWN]))
    return shown if len(numbers) <= NUMBERS_SHOWN else f"{shown} and {len(numbers) - NUMBERS_SHOWN} more"
