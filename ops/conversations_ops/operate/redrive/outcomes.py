"""Outcomes of letters that were given back, which the owners of their dialogs report; and how a redrive ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum

from conversations.protocol import events


class Outcome(StrEnum):
    """The outcome of one letter."""

    OPEN = "open"
    """Not given back yet."""
    SENT = "sent"
    """Given back; the owner of the dialog has not reported the outcome yet."""
    HANDLED = "handled"
    BACK = "came back"
    """The message was given up on again: it is held again, or its policy had another effect."""
    ENDED = "dialog ended"
    """The dialog ended before the message was tried."""
    CHANGED = "changed"
    """Not given back: somebody else decided about the message after the plan was made, or the message failed again."""

    @property
    def final(self) -> bool:
        """True if the outcome cannot change any more."""
        return self not in (Outcome.OPEN, Outcome.SENT)


class End(StrEnum):
    """How a redrive ended."""

    DONE = "done"
    STOPPED = "stopped"
    CANARY_FAILED = "canary failed"
    NO_NEWS = "no news"
    """No answer: the service does not run, its queue is off, or the handler asked for a later attempt."""
    TAKEN_OVER = "taken over"
    """Another run of the same redrive began."""


OF_EVENT: Mapping[str, Outcome] = {
    events.Outcome.HANDLED: Outcome.HANDLED,
    events.Outcome.FAILED: Outcome.BACK,
    events.Outcome.ENDED: Outcome.ENDED,
    events.Outcome.DECIDED: Outcome.CHANGED,
}
"""The outcome for each value of ``outcome`` in the event RETURNED."""


class Outcomes(Mapping[str, Outcome]):
    """The outcome of each letter of a redrive, counted as they come: a redrive may have a million letters, and tells its counts after each."""

    def __init__(self, of: Mapping[str, Outcome]) -> None:
        self._of = dict(of)
        self._numbers = Counter(self._of.values())

    def __getitem__(self, letter: str) -> Outcome:
        return self._of[letter]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)

    def note(self, letter: str, outcome: Outcome) -> None:
        """Set the outcome of one of the letters."""
        self._numbers[self._of[letter]] -= 1
        self._numbers[outcome] += 1
        self._of[letter] = outcome

    def number(self, outcome: Outcome) -> int:
        """Return the number of letters with an outcome."""
        return self._numbers[outcome]

    def counts(self) -> dict[str, int]:
        """Return the number of letters for each outcome, by its text."""
        return {outcome.value: self._numbers[outcome] for outcome in Outcome}
