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
    """Each a dialog, a time in seconds, and how many messages had been handled by then since the first."""
    found, before = [], entries[0][2]
    for number, at, handled in entries:
        for _ in range(handled - before):
            failures.succeeded("web")
        found.append(bool(failures.note("web", dialog(number), at * SECOND)))
        before = handled
    return found


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
    assert noted(failures, (1, 0, 0), (2, 1, 1_000)) == [False, True]


def test_it_forgets_what_is_long_ago() -> None:
    failures = Failures(BRAKE)
    noted(failures, *((number, number, 10 * number) for number in range(1_000)))
    assert len(failures) <= 10
    failures.clear("web")
    assert len(failures) == 0


def test_of_another_peer_at_most_half_counts() -> None:
    failures = Failures(Brake(dialogs=10))
    for number in range(9):
        assert not failures.note("loud", dialog(number), 0)
    assert [failures.note("quiet", dialog(number), 0) for number in range(20, 25)] == [0, 0, 0, 0, 10]


@pytest.mark.parametrize(("dialogs", "own"), [(1, 1), (2, 2), (3, 2), (10, 2), (100, 5)])
def test_however_many_others_fail_a_peer_must_fail_itself(dialogs: int, own: int) -> None:
    """Two that are braked for ever would brake anybody with the first failure."""
    failures = Failures(Brake(dialogs=dialogs))
    counts = [failures.note("quiet", dialog(number), 0, braked=7) for number in range(own)]
    assert [bool(count) for count in counts] == [False] * (own - 1) + [True]


def test_a_peer_whose_messages_are_handled_says_nothing_of_others() -> None:
    failures = Failures(Brake(dialogs=4, share=0.5))
    for number in range(3):
        failures.note("well", dialog(number), 0)
        failures.succeeded("well")
        failures.succeeded("well")
    assert [failures.note("quiet", dialog(number), 0) for number in range(20, 24)] == [0, 0, 0, 4]


def test_successes_of_before_the_window_do_not_count() -> None:
    failures = Failures(BRAKE)
    failures.note("other", dialog(1), 0)
    for _ in range(100):
        failures.succeeded("web")
    assert noted(failures, (1, 20, 0), (2, 20, 0), (3, 20, 0)) == [False, False, True]


def test_what_it_remembers_is_bounded() -> None:
    failures = Failures(Brake(dialogs=Failures.DIALOGS))
    for number in range(Failures.DIALOGS + 5):
        failures.note("web", dialog(number), 0)
    assert len(failures) == Failures.DIALOGS
    failures = Failures(Brake(dialogs=Failures.DIALOGS))
    for number in range(2 * Failures.PEERS):
        failures.succeeded(f"peer-{number}")
        if number >= Failures.PEERS - 2:
            failures.note(f"peer-{number}", dialog(number), 0)
    assert len(failures) == Failures.PEERS


@pytest.mark.parametrize(
    "wrong",
    [
        {"dialogs": 0},
        {"dialogs": Failures.DIALOGS + 1},
        {"share": 1.1},
        {"share": -0.1},
        {"window": timedelta(0)},
        {"probe": timedelta(-1)},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(DeclarationError):
        Brake(**wrong)  # type: ignore[arg-type]  # wrong on purpose
