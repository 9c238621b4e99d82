"""Tells one redrive in words: its plan, and how it went on."""

from __future__ import annotations

from collections.abc import Mapping

from conversations_ops.operate.redrive.journal import History
from conversations_ops.operate.redrive.known import Known
from conversations_ops.operate.redrive.outcomes import End, Outcome, Outcomes
from conversations_ops.operate.redrive.plan import Plan
from conversations_ops.printable import counted, one_line


def described(made: Plan) -> str:
    """Describe a plan, and the next command."""
    if not made.letters:
        return planned(made)
    return f"{planned(made)}\nnothing is changed yet; next: conversations redrive start {made.redrive} --reason WHY"


def planned(made: Plan) -> str:
    """Describe a plan."""
    out = (
        f"; {counted(made.left_out, 'letter')} left out, given back {counted(made.care.max_returns, 'time')} or more before"
        if made.left_out
        else ""
    )
    if not made.letters:
        return f"no letter matches{out}"
    return (
        f"{made.redrive}: {counted(len(made.letters), 'letter')} as of {one_line(made.made_at)} (later letters are not included){out}; "
        f"canary: the {min(made.care.canary, len(made.letters))} oldest; behind all letters: {counted(made.behind, 'record')}"
    )


def went(made: Plan, given: History, known: Known | None) -> str:
    """Describe a redrive that was started. ``known`` is what its events tell; None if the events topic has none of them any more."""
    outcomes = {
        it.letter: given.entries[it.letter].outcome if it.letter in given.entries else Outcome.OPEN
        for it in made.letters
    }
    text = f"{made.redrive}: {counted(len(made.letters), 'letter')} as of {one_line(made.made_at)}: {outcomes_in_words(Outcomes(outcomes).counts())}"
    if known is not None:
        text = f"{text}\n{one_line(f'started by {known.by}: {known.reason}{ended(known)}')}"
    if given.is_over(made.letters):
        return text
    return f"{text}\nif it does not run: conversations redrive resume {made.redrive} --reason WHY"


def ended(it: Known) -> str:
    """Say how a redrive ended, and after a stop, who stopped it and why; empty if no event tells."""
    if it.end is None:
        return ""
    why = f" by {it.ended_by}: {it.ended_why}" if it.end == End.STOPPED and it.ended_by else ""
    return f"; {it.end}{why}"


def outcomes_in_words(counts: Mapping[str, int]) -> str:
    """Write the number of letters for each outcome that there is."""
    return one_line(", ".join(f"{number} {name}" for name, number in counts.items() if number))
