"""Large rows: whoever takes a few of them, or one after the other, does not have all of them in memory."""

import tracemalloc
from collections.abc import Iterator
from itertools import islice

import pytest

from conversations.memory.clock import ManualClock
from conversations.protocol.envelope import Envelope, Kind, Prefix, decode, encode
from conversations.stores.memory import MemoryStore
from conversations.worker.active import Active, Arrival, Lane
from conversations.worker.budget import Budget
from conversations.worker.outbox import Outbox
from conversations.worker.waiting_rows import Fragments

PREFIX = Prefix(bytes(16), True, "c", "a", "b", "k", False, 0, -1)
SIZE, COUNT = 500_000, 16


class Watched(MemoryStore):
    """A store that counts the rows that a scan has read."""

    read = 0

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in super().scan(prefix):
            self.read += 1
            yield row


def outbox_on(store: MemoryStore) -> Outbox:
    return Outbox(0, store, Budget(ManualClock(0), size=1 << 30, time=1 << 30, flow=1 << 30), "state", "dead")


@pytest.mark.parametrize("changed", [False, True])
def test_a_scan_reads_only_the_rows_that_are_taken(changed: bool) -> None:
    store = Watched()
    store.apply([(b"D%02d" % number, b"row") for number in range(50)], 0)
    outbox = outbox_on(store)
    if changed:
        outbox.write(b"D00", None)
    assert [key for key, _ in islice(outbox.scan(b"D"), 3)] == [b"D%02d" % n for n in range(changed, changed + 3)]
    assert len(list(outbox.scan(b"D", 3))) == 3
    assert store.read <= 10


def test_the_fragments_of_a_message_are_joined_one_after_the_other() -> None:
    """The joined body takes its size in memory, and at most an eighth more while it grows. The fragments would take its size again."""
    store = MemoryStore()
    outbox = outbox_on(store)
    active, fragments = Active(bytes(17), Lane(("", "k"))), Fragments(outbox)
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
    tracemalloc.start()
    try:
        fragments.join(last)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert last.envelope.body == b"".join(bytes([number]) * SIZE for number in range(COUNT))
    assert most < (1.125 * COUNT + 3) * SIZE
