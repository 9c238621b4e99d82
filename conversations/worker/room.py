"""The room: the part of a partition that the draft of a handler may use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from conversations.draft import NewDialog, Party
from conversations.errors import RetryLater
from conversations.handlers import Side
from conversations.protocol import admission
from conversations.protocol.contract import END_OF_STREAM, Contract
from conversations.protocol.endpoint import Endpoint
from conversations.protocol.envelope import Envelope, Kind
from conversations.protocol.identifiers import uuid_text
from conversations.worker import remaining
from conversations.worker.active import Active, Lane
from conversations.worker.partition import Partition


class Room:
    """The part of a partition that a draft uses. Threads of handlers call it, so it reads shared state under ``Context.lock``."""

    __slots__ = ("_partition", "body_limit", "delayed", "number", "tracing")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.number = partition.number
        self.tracing = partition.context.service.tracing
        self.body_limit = partition.context.settings.limits.body_bytes
        self.delayed = partition.waiting.delayed.of

    @property
    def now(self) -> int:
        """Time of the step, microseconds since the epoch."""
        return self._partition.context.now

    @property
    def lifetime(self) -> int:
        """Lifetime, in microseconds, of dialogs whose contract does not set a lifetime."""
        return self._partition.context.periods.lifetime

    def new_party(self, opener: Party, begin: NewDialog) -> Active:
        """Make the initiator endpoint of a new dialog. Until the draft is applied, only the draft has this endpoint."""
        context = self._partition.context
        with context.lock:
            conversation = context.new_conversation()
        key = opener.endpoint.key if begin.related else uuid_text(conversation)
        lane = _lane(opener)
        endpoint = Endpoint(
            conversation,
            initiator=True,
            contract=begin.contract.name,
            service=context.name,
            peer=begin.to,
            key=key,
            peer_key=begin.to_group or key,
            expires_at=begin.expires_at,
        )
        if begin.related:
            with context.lock:
                self._partition.groups.check_room(lane)
            endpoint.join_group_of(lane.name[0])
        active = Active(conversation + b"\1", lane if begin.related else Lane(("", key)))
        active.begin(endpoint, context.sides[begin.contract.name, True])
        return active

    def is_clogged(self, party: Party) -> bool:
        """Return True if too many bytes wait for a party's destination. Then this party may send no messages until fewer bytes wait."""
        partition, own = self._partition, party.identity
        context, delayed = partition.context, partition.waiting.delayed
        if self.is_stopped(party) and delayed.of.get(own, 0) >= context.settings.limits.dialog_bytes:
            return True
        return (own in delayed.of or self.is_stopped(party)) and delayed.bytes >= context.settings.limits.delayed_bytes

    def is_stopped(self, party: Party) -> bool:
        """Return True if a party's destination takes nothing now. If not, its delayed envelopes leave with the next steps."""
        context = self._partition.context
        is_held_back = party.identity in self._partition.successions.held_back
        return is_held_back or context.destinations.topic(party.endpoint.peer) in context.destinations.blocked

    def members(self, party: Party) -> list[Party]:
        """Return the endpoints of the party's group that are not closed."""
        with self._partition.context.lock:
            return [*self._partition.groups.members(_active(party))]

    def opener(self, party: Party) -> Party:
        """Return the endpoint that opened the group."""
        with self._partition.context.lock:
            return self._partition.groups.opener(_active(party))

    def load_state(self, party: Party) -> Any:
        """Return the state of the party's group, newly decoded."""
        partition = self._partition
        with partition.context.lock:
            group = partition.groups.of(_lane(party))
        return partition.context.service.state.decode(group.state, group.version)

    def new_state(self) -> Any:
        """Return the state of a new group."""
        return self._partition.context.service.state.new()

    def initiates(self, contract: Contract) -> bool:
        """Return True if the service declares that it begins dialogs under this contract."""
        return self._partition.context.service.initiates.get(contract.name) is contract

    def pending(self, party: Party) -> list[Envelope]:
        """Return the messages of the party that its peer has not acknowledged, in order."""
        with self._partition.context.lock:
            left = [
                it.envelope
                for it in remaining.whole(
                    remaining.in_order(self._partition.transmission, self._partition.waiting, _active(party))
                )
            ]
        return [it for it in left if it.kind is Kind.MESSAGE and it.message_type != END_OF_STREAM]

    def side_of(self, contract: Contract) -> Side:
        """Return the handlers of the service on the initiator's side of a contract."""
        return self._partition.context.sides[contract.name, True]

    def check_publishable(self, topic: str) -> None:
        """Check that the service publishes to a plain topic, and that the topic takes records now.

        While the topic is blocked, the handler waits, and not only its record: the record belongs to the transaction of the other effects.

        Raises:
            LocalError: the service does not declare the topic.
            RetryLater: the topic takes no records now.
        """
        context = self._partition.context
        if topic not in context.topics.plain:
            raise admission.not_published(context.name, topic)
        until = context.destinations.blocked.get(topic)
        if until is not None:
            wait = timedelta(microseconds=max(until - context.now, 0))
            raise RetryLater(wait, f"topic {topic} accepts no records now: is it missing, or the right to write to it?")

    def is_unknown(self, service: str) -> bool:
        """Return True if the catalog does not name a service; False while the catalog cannot be read."""
        with self._partition.context.lock:
            return self._partition.context.destinations.is_invented(service)


def _active(party: Party) -> Active:
    if not isinstance(party, Active):
        raise TypeError("not an endpoint of this worker")
    return party


def _lane(party: Party) -> Lane:
    return _active(party).lane
