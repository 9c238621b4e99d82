"""The picture of a dialog: two lifelines, an arrow for each envelope, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from conversations.protocol.envelope import Kind
from conversations_ops.operate.dialogs import Side
from conversations_ops.operate.timeline import Fate, Step, Timeline
from conversations_ops.printable import counted
from conversations_ops.read_model.events import Event
from conversations_ops.read_model.letters import Kept

SHOWN = 60
"""Number of envelopes in a picture, unless all are asked for."""
ALIKE = 3
"""Number of arrows between two that look alike from which on they become one."""
_FATES = {
    Fate.ACCEPTED: "",
    Fate.DUPLICATE: "repeated, dropped",
    Fate.EARLY: "early, waiting for the one before",
    Fate.FAILED: "failed",
    Fate.BEHIND: "waiting behind the failed one",
    Fate.UNREAD: "not accepted yet",
    Fate.UNKNOWN: "",
}


class Row(NamedTuple):
    """One line of a picture."""

    at: int
    """Microseconds since 1970."""
    look: str
    """What a style sheet makes of it: ``right`` or ``left`` for an arrow, ``note`` for an event or a letter, and the fate."""
    label: str
    detail: str
    """What became of it; empty if it was accepted as usual."""
    place: str
    """Partition and offset of the record."""
    letter: str = ""
    """Name of the letter that the line is about; empty if there is none."""
    what: str = ""
    """The message type; empty for a note."""
    number: int = -1


class Picture(NamedTuple):
    """A picture of a dialog. The initiator is on the left."""

    initiator: str
    target: str
    rows: Sequence[Row]
    left_out: int
    """Number of earlier envelopes that are not in the picture."""


def picture(
    sides: Sequence[Side], timeline: Timeline, shown: int, letters: Sequence[Kept] = (), events: Sequence[Event] = ()
) -> Picture:
    """Draw the last envelopes of a dialog, with its letters and events between them."""
    initiator, target = _names(sides)
    steps = timeline.steps[-shown:] if shown else ()
    rows = [*_arrows(steps, sides, letters), *_notes(letters, events, steps[0].at if steps else 0)]
    rows.sort(key=lambda it: it.at)
    return Picture(initiator, target, rows if shown > SHOWN else list(_folded(rows)), len(timeline.steps) - len(steps))


def _folded(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows, with one row for the middle of each run of arrows that look alike."""
    for _, run in groupby(rows, key=lambda it: (it.look, it.what, it.detail, it.letter)):
        alike = list(run)
        first, *middle, last = alike if len(alike) > 1 else (alike[0], alike[0])
        if len(middle) < ALIKE or not first.what:
            yield from alike
            continue
        label = f"#{middle[0].number} to #{middle[-1].number} {first.what}"
        detail = f"{counted(len(middle), 'envelope')}{f', each {first.detail}' if first.detail else ''}"
        yield first
        yield middle[0]._replace(look=f"{first.look} many", label=label, detail=detail, place="")
        yield last


def _names(sides: Sequence[Side]) -> tuple[str, str]:
    first = sides[0]
    other = next((it.service for it in sides if it.initiator != first.initiator), first.peer or "(not known any more)")
    return (first.service, other) if first.initiator else (other, first.service)


def _arrows(steps: Sequence[Step], sides: Sequence[Side], letters: Sequence[Kept]) -> Iterator[Row]:
    heads = {(it.initiator, head.number): head for it in sides for head in it.heads if head.number >= 0}
    dead = {(it.from_initiator, it.number): it for it in letters if it.number >= 0 and it.is_open}
    for it in steps:
        head = heads.get((not it.from_initiator, it.number)) if it.fate is Fate.FAILED else None
        letter = dead.get((it.from_initiator, it.number)) if it.fate is Fate.ACCEPTED else None
        detail, look = _FATES[it.fate], it.fate.value
        if head is not None:
            detail = (
                f"failed {counted(head.attempts, 'time')}: {head.failure}" if head.failure else "waits for the queue"
            )
        elif letter is not None:
            detail, look = f"dead letter: {letter.reason}", "dead"
        error = f" {it.code}: {it.text}" if it.kind is Kind.ERROR else ""
        number = f"#{it.number} " if it.number >= 0 else ""
        direction = "right" if it.from_initiator else "left"
        name = head.letter if head is not None else letter.letter if letter is not None else ""
        yield Row(
            it.at, f"{direction} {look} {it.kind.name.lower()}", f"{number}{it.what}{error}", detail,
            f"partition {it.partition}, offset {it.offset}, {counted(it.size, 'byte')}", name, it.what, it.number,
        )  # fmt: skip


def _notes(letters: Sequence[Kept], events: Sequence[Event], since: int) -> Iterator[Row]:
    for it in letters:
        if it.number < 0 or it.decided_by:
            by = f" by {it.decided_by}: {it.decided_why}" if it.decided_by else ""
            yield Row(
                it.at,
                "note letter",
                f"dead letter: {it.reason}{by}",
                it.exception,
                f"partition {it.partition}",
                it.letter,
            )
    for event in events:
        if event.told.at >= since:
            yield Row(event.told.at, "note event", event.told.name, event.told.says, f"{event.told.service}")
