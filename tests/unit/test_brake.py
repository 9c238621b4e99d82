"""The count that puts the brake on: different dialogs, in a window, against what is handled meanwhile."""

from datetime import timedelta

import pytest

from conversations import Brake, DeclarationError
from conversations.brake import Failures

SECOND = 1_000_000
BRAKE = Brake(dialogs=3, share=0.5, window=timedelta(seconds=10))


def dialog(number: int) -> bytes:
    return number.to_bytes(17, "big")


def noted(failures: Failures, *entries: tuple[int, int, int]) -> list[bool]:
    """Each a dialog, a time in seconds, and how many messages had been handled by then."""
    return [failures.note(dialog(number), at * SECOND, handled) for number, at, handled in entries]


@pytest.mark.parametrize(
    ("entries", "last"),
    [
        pytest.param([(1, 0, 0), (2, 1, 0), (3, 2, 0)], True, id="three dialogs"),
        pytest.param([(1, 0, 0), (2, 1, 0), (2, 2, 0), (1, 3, 0)], False, id="the same dialogs"),
        pytest.param([(1, 0, 0), (2, 9, 0), (3, 10, 0)], False, id="not within the window"),
        pytest.param([(1, 0, 0), (2, 9, 0), (1, 10, 0), (3, 18, 0)], True, id="again within the window"),
        pytest.param([(1, 0, 0), (2, 1, 2), (3, 2, 3)], True, id="half of it"),
        pytest.param([(1, 0, 0), (2, 1, 2), (3, 2, 4)], False, id="less than half"),
        pytest.param([(1, 0, 500), (2, 1, 500), (3, 2, 503)], True, id="what was handled before does not count"),
    ],
)
def test_when_the_brake_goes_on(entries: list[tuple[int, int, int]], last: bool) -> None:
    *before, end = noted(Failures(BRAKE), *entries)
    assert not any(before)
    assert end is last


def test_without_a_share_the_number_alone_counts() -> None:
    failures = Failures(Brake(dialogs=2, share=0, window=timedelta(seconds=10)))
    assert noted(failures, (1, 0, 0), (2, 1, 1_000_000)) == [False, True]


def test_it_forgets_what_is_long_ago() -> None:
    failures = Failures(BRAKE)
    noted(failures, *((number, number, 10 * number) for number in range(1_000)))
    assert len(failures) <= 10
    failures.clear()
    assert len(failures) == 0


@pytest.mark.parametrize(
    "wrong", [{"dialogs": 0}, {"share": 1.1}, {"share": -0.1}, {"window": timedelta(0)}, {"probe": timedelta(-1)}]
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(DeclarationError):
        Brake(**wrong)  # type: ignore[arg-type]  # wrong on purpose
