"""One failed message is told in the same words by every command."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conversations.protocol.command import Failed
from conversations.protocol.parked import Parked
from conversations.protocol.topics import STATE
from conversations_ops.cli.one_letter import described, table
from conversations_ops.console.times import clock_of
from conversations_ops.operate.failed import failure, in_words, subject, told
from conversations_ops.read_model.file import File
from conversations_ops.read_model.status import Only, cause, statuses

SINCE = int(datetime(2026, 9, 1, 3, 12, tzinfo=UTC).timestamp() * 1_000_000)
HELD = Parked(
    "credit.queue-0-1", "credit", "d", False, "k", "Credit", "loans", Failed.MESSAGE, 0, "Check", b"{}", 4, SINCE, None, 2, 10,
    "KeyError: 'score'", 1,
)  # fmt: skip
WORDS = "Check #0 failed 4 times since 2026-09-01T03:12: KeyError: 'score'"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    """A read model with one service, without a message that waits."""
    with File(tmp_path / "model") as it:
        with it.transaction() as connection:
            connection.execute("INSERT INTO places VALUES ('conv.credit.state', 0, 'credit', ?, 'id', 0, 0)", (STATE,))
        yield it


def park(file: File, number: int, *, due: int | None = None) -> None:
    row = (
        "credit", 0, bytes([number]), f"credit.queue-0-{number}", "Check", "KeyError", "KeyError: 'score'", SINCE, due, 2, False, None,
        "Credit", "loans", number, 4,
    )  # fmt: skip
    with file.transaction() as connection:
        connection.execute(f"INSERT INTO parked VALUES ({','.join('?' * len(row))})", row)


def test_list_show_and_status_say_the_same(file: File) -> None:
    later = clock_of(SINCE + 24 * 3_600_000_000)
    park(file, 0)
    (status,) = statuses(file)
    assert status.heads[0].only == Only(0, 4, "KeyError: 'score'")
    assert told(HELD, later) == WORDS
    assert table([HELD]).splitlines()[1].split("\t")[-1] == WORDS
    assert f"what          {WORDS}\n" in described(HELD, "")
    assert cause(status, later, texts=True) == f"1 dialog held: {WORDS}"


def test_without_the_right_to_see_bodies_the_text_is_left_out(file: File) -> None:
    park(file, 0)
    (status,) = statuses(file)
    assert cause(status, clock_of(SINCE)) == "1 dialog held: Check #0 failed 4 times since 03:12: KeyError"


def test_a_group_is_told_without_what_differs(file: File) -> None:
    park(file, 0)
    park(file, 1)
    park(file, 2, due=SINCE + 60_000_000)
    (status,) = statuses(file)
    assert cause(status, clock_of(SINCE), texts=True) == "2 dialogs held: Check failed since 03:12: KeyError"
    assert [it.only for it in status.heads] == [None, None]


def test_a_message_that_waits_for_another_attempt_is_found_beside_a_held_one(file: File) -> None:
    park(file, 7, due=SINCE + 60_000_000)
    (status,) = statuses(file)
    assert cause(status, clock_of(SINCE), texts=True) == (
        "1 dialog tried again at 03:13: Check #7 failed 4 times since 03:12: KeyError: 'score'"
    )


def test_what_has_no_number_or_no_failure_is_told_too() -> None:
    assert (subject("TIMER", -1, "reminder"), subject("END", -1)) == (
        "the handler of the timer reminder",
        "a handler of ends",
    )
    assert in_words("Check #0", 0, "03:12", "") == "Check #0 waits since 03:12 and was not tried yet"
    assert (failure("builtins.KeyError", "'score'"), failure("", "refused")) == ("KeyError: 'score'", "refused")
