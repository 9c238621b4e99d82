"""Conversation groups: who belongs to one, and its state."""

from __future__ import annotations

from uuid import UUID

from conversations.protocol import rows
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.limits import GROUP_MEMBERS
from conversations.protocol.rows import GroupRow
from conversations.protocol.states import State
from conversations.worker.active import Active, Lane
from conversations.worker.partition import Partition

LARGE = 4_096
"""Bytes of a group's row up to which it stays in memory with its dialogs: so they have a limit in bytes as they have in number."""


def group_of(partition: Partition, lane: Lane) -> GroupRow:
    """Return the row of a lane's group, an empty one when there is none."""
    if lane.group is None:
        key = rows.group_key(*lane.name)
        row = partition.outbox.read(key)
        group = GroupRow() if row is None else partition.outbox.decoded(key, rows.decode_group, row)
        lane.know_group(group)
        _note_size(partition, lane, row or b"")
        return group
    return lane.group


def _note_size(partition: Partition, lane: Lane, row: bytes) -> None:
    if len(row) > LARGE:
        partition.work.note_large(lane)


def save(partition: Partition, lane: Lane) -> None:
    """Write the group's row with the next transaction, once, whatever else changes in it until then."""
    group = group_of(partition, lane)
    if not group.members:
        group.members.update(dict.fromkeys(_implied(partition, lane)))
    partition.work.regroup(lane)


def encode_changed(partition: Partition) -> None:
    """Put the rows of the groups that changed into the next transaction."""
    for lane in partition.work.take_regrouped():
        row = rows.encode_group(group_of(partition, lane))
        _note_size(partition, lane, row)
        partition.outbox.write(rows.group_key(*lane.name), row)


def join(partition: Partition, active: Active) -> None:
    """Make a new endpoint a member of its group.

    A group that only has the conversation it is named after needs no row: the name says it.
    """
    lane = active.lane
    group = group_of(partition, lane)
    if not group.members and uuid_text(active.identity[:16]) == lane.name[1]:
        return
    if not group.members:
        group.members.update(dict.fromkeys(_implied(partition, lane)))
    group.members[active.identity] = None
    save(partition, lane)


def is_full(partition: Partition, lane: Lane) -> bool:
    """Say whether a group has as many dialogs as one row can remember."""
    return len(group_of(partition, lane).members) >= GROUP_MEMBERS


def leave(partition: Partition, origin: str, key: str, own: bytes) -> None:
    """Take a forgotten endpoint out of its group; the last one takes the group's state with it."""
    lane = partition.work.lane(origin, key)
    group = group_of(partition, lane)
    group.members.pop(own, None)
    if group.members:
        save(partition, lane)
        return
    partition.work.ungroup(lane)
    if partition.outbox.read(rows.group_key(origin, key)) is not None:
        partition.outbox.write(rows.group_key(origin, key), None)
    partition.work.forget(lane)


def members(partition: Partition, active: Active) -> list[Active]:
    """Endpoints of the group that are not closed, the one that opened it first."""
    group = group_of(partition, active.lane)
    names = list(group.members) or _implied(partition, active.lane) or [active.identity]
    found = [partition.find(rows.other_side(own), "", "") for own in names]
    return [member for member in found if member.exists and member.endpoint.state is not State.CLOSED]


def opener(partition: Partition, active: Active) -> Active:
    """The endpoint that opened the group; the given one when that is forgotten."""
    group = group_of(partition, active.lane)
    names = list(group.members) or _implied(partition, active.lane)
    first = partition.find(rows.other_side(names[0]), "", "") if names else active
    return first if first.exists else active


def _implied(partition: Partition, lane: Lane) -> list[bytes]:
    """The endpoint a group without a row consists of: that of the conversation it is named after.

    Whoever names a group chooses its key freely, so the endpoint of that conversation may be in another group.
    """
    origin, key = lane.name
    try:
        own = rows.identity(UUID(key).bytes, origin == "")
    except ValueError:
        return []
    peer = rows.other_side(own)
    known = partition.actives.get(peer)
    if (known is None or not known.exists) and partition.outbox.read(rows.ENDPOINT + own) is None:
        return []
    return [own] if partition.find(peer, "", "").lane.name == lane.name else []
