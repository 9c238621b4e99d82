"""What a message that fails must cause, from what the plan says of it: which letters keep it, and what follows them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

SKIP, END, HOLD, DISABLE = "skip", "end-dialog", "hold", "disable-queue"
RETRY, EDIT, BY_HAND = "retry", "edit", "end"
HANDLER_FAILED, SKIPPED, EDITED = "handler-failed", "skipped", "edited"
PARKED_AT_END = "parked-at-end"
AFTER_FAILURE = (PARKED_AT_END, "after-end", "held-at-end", "undeliverable")
"""Why messages of a dialog are kept that a failed one has ended; the last by their sender, to which they were left."""


class Fate(NamedTuple):
    """An entry whose handler fails, and what was decided about it."""

    n: int
    """Number of the entry."""
    fails: int
    """How often its handler fails: at every attempt up to this one."""
    attempts: int
    """How many attempts its policy allows."""
    then: str
    """What its policy does then."""
    decision: str
    """What an operator does with an entry that is held."""
    text: str
    """The new text of an edited entry."""
    code: int
    """The error an operator, or the policy, ends the dialog with."""

    @property
    def given_up(self) -> bool:
        """The policy's attempts do not suffice."""
        return self.fails >= self.attempts

    @property
    def skipped(self) -> bool:
        """The dialog goes on without the entry."""
        return self.given_up and (self.then == SKIP or (self.then == HOLD and self.decision == SKIP))

    @property
    def ends(self) -> bool:
        """The dialog ends with an error."""
        return self.given_up and (self.then == END or (self.then == HOLD and self.decision == BY_HAND))

    @property
    def edited(self) -> bool:
        """The entry is handled with another text."""
        return self.given_up and self.then == HOLD and self.decision == EDIT

    @property
    def letters(self) -> list[str]:
        """Reasons of the dead letters that keep the entry, in their order."""
        if not self.given_up or self.then == DISABLE:
            return []
        if self.then != HOLD:
            return [HANDLER_FAILED]
        if self.decision == RETRY:  # each further failure is given up on, and decided about, again
            return [HANDLER_FAILED] * (self.fails - self.attempts + 1)
        return [HANDLER_FAILED, {EDIT: EDITED, SKIP: SKIPPED, BY_HAND: PARKED_AT_END}[self.decision]]

    @property
    def events(self) -> list[str]:
        """What the events tell of each time that its service gave up on it."""
        again = self.then == DISABLE or (self.then == HOLD and self.decision == RETRY)
        times = self.fails - self.attempts + 1 if again else 1
        return [self.then] * times if self.given_up else []

    def allows(self, number: int, reasons: Collection[str]) -> bool:
        """Say whether these letters may keep another entry of the dialog."""
        return not reasons or (self.ends and number > self.n and len(reasons) == 1 and set(reasons) < {*AFTER_FAILURE})


def fate_of(plain: dict[str, Any]) -> Fate:
    """Take a fate from JSON.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    fate = Fate(
        int(plain["n"]), int(plain["fails"]), int(plain["attempts"]), str(plain["then"]), str(plain.get("decision", "")),
        str(plain.get("text", "")), int(plain.get("code", 0)),
    )  # fmt: skip
    if fate.then not in (SKIP, END, HOLD, DISABLE) or (fate.then == HOLD) != (
        fate.decision in (RETRY, EDIT, SKIP, BY_HAND)
    ):
        raise ValueError(f"no fate: {plain!r}")
    return fate
