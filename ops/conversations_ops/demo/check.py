"""Compares the records in Kafka with the results of plain code. Each difference is a mismatch, described in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conversations.protocol import letters
from conversations_ops.demo.clusters import Crossing
from conversations_ops.demo.expected import Expected
from conversations_ops.demo.outcome import DeadLetter, Outcome


@dataclass(frozen=True)
class Comparison:
    """The result of the check."""

    equal: int
    """Number of summaries that are equal to the summary computed from the file."""
    mismatches: list[str]


def check(expected: Mapping[str, Expected], outcome: Outcome, crossings: Sequence[Crossing] = ()) -> Comparison:
    """Compare every aircraft, then the held messages, then every dead letter, then what has crossed between clusters."""
    mismatches: list[str] = []
    equal = 0
    for aircraft, wanted in expected.items():
        found = list(_summary(aircraft, wanted, outcome))
        equal += not found
        mismatches += found
        mismatches += _replies(aircraft, wanted, outcome)
    unknown = sorted(outcome.desks.aircraft - expected.keys())
    mismatches += [f"{aircraft}: no flight of the file has this aircraft" for aircraft in unknown]
    mismatches += _held(expected, outcome)
    mismatches += _letters(expected, outcome.letters)
    mismatches += [
        f"{it.sent} envelopes for {it.service} went to cluster {it.cluster}, and {it.arrived} are in its queue"
        for it in crossings
        if it.sent != it.arrived
    ]
    return Comparison(equal, mismatches)


def _summary(aircraft: str, wanted: Expected, outcome: Outcome) -> Iterator[str]:
    summaries = outcome.desks.of(aircraft).summaries
    if len(summaries) != 1:
        yield f"{aircraft}: {len(summaries)} summaries instead of 1"
        return
    found = summaries[0].model_dump()
    if found != wanted.summary:
        differing = [
            f"{name} is {found.get(name)!r} and should be {value!r}"
            for name, value in wanted.summary.items()
            if found.get(name) != value
        ]
        yield f"{aircraft}: " + ", ".join(differing)


def _replies(aircraft: str, wanted: Expected, outcome: Outcome) -> Iterator[str]:
    desk = outcome.desks.of(aircraft)
    if desk.replies != len(wanted.logged):
        yield f"{aircraft}: {desk.replies} replies to {len(wanted.logged)} legs"
    if desk.out_of_order:
        yield f"{aircraft}: {desk.out_of_order} replies out of order"


def _held(expected: Mapping[str, Expected], outcome: Outcome) -> Iterator[str]:
    """Check that only the first flight without an arrival of each aircraft was held, and that no flight is held now."""
    wanted = {aircraft: each.held.row for aircraft, each in expected.items() if each.held is not None}
    found = {held.aircraft: held.leg.row for held in outcome.held}
    for aircraft in sorted(wanted.keys() | found.keys()):
        if wanted.get(aircraft) != found.get(aircraft):
            yield f"{aircraft}: row {found.get(aircraft)} was held, not row {wanted.get(aircraft)}"
    if outcome.waiting:
        yield f"{outcome.waiting} flights are still held"


def _letters(expected: Mapping[str, Expected], found: list[DeadLetter]) -> Iterator[str]:
    """Check that each held flight has one dead letter, and that the edited flight has a second dead letter with its old bytes.

    There must be no other dead letters.
    """
    held = {each.held.row: each.edited for each in expected.values() if each.held is not None}
    wanted = Counter({(row, letters.HANDLER_FAILED): 1 for row in held})
    wanted.update((row, letters.EDITED) for row, edited in held.items() if edited)
    seen = Counter((letter.leg.row if letter.leg is not None else 0, letter.reason) for letter in found)
    for row, reason in sorted(wanted.keys() | seen.keys()):
        if wanted[row, reason] != seen[row, reason]:
            yield f"row {row}: {seen[row, reason]} dead letters {reason} instead of {wanted[row, reason]}"
