"""Assembly: fragments become a message, or are given up with their dialog."""

from __future__ import annotations

from conversations.protocol import codes, letters
from conversations.protocol.fragments import is_last
from conversations.worker.active import Active, Arrival
from conversations.worker.partition import Partition


def completes(partition: Partition, item: Arrival) -> bool:
    """Return True if an item is a whole message: it is not cut, or it is the last fragment, and the fragments before it are here.

    A last fragment stands for its whole message from then on.
    """
    fragments = partition.waiting.fragments
    if item.pieces > 1:
        return True
    if fragments.misfit(item) or fragments.size(item) > partition.context.settings.limits.body_bytes:
        return False
    if item.envelope.fragments > 1 and is_last(item.envelope):
        fragments.join(item)
    return item.envelope.fragments == 1


def keep(partition: Partition, item: Arrival) -> str:
    """Keep a fragment until its message is whole. If it does not fit, or too much is kept, make it a dead letter, and return why."""
    fragments, limits = partition.waiting.fragments, partition.context.settings.limits
    why = fragments.misfit(item)
    if not why and fragments.size(item) > limits.body_bytes:
        why = f"A message has more than {limits.body_bytes} bytes."
    if not why and item.envelope.fragment == 0 and fragments.bytes >= limits.assembled_bytes:
        why = "Too many messages in fragments are not handled yet."
    if not why:
        fragments.keep(item)
        return ""
    partition.letters.dead_letter(item, letters.BREACH, code=codes.NOT_CONVERSING.number)
    item.active.endpoint.gave_up_on()
    return why


def close(partition: Partition, active: Active) -> None:
    """Give up what waits at this side, because its dialog is over: the fragments of a message that is not whole, and what is parked."""
    if partition.waiting.fragments.begun:
        for fragment in partition.waiting.fragments.give_up(active):
            partition.letters.dead_letter(fragment, letters.HELD_AT_END)
            active.endpoint.gave_up_on()
    partition.parking.close(active)
