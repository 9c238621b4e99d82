"""The handlers' own notes against the topics: everything handled was handled by somebody, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.chaos.checker.dialogs import Dialog
from tests.chaos.checker.records import HandlerRun, Notes
from tests.chaos.checker.verdict import Kind, Verdict

SHOWN = 8


def check_notes(notes: Notes, dialogs: Mapping[str, Dialog], verdict: Verdict) -> int:
    """Compare; return how many runs there were."""
    ran: dict[tuple[str, bool], set[int]] = {}
    for process, runs in notes.items():
        for side, numbers in _in_order(process, runs, verdict).items():
            ran.setdefault(side, set()).update(numbers)
    for name, dialog in dialogs.items():
        receipts = dict(dialog.receipts)
        entries, answered = dialog.account
        _compare(name, False, entries.handled, set(range(len(dialog.entries))), ran, verdict)
        handled = {receipts[number].n for number in answered.handled if number in receipts}
        _compare(name, True, handled, {receipt.n for receipt in receipts.values()}, ran, verdict)
    for name in sorted({name for name, _ in ran} - dialogs.keys()):
        verdict.add(Kind.HANDLER_OF_NOTHING, name, "no such dialog was begun")
    return sum(map(len, notes.values()))


def _in_order(process: str, runs: Sequence[HandlerRun], verdict: Verdict) -> dict[tuple[str, bool], set[int]]:
    """What one process handled; a step that was rolled back is handled again, but never something before it first."""
    seen: dict[tuple[str, bool], set[int]] = {}
    highest: dict[tuple[str, bool], int] = {}
    for conversation, initiator, n in runs:
        side = conversation, initiator
        known = seen.setdefault(side, set())
        if n not in known and n < highest.get(side, -1):
            verdict.add(Kind.HANDLER_ORDER, conversation, f"{process}: {n} for the first time after {highest[side]}")
        known.add(n)
        highest[side] = max(highest.get(side, -1), n)
    return seen


def _compare(
    name: str, initiator: bool, handled: set[int], sent: set[int], ran: Mapping[tuple[str, bool], set[int]],
    verdict: Verdict,
) -> None:  # fmt: skip
    noted = ran.get((name, initiator), set())
    what = "receipts" if initiator else "entries"
    if unseen := sorted(handled - noted):
        verdict.add(Kind.HANDLER_MISSING, name, f"{what} {unseen[:SHOWN]}")
    if unsent := sorted(noted - sent):
        verdict.add(Kind.HANDLER_OF_NOTHING, name, f"{what} {unsent[:SHOWN]}")
