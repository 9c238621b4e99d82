"""A drain takes up parked records in slices, and each parked dialog gets a share of a slice."""

import pytest

from conversations.memory.clock import ManualClock
from conversations.protocol import rows
from conversations.protocol.park_row import ParkRow
from conversations.stores.memory import MemoryStore
from conversations.worker.active import Park
from conversations.worker.budget import Budget
from conversations.worker.drain import AHEAD, Drain
from conversations.worker.outbox import Outbox

LONG, SHORT, OTHER = (bytes(16) + bytes([number]) for number in range(3))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conversations.worker.drain.SLICE", 10)
    monkeypatch.setattr("conversations.worker.drain.SHARE", 4)


def parked(records: int) -> Park:
    return Park(ParkRow(first=0, next=records))


def key(own: bytes, number: int) -> bytes:
    return rows.numbered(rows.PARKED, own, number)


class Scene:
    """A drain over committed rows."""

    def __init__(self, *names: bytes, size: int = 3) -> None:
        self.store = MemoryStore()
        self.store.apply([(key(own, number), (b"%d" % number).ljust(size)) for own in names for number in range(9)], 0)
        self.outbox = Outbox(
            0, self.store, Budget(ManualClock(0), size=1_000_000, time=1_000_000, flow=1_000_000), "state", "dead"
        )
        self.drain = Drain(self.outbox)
        self.drain.begin()

    def taken(self, own: bytes, found: Park) -> list[bytes]:
        """Take up and finish records until the slice has no more for this dialog; return their rows."""
        got = []
        while found.row.first < found.row.next:
            head = key(own, found.row.first)
            if not self.drain.take(own, found, head):
                self.drain.put_off(own, found)
                break
            got.append((self.drain.read(own, found, head) or b"missing").strip())
            found.row.first += 1
        return got


def test_a_long_queue_gets_its_share_and_waits_behind_the_others() -> None:
    scene, long, short, other = Scene(LONG, SHORT, OTHER), parked(9), parked(1), parked(9)
    scene.drain.put_off(SHORT, short)
    assert scene.taken(LONG, long) == [b"0", b"1", b"2", b"3"]
    assert scene.drain.next() == (SHORT, short)
    assert scene.taken(SHORT, short) == [b"0"]
    assert scene.taken(OTHER, other) == [b"0", b"1", b"2", b"3"]
    assert scene.drain.next() is None, "one record of the slice is left, but each dialog has had its share"
    scene.drain.begin()
    assert scene.drain.next() == (LONG, long)
    assert scene.taken(LONG, long) == [b"4", b"5", b"6", b"7"]
    assert scene.drain.next() == (OTHER, other)


def test_a_dialog_for_which_no_other_waits_has_the_whole_slice() -> None:
    scene, long = Scene(LONG), parked(15)
    assert [row for row in scene.taken(LONG, long) if row != b"missing"] == [b"%d" % number for number in range(9)]
    assert long.row.first == 10


def test_a_slice_has_no_more_records_however_many_dialogs_wait() -> None:
    names = [bytes(16) + bytes([number]) for number in range(6)]
    scene = Scene(*names)
    assert [len(scene.taken(own, parked(3))) for own in names] == [3, 3, 3, 1, 0, 0]
    assert scene.drain.next() is None
    scene.drain.begin()
    assert [scene.drain.next() is not None for _ in names] == [True, True, True, False, False, False]


def test_a_record_that_was_edited_while_its_dialog_waited_is_read_again() -> None:
    scene, long = Scene(LONG), parked(9)
    scene.drain.take(LONG, long, key(LONG, 0))
    scene.drain.put_off(LONG, long)
    scene.outbox.write(key(LONG, 0), b"edited")
    assert scene.drain.read(LONG, long, key(LONG, 0)) == b"edited"


def test_a_new_park_of_a_dialog_gets_nothing_that_was_read_ahead_for_an_earlier_one() -> None:
    scene, before, after = Scene(LONG), parked(9), parked(9)
    scene.drain.take(LONG, before, key(LONG, 0))
    scene.outbox.write(key(LONG, 1), b"new")
    assert scene.drain.read(LONG, after, key(LONG, 1)) == b"new"
    assert scene.drain.take(LONG, after, key(LONG, 1))
    assert scene.drain.read(LONG, after, key(LONG, 1)) == b"new"


def test_rows_that_the_next_transaction_changes_are_not_read_ahead() -> None:
    scene, long = Scene(LONG), parked(9)
    scene.outbox.write(key(LONG, 2), b"changed")
    assert scene.taken(LONG, long)[:4] == [b"0", b"1", b"changed", b"3"]


def test_large_records_are_read_one_by_one() -> None:
    scene, long = Scene(LONG, size=2 * AHEAD), parked(9)
    scene.drain.take(LONG, long, key(LONG, 0))
    scene.outbox.write(key(LONG, 1), b"written")
    scene.outbox.write(key(LONG, 3), b"written")
    assert scene.drain.read(LONG, long, key(LONG, 1)) != b"written", "two of them fit into what a share may read ahead"
    assert scene.drain.read(LONG, long, key(LONG, 3)) == b"written"
