"""The turns of parked dialogs: a step takes up a slice of their records, and each dialog has a share of the slice."""

import pytest

from conversations.memory.clock import ManualClock
from conversations.protocol import rows
from conversations.protocol.park_row import ParkRow
from conversations.stores.memory import MemoryStore
from conversations.worker.active import Park
from conversations.worker.budget import Budget
from conversations.worker.outbox import Outbox
from conversations.worker.turns import ROW_BYTES, Turns

LONG, SHORT = (bytes(16) + bytes([number]) for number in range(2))
ROWS = [b"%d" % number for number in range(9)]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conversations.worker.turns.SLICE", 10)
    monkeypatch.setattr("conversations.worker.turns.SHARE", 4)


def parked(records: int = 9, failure: str = "") -> Park:
    return Park(ParkRow(first=0, next=records, failure=failure))


def key(own: bytes, number: int) -> bytes:
    return rows.numbered(rows.PARKED, own, number)


class Scene:
    """The turns of dialogs whose rows are committed."""

    def __init__(self, *names: bytes, size: int = 1, concurrency: int = 1) -> None:
        self.store = MemoryStore()
        self.store.apply([(key(own, n), ROWS[n].ljust(size)) for own in names for n in range(9)], 0)
        budget = Budget(ManualClock(0), size=1_000_000, time=1_000_000, flow=1_000_000)
        self.outbox = Outbox(0, self.store, budget, "state", "dead")
        self.turns = Turns(self.outbox, concurrency)
        self.turns.begin()

    def taken(self, own: bytes, found: Park, *, goes_on: bool = False) -> list[bytes]:
        """Take up records, each when the one before it is handled, until the slice has no more for this dialog; return their rows."""
        got: list[bytes] = []
        while found.row.first < found.row.next:
            head = key(own, found.row.first)
            if not self.turns.allot(own, found, goes_on=goes_on):
                self.turns.put_off(own, found, goes_on=goes_on)
                break
            got.append((self.turns.read(found, head) or b"missing").strip())
            found.row.first += 1
            found.row.failure, goes_on = "", True
        return got


def test_a_long_queue_gets_its_share_while_others_wait() -> None:
    scene, long, short = Scene(LONG, SHORT), parked(), parked(1)
    scene.turns.put_off(SHORT, short, goes_on=False)
    assert scene.taken(LONG, long) == ROWS[:4]
    assert scene.turns.next() == (SHORT, short)
    assert scene.taken(SHORT, short) == ROWS[:1]
    scene.turns.begin()
    assert scene.turns.next() == (LONG, long)
    assert scene.taken(LONG, long) == ROWS[4:]


def test_a_dialog_for_which_no_other_waits_has_the_whole_slice() -> None:
    scene, long = Scene(LONG), parked(15)
    assert scene.taken(LONG, long) == [*ROWS, b"missing"]
    assert scene.turns.next() is None


def test_a_slice_has_no_more_records_however_many_dialogs_wait() -> None:
    names = [bytes(16) + bytes([number]) for number in range(6)]
    scene = Scene(*names)
    assert [len(scene.taken(own, parked(3))) for own in names] == [3, 3, 3, 1, 0, 0]
    assert scene.turns.next() is None
    scene.turns.begin()
    assert [scene.turns.next() is not None for _ in names] == [True, True, True, False, False, False]


def test_a_dialog_that_has_become_due_does_not_wait_behind_all_that_go_on() -> None:
    scene = Scene()
    for name in (b"1", b"2", b"3"):
        scene.turns.put_off(name, parked(), goes_on=True)
    for name in (b"4", b"5"):
        scene.turns.put_off(name, parked(), goes_on=False)
    found = [turn[0] for _ in range(5) if (turn := scene.turns.next()) is not None]
    assert found == [b"4", b"1", b"5", b"2", b"3"]


def test_a_head_that_has_failed_takes_one_record_of_the_slice() -> None:
    """Else ten dialogs that fail again would need three steps for a round of attempts."""
    names = [bytes(16) + bytes([number]) for number in range(10)]
    scene = Scene(*names)
    assert all(scene.turns.allot(own, parked(failure="why"), goes_on=False) for own in names)


def test_a_dialog_with_a_slow_handler_takes_one_record_of_a_later_slice() -> None:
    scene, slow = Scene(LONG, SHORT), parked()
    assert scene.turns.allot(LONG, slow, goes_on=False)
    scene.turns.begin()
    scene.turns.put_off(SHORT, parked(), goes_on=False)
    slow.row.first += 1
    assert scene.turns.allot(LONG, slow, goes_on=True)
    assert not scene.turns.allot(LONG, slow, goes_on=True)


@pytest.mark.parametrize(("concurrency", "dialogs"), [(1, 3), (2, 5), (5, 10), (50, 10)])
def test_a_slice_has_work_for_all_handlers_that_may_wait(concurrency: int, dialogs: int) -> None:
    names = [bytes(16) + bytes([number]) for number in range(10)]
    scene = Scene(*names, concurrency=concurrency)
    assert sum(scene.turns.allot(own, parked(), goes_on=False) for own in names) == dialogs


# -- what is read ahead ------------------------------------------------------------------------------------------------


def test_the_rows_of_a_share_are_read_together() -> None:
    scene, long = Scene(LONG), parked()
    scene.turns.allot(LONG, long, goes_on=False)
    scene.store.clear()
    assert [scene.turns.read(long, key(LONG, number)) for number in range(5)] == [*ROWS[:4], None]


def test_a_row_is_read_ahead_once() -> None:
    """An operator may edit a head after it was read."""
    scene, long = Scene(LONG), parked()
    scene.turns.allot(LONG, long, goes_on=False)
    assert scene.turns.read(long, key(LONG, 0)) == b"0"
    scene.outbox.write(key(LONG, 0), b"edited")
    assert scene.turns.read(long, key(LONG, 0)) == b"edited"


def test_a_new_park_of_a_dialog_gets_nothing_that_was_read_ahead_for_an_earlier_one() -> None:
    scene, before, after = Scene(LONG), parked(), parked()
    scene.turns.allot(LONG, before, goes_on=False)
    scene.outbox.write(key(LONG, 1), b"new")
    assert scene.turns.read(after, key(LONG, 1)) == b"new"


def test_rows_that_the_next_transaction_changes_are_not_read_ahead() -> None:
    scene, long = Scene(LONG), parked()
    for number in (2, 8):
        scene.outbox.write(key(LONG, number), b"changed")
    assert scene.taken(LONG, long) == [b"0", b"1", b"changed", *ROWS[3:8], b"changed"]


def test_large_records_are_read_one_by_one_but_for_the_first() -> None:
    scene, long = Scene(LONG, size=3 * ROW_BYTES), parked()
    scene.turns.allot(LONG, long, goes_on=False)
    scene.store.clear()
    found = [scene.turns.read(long, key(LONG, number)) for number in range(3)]
    assert [row is not None for row in found] == [True, True, False]
