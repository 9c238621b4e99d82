"""Conversation groups of a partition: their members and their state.

A group that initiators name (``to_group``) has the origin ``rows.SHARED``. Its state outlives its dialogs: it stays until a handler deletes it.
So a closed endpoint leaves such a group at once, and the row does not grow with each dialog. In all other groups a closed endpoint stays a
member until its tombstone is deleted. The group's state is deleted with the last member.

A group needs no row if it has no state, and its key is the id of a conversation whose endpoint is the only member. Every other group has a
row. The first member in a row is the endpoint that opened the group.

The row of a group stays in memory with the group's lane, so that it need not be read from the local copy for each handler. A large row
leaves memory as soon as its lane has nothing to do. The number of groups in memory is limited. So the bytes of their rows are limited, too.
"""

from __future__ import annotations

from conversations.errors import LocalError
from conversations.protocol import rows
from conversations.protocol.codes import GROUP_FULL
from conversations.protocol.identifiers import read_uuid_text, uuid_text
from conversations.protocol.limits import GROUP_MEMBERS
from conversations.protocol.rows import GroupRow
from conversations.protocol.states import State
from conversations.worker.active import Active, Endpoints, Lane
from conversations.worker.outbox import Outbox
from conversations.worker.work import Work

LARGE = 4_096
"""A group's row with more bytes leaves memory while its lane has nothing to do."""


class Groups:
    """The conversation groups of one partition."""

    __slots__ = ("_changed", "_endpoints", "_large", "_outbox", "_work")

    def __init__(self, outbox: Outbox, work: Work, endpoints: Endpoints) -> None:
        self._outbox = outbox
        self._work = work
        self._endpoints = endpoints
        self._changed: set[Lane] = set()
        """Lanes whose group's row must be written."""
        self._large: set[Lane] = set()
        """Lanes in memory whose group's row has more than ``LARGE`` bytes."""

    # -- rows -------------------------------------------------------------------------------------------------

    def of(self, lane: Lane) -> GroupRow:
        """Return the row of a lane's group; an empty ``GroupRow`` if the group has no row."""
        if lane.group is None:
            key = rows.group_key(*lane.name)
            row = self._outbox.read(key)
            group = GroupRow() if row is None else self._outbox.decoded(key, rows.decode_group, row)
            lane.know_group(group)
            self._note_size(lane, row or b"")
            return group
        return lane.group

    def save(self, lane: Lane) -> None:
        """Write the group's row with the next transaction. It is encoded only when the step is closed, with all changes of the step."""
        group = self.of(lane)
        if not group.members:
            group.members.update(dict.fromkeys(self._implied(lane)))
        self._changed.add(lane)

    @property
    def is_changed(self) -> bool:
        """True if the row of at least one group must be written."""
        return bool(self._changed)

    @property
    def changed(self) -> frozenset[Lane]:
        """Lanes whose group's row must be written."""
        return frozenset(self._changed)

    def encode_changed(self) -> None:
        """Put the rows of the groups that changed into the next transaction."""
        changed, self._changed = self._changed, set()
        for lane in changed:
            row = rows.encode_group(self.of(lane))
            self._note_size(lane, row)
            self._outbox.write(rows.group_key(*lane.name), row)

    def _note_size(self, lane: Lane, row: bytes) -> None:
        if len(row) > LARGE:
            self._large.add(lane)

    def leave_memory(self, lane: Lane) -> None:
        """Drop an idle lane and its group's row from memory; the row is read again when needed."""
        lane.forget_group()
        self._forget_lane(lane)

    def forget_large(self) -> None:
        """Drop large rows from memory if their lanes have nothing to do; they are read again when needed."""
        for lane in [lane for lane in self._large if not lane.has_items and lane.run is None]:
            if lane not in self._changed:
                lane.forget_group()
                self._large.discard(lane)

    def _forget_lane(self, lane: Lane) -> None:
        if self._work.forget(lane):
            self._large.discard(lane)

    # -- members ------------------------------------------------------------------------------------------------

    def join(self, active: Active) -> None:
        """Make a new endpoint a member of its group."""
        lane = active.lane
        group = self.of(lane)
        is_implied = uuid_text(active.identity[:16]) == lane.name[1] and lane.name[0] != rows.SHARED
        if not group.members and is_implied:
            return
        if not group.members:
            group.members.update(dict.fromkeys(self._implied(lane)))
        group.members[active.identity] = None
        self.save(lane)

    def is_full(self, lane: Lane) -> bool:
        """Return True if a group has as many members as one row can hold."""
        return len(self.of(lane).members) >= GROUP_MEMBERS

    def check_room(self, lane: Lane) -> None:
        """Check that another dialog may begin in a group.

        Raises:
            LocalError: the group is full (50007).
        """
        if self.is_full(lane):
            raise LocalError(
                f"group {lane.name[1][:80]!r} has {GROUP_MEMBERS} dialogs: it cannot have more (50007)", code=GROUP_FULL
            )

    def close(self, active: Active) -> None:
        """Remove a closed endpoint from a group that initiators name. In other groups it stays a member until its tombstone is deleted."""
        origin, key = active.lane.name
        if origin == rows.SHARED:
            self.leave(origin, key, active.identity)

    def leave(self, origin: str, key: str, own: bytes) -> None:
        """Remove an endpoint from its group. If no member is left, delete the group's row with its state, unless the state must stay."""
        is_away = (origin, key) not in self._work.lanes  # then no endpoint of the group is in memory
        lane = self._work.lane(origin, key)
        group = self.of(lane)
        was_member = own in group.members
        group.members.pop(own, None)
        if origin == rows.SHARED and not was_member:
            # While the group has members, endpoints in memory may have this lane. Without it, the group would get a second lane.
            if is_away or not group.members:
                self._forget_lane(lane)
            return
        if group.members or (origin == rows.SHARED and group.state):
            self.save(lane)
            return
        lane.forget_group()
        self._changed.discard(lane)
        if self._outbox.read(rows.group_key(origin, key)) is not None:
            self._outbox.write(rows.group_key(origin, key), None)
        self._forget_lane(lane)

    def members(self, active: Active) -> list[Active]:
        """Return the endpoints of the group that are not closed; the endpoint that opened the group comes first."""
        group = self.of(active.lane)
        names = list(group.members) or self._implied(active.lane) or [active.identity]
        found = [self._endpoints.find(rows.other_side(own), "", "") for own in names]
        return [member for member in found if member.exists and member.endpoint.state is not State.CLOSED]

    def opener(self, active: Active) -> Active:
        """Return the endpoint that opened the group. If this endpoint is forgotten, return ``active``."""
        group = self.of(active.lane)
        names = list(group.members) or self._implied(active.lane)
        first = self._endpoints.find(rows.other_side(names[0]), "", "") if names else active
        return first if first.exists else active

    def _implied(self, lane: Lane) -> list[bytes]:
        """Return the member of a group without a row: the endpoint of the conversation whose id is the group's key, if any.

        The application may choose any key for a group. So the key may be something else than a conversation id, or the conversation with
        this id may be in another group.
        """
        origin, key = lane.name
        if origin == rows.SHARED:
            return []
        conversation = read_uuid_text(key)
        if conversation is None:
            return []
        own = rows.identity(conversation, origin == "")
        if not self._endpoints.knows(own):
            return []
        return [own] if self._endpoints.find(rows.other_side(own), "", "").lane.name == lane.name else []
