"""Compares what is in Kafka with what plain code expects; every difference is one mismatch, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from conversations.worker import letters
from ops.demo.aircraft_log import aircraft_log
from ops.demo.expected import Expected
from ops.demo.outcome import Letter, Outcome

# Where the flights behind a broken dialog's bad one may end: the target had heard of the end, or the sender had.
FOLLOWER_REASONS = {letters.AFTER_END, letters.COMMAND_REFUSED}


@dataclass(frozen=True)
class Verdict:
    """What the check found."""

    equal: int
    """Summaries that equal the file's."""
    mismatches: list[str]


def check(expected: Mapping[str, Expected], outcome: Outcome) -> Verdict:
    """Compare every aircraft, then every dead letter."""
    mismatches: list[str] = []
    equal = 0
    for aircraft, wanted in expected.items():
        found = list(_summary(aircraft, wanted, outcome))
        equal += not found
        mismatches += found
        mismatches += _replies(aircraft, wanted, outcome)
    unknown = sorted(outcome.desks.aircraft - expected.keys())
    mismatches += [f"{aircraft}: no flight of the file has this aircraft" for aircraft in unknown]
    mismatches += _letters(expected, outcome.letters)
    return Verdict(equal, mismatches)


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
    if bool(desk.broken) != (wanted.failed is not None):
        yield f"{aircraft}: the dialog {'broke' if desk.broken else 'did not break'}: {desk.broken or wanted.failed}"


def _letters(expected: Mapping[str, Expected], found: list[Letter]) -> Iterator[str]:
    """Every flight that is in no log is in exactly one dead letter, and nothing else is."""
    failed = {e.failed.row for e in expected.values() if e.failed is not None}
    followers = {flight.row for e in expected.values() for flight in e.followers}
    seen: Counter[int] = Counter(leg.row for letter in found for leg in letter.legs)
    yield from (f"row {row}: {seen[row]} dead letters instead of 1" for row in failed | followers if seen[row] != 1)
    for letter in found:
        rows = {leg.row for leg in letter.legs}
        bad = letter.reason == letters.HANDLER_FAILED and letter.service == aircraft_log.name
        wanted = failed if bad else followers if letter.reason in FOLLOWER_REASONS else set()
        if not rows or not rows <= wanted:
            yield f"{letter.aircraft}: unexpected dead letter of {letter.service}, {letter.reason}: {letter.why}"
