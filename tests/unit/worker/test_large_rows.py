"""Large rows: code that takes a few rows does not read all of them, and code that takes one row after the other does not keep all of them in memory."""

import tracemalloc
from collections.abc import Iterator
from itertools import islice

import pytest

from conversations.memory.clock import ManualClock
from conversations.protocol.envelope import Envelope, Kind, Prefix, decode, encode
from conversations.stores.memory import MemoryStore
from conversations.worker.active import Active, Arrival, Lane
from conversations.worker.budget import Budget
from conversations.worker.growing import Growing
from conversations.worker.outbox import Outbox
from conversations.worker.waiting_rows import Fragments

PREFIX = Prefix(bytes(16), True, "c", "a", "b", "k", False, 0, -1)
SIZE, COUNT = 500_000, 16


class Watched(MemoryStore):
    """A store that counts the rows that were taken from its scans."""

    taken = 0

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._counted(super().scan(prefix))

    def _counted(self, found: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for row in found:
            self.taken += 1
            yield row


def outbox_on(store: MemoryStore) -> Outbox:
    return Outbox(0, store, Budget(ManualClock(0), size=1 << 30, time=1 << 30, flow=1 << 30), "state", "dead")


@pytest.mark.parametrize("departed", [False, True])
@pytest.mark.parametrize(
    ("changes", "first"),
    [({}, [0, 1, 2]), ({0: None}, [1, 2, 3]), ({0: b"new"}, [0, 1, 2]), ({1: None, 70: b"new"}, [0, 2, 3])],
)
def test_a_scan_reads_only_the_rows_that_are_taken(
    changes: dict[int, bytes | None], first: list[int], departed: bool
) -> None:
    store = Watched()
    store.apply([(b"D%02d" % number, b"row") for number in range(50)], 0)
    outbox = outbox_on(store)
    for number, row in changes.items():
        outbox.write(b"D%02d" % number, row)
    if departed:
        outbox.depart(b"", 0)
    expected = [(b"D%02d" % number, changes.get(number) or b"row") for number in first]
    assert list(islice(outbox.scan(b"D"), 3)) == expected
    assert list(outbox.scan(b"D", 3)) == expected
    assert store.taken <= 2 * 5, "three rows for each scan, the one that a change replaces, and the next one"


def test_the_fragments_of_a_message_are_joined_one_after_the_other() -> None:
    """While the body is joined, its buffer has up to an eighth more than its size, and a few fragments are decoded. All fragments would take the size of the body again."""
    store = MemoryStore()
    outbox = outbox_on(store)
    active, growing = Active(bytes(17), Lane(("", "k"))), Growing(COUNT * SIZE)
    fragments = Fragments(outbox, growing)
    items = []
    for number in range(COUNT):
        envelope = Envelope(
            PREFIX, Kind.MESSAGE, number, -1, message_type="t", content_type="text/plain", body=bytes([number]) * SIZE,
            fragment=number, fragments=COUNT,
        )  # fmt: skip
        value = encode(envelope)
        items.append(Arrival(active, "conv.b.queue", number, 0, b"k", b"", value, envelope=decode(value)))
    last = items.pop()
    for item in items:
        fragments.keep(item)
    del items, item
    outbox.depart(b"", 0)
    outbox.land(1)
    growing.forget(active.identity)  # as after a restart
    tracemalloc.start()
    try:
        fragments.join(last)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert last.envelope.body == b"".join(bytes([number]) * SIZE for number in range(COUNT))
    assert most < (1.125 * COUNT + 3) * SIZE
