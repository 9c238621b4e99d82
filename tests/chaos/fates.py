"""Entries that fail, what their policies do about them, and what an operator decides: drawn, carried out, foretold."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

from conversations import PoisonPolicy, Then
from conversations.protocol.codes import POISON
from conversations.protocol.command import Action

RETRIES = tuple(timedelta(seconds=wait) for wait in (0, 0.2, 0.5))
MOST = 6
"""An entry fails so often at most; the policies allow four attempts."""
CODES = {Then.END_DIALOG: 4711, Then.HOLD: 4712}
"""Errors with which a policy, or an operator, ends a dialog."""
MENDED = "mended by an operator"


class Sickness(Exception):
    """A handler fails on purpose; there is one class for each policy."""


class Skippable(Sickness):
    pass


class Fatal(Sickness):
    pass


class Puzzling(Sickness):
    pass


class Overwhelming(Sickness):
    pass


CLASSES: dict[Then, type[Sickness]] = {
    Then.SKIP: Skippable, Then.END_DIALOG: Fatal, Then.HOLD: Puzzling, Then.DISABLE_QUEUE: Overwhelming,
}  # fmt: skip
POLICIES = [
    PoisonPolicy(
        exception=failing, then=then, delays=RETRIES, code=CODES[then] if then is Then.END_DIALOG else POISON.number
    )
    for then, failing in CLASSES.items()
]


class Fate(NamedTuple):
    """An entry that fails."""

    n: int
    fails: int
    then: Then
    decision: Action | None = None
    """What an operator does once it is held."""

    @property
    def given_up(self) -> bool:
        """The policy's attempts do not suffice."""
        return self.fails > len(RETRIES)

    @property
    def skipped(self) -> bool:
        """The dialog goes on without the entry."""
        return self.given_up and (self.then is Then.SKIP or self.decision is Action.SKIP)

    @property
    def ends(self) -> bool:
        """The dialog ends with an error."""
        return self.given_up and (self.then is Then.END_DIALOG or self.decision is Action.END)

    @property
    def edited(self) -> bool:
        """The entry is handled with another text."""
        return self.given_up and self.decision is Action.EDIT

    def plain(self) -> dict[str, Any]:
        """As JSON: what the services do, and what the checker must know."""
        return {
            "n": self.n, "fails": self.fails, "attempts": len(RETRIES) + 1, "then": self.then.value,
            "decision": self.decision.value.lower() if self.decision else "", "text": MENDED, "code": CODES.get(self.then, 0),
        }  # fmt: skip


def draw(random: Random, numbers: list[int]) -> Fate:
    """Draw a fate for one of some entries."""
    then = random.choice(list(Then))
    decision = random.choice(list(Action)) if then is Then.HOLD else None
    return Fate(random.choice(numbers), random.randint(1, MOST), then, decision)


def suffer(fate: dict[str, Any] | None, n: int, text: str, attempt: int) -> None:
    """Fail, if this is an entry that is to fail at this attempt.

    Raises:
        Sickness: it is.
    """
    if fate is not None and n == fate["n"] and attempt <= fate["fails"] and text != MENDED:
        raise CLASSES[Then(fate["then"])](f"entry {n}, {fate['fails']} times")
