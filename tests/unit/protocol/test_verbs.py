"""Verbs that are carried out later than they were asked: what has a duration ends at the same time."""

import pytest

from conversations.protocol.command import Begin, Cleanup, End, EndWithError, Resend, Send, SetTimer, Verb, aged

TIMER = 60_000_000


@pytest.mark.parametrize(
    ("asked", "elapsed", "then"),
    [
        (SetTimer(TIMER), 10, SetTimer(TIMER - 10)),
        (SetTimer(-1), 10, SetTimer(-1)),
        (Begin("shop", "C", TIMER, "k"), 10, Begin("shop", "C", TIMER - 10, "k")),
        (Begin("shop", "C", -1), 10, Begin("shop", "C", -1)),
        (Begin("shop", "C", 0), 10, Begin("shop", "C", 0)),
    ],
)
def test_a_duration_counts_from_when_it_was_asked_for(asked: Verb, elapsed: int, then: Verb) -> None:
    assert aged(asked, elapsed) == then


@pytest.mark.parametrize("asked", [SetTimer(TIMER), Begin("shop", "C", TIMER)])
def test_a_duration_that_is_over_means_at_once_and_not_never(asked: Verb) -> None:
    """A negative time would cancel the timer, or make the dialog live for ever."""
    match aged(asked, TIMER + 1):
        case SetTimer(after):
            assert after == 0
        case Begin(lifetime=lifetime):
            assert lifetime == 1


@pytest.mark.parametrize("asked", [Send("T", "", b""), End(), EndWithError(7, "no"), Cleanup(), Resend()])
def test_what_has_no_duration_stays_what_it_is(asked: Verb) -> None:
    assert aged(asked, 10) is asked
