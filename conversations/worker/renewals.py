"""Renewals: the initiator of a broken dialog asks what the target has accepted, and sends the rest again on a new dialog.

Service Broker's authors send everything again that is not acknowledged. Then the target may get a message twice, because the acknowledgement may
just be missing. Here the initiator first **asks** (FENCE). The target ends its side, accepts nothing more, and **answers** with the last number
that it has accepted (FENCED). Only what is above this number is sent again, in order, and its number on the first dialog goes with it. The new
dialog begins in the transaction in which the old one ends (design decision 0038, seed 000).

    CONVERSING --the dialog breaks--> FENCING --FENCED--> a new dialog, and this one is CLOSED
                                                 '------> ERROR (on_error), if there can be no new dialog
    ERROR --the application ends this side--> SETTLING --FENCED--> CLOSED, and the rest becomes dead letters

There is no new dialog in five cases: the error does not allow it (``code_table``), the target has not answered in time or has forgotten the
dialog, it has given up on messages that it had accepted, some of its replies are missing, or the dialog is the last of its generations.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import pairwise

from conversations.protocol import rows
from conversations.protocol.contract import END_OF_STREAM
from conversations.protocol.endpoint import NEVER, Endpoint, prefix_of
from conversations.protocol.envelope import Envelope, Extras, Kind, Origin, encode
from conversations.protocol.events import ConversationId, Renewed
from conversations.protocol.fences import GENERATIONS, Chain
from conversations.protocol.fragments import last_number
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.sequencing import NONE
from conversations.protocol.states import State
from conversations.protocol.times import later
from conversations.worker import outbound, remaining
from conversations.worker.active import Active
from conversations.worker.partition import Partition
from conversations.worker.unacknowledged import Remaining

log = logging.getLogger("conversations.worker")


# -- the initiator -----------------------------------------------------------------------------------------------


def ask(partition: Partition, active: Active) -> bool:
    """Send a FENCE. Return False, and give up on the answer, if the peer has been asked for ``Periods.fence_for``."""
    endpoint, context = active.endpoint, partition.context
    periods = context.periods
    asked_for = endpoint.asks_fence(context.now, periods.blocked_first, periods.blocked_last)
    partition.touch(active)
    if asked_for >= periods.fence_for:
        endpoint.unanswered()
        return False
    if active.identity in partition.waiting.delayed.of:
        return True  # an earlier FENCE waits for the destination, or the messages before it do
    error = endpoint.error
    said = Envelope(
        prefix_of(endpoint), Kind.FENCE, -1, endpoint.acknowledge(), endpoint.next_out - 1, sent_at=context.now,
        code=error.code if error is not None else 0, description=error.description if error is not None else "",
    )  # fmt: skip
    partition.transmission.transmit(active, encode(said))
    return True


def renew(partition: Partition, active: Active) -> bool:
    """Let a new dialog carry on with what the peer has not accepted, and end the old one. Return False if there is no new dialog."""
    endpoint = active.endpoint
    generation = 1 if endpoint.chain is None else endpoint.chain.generation + 1
    # Twice, because the envelopes may take much memory: first only their numbers, then one after the other.
    left = [
        it._replace(value=b"", envelope=replace(it.envelope, body=b""))
        for it in remaining.in_order(partition.transmission, partition.waiting, active)
    ]
    # If the peer has acknowledged only some fragments of a message, all of them are sent again.
    if not endpoint.renews or not left or left[0].number > endpoint.acked + 1 or left[0].envelope.fragment:
        return False
    if left[-1].number != endpoint.next_out - 1 or any(
        after.number != before.number + 1 for before, after in pairwise(left)
    ):
        return False  # some were not kept, because a limit was reached
    first, number = (endpoint.conversation, 0) if endpoint.chain is None else endpoint.chain[1:]
    chain = Chain(generation, first, number + left[0].number)
    new = _begin(partition, active, chain)
    for each in remaining.in_order(partition.transmission, partition.waiting, active):
        _send_again(partition, new, each, chain)
    last = left[-1].envelope
    is_ended = last.kind is Kind.END or last.message_type == END_OF_STREAM
    if partition.successions.is_replaced(new.endpoint) and not is_ended:
        # A pool replaced the old dialog after it broke, so nothing asks the target to end. Without it the next dialog would wait for ever.
        outbound.end_stream(partition, new)
    partition.unacknowledged.forget(active)
    remaining.forget(partition.transmission, partition.waiting, active)
    error = endpoint.error
    log.warning(
        "dialog %s broke (%s), and goes on as %s with %d messages that %s had not accepted", uuid_text(endpoint.conversation),
        error.code if error is not None else 0, uuid_text(new.endpoint.conversation), len(left), endpoint.peer,
        extra=partition.log_fields(endpoint.conversation),
    )  # fmt: skip
    partition.letters.event(Renewed(
        ConversationId(uuid_text(endpoint.conversation)), ConversationId(uuid_text(new.endpoint.conversation)), generation,
        error.code if error is not None else 0, len(left),
    ))  # fmt: skip
    endpoint.renewed()
    outbound.conclude(partition, active, replaced_by=new.endpoint.conversation)
    return True


def _begin(partition: Partition, old: Active, chain: Chain) -> Active:
    context, before = partition.context, old.endpoint
    conversation = chain.conversation()
    lives = old.side.contract.lives(context.periods.lifetime)
    endpoint = Endpoint(
        conversation, initiator=True, contract=before.contract, service=before.service, peer=before.peer, key=before.key,
        peer_key=before.peer_key, expires_at=NEVER if lives is None else later(context.now, lives),
    )  # fmt: skip
    endpoint.join_group_of(before.origin)
    endpoint.replace(chain)
    active = partition.find(rows.identity(conversation, initiator=False), before.key, before.origin)
    active.begin(endpoint, old.side)
    if chain.generation == GENERATIONS:
        endpoint.renew_when_broken(False)
    partition.groups.join(active)
    partition.successions.carry_on(before.key, old.identity, active.identity)
    context.counts.count_begun()
    context.watchers.follow(before.conversation, conversation)
    for name, at in before.timers().items():
        endpoint.set_timer(at, name)
    return active


def _send_again(partition: Partition, active: Active, it: Remaining, chain: Chain) -> None:
    if it.envelope.kind is Kind.END:
        outbound.end(partition, active)
        return
    endpoint = active.endpoint
    number = endpoint.send()
    if number == 0:
        partition.transmission.begin(active)
    origin = Origin(chain.first, chain.generation, chain.number + number)
    said = replace(
        it.envelope, prefix=prefix_of(endpoint), seq=number, ack=endpoint.acknowledge(), sent_at=partition.context.now,
        extras=Extras(origin=origin),
    )  # fmt: skip
    partition.transmission.transmit(active, encode(said), number, last_number(it.envelope) - it.number)
    partition.touch(active)


def resend(partition: Partition, active: Active, said: Envelope) -> bool:
    """Answer a RESEND. Return False if this side does not keep what the peer misses, and the dialog is to break."""
    return (
        transmit_again(partition, active, said.ack, said.transmitted) or active.endpoint.state is not State.CONVERSING
    )


def transmit_again(partition: Partition, active: Active, after: int, last: int = NONE) -> bool:
    """Transmit the envelopes after a number again: the first one, and as many more as the step's budget allows.

    ``last`` is the number of the last of them; ``NONE`` means all. Return False if the next of them is not kept.
    """
    expected = after + 1
    for it in partition.unacknowledged.after(active, after):
        if it.number != expected or not it.row or NONE < last < it.number:
            break  # a later one is missing, or this step transmits it anyway
        # The first one always goes: the next of the peer is kept, and a probe that is not transmitted would cost a wait.
        may_go = it.envelope.fragments == 1 or partition.context.budget.transmits(len(it.value))
        if not may_go and expected > after + 1:
            break
        partition.transmission.transmit(active, it.value)
        expected += 1
        if partition.context.budget.is_read():
            break
    return expected > after + 1


def retransmit(partition: Partition, active: Active) -> None:
    """Transmit again what a peer on another cluster has not acknowledged, or a probe.

    Do nothing while it waits here for the transmission topic.
    """
    if active.identity in partition.waiting.delayed.of or active.way.topic in partition.context.destinations.blocked:
        return
    partition.context.counts.traffic.count_retransmitted()
    after, far = active.endpoint.acked, active.endpoint.far
    transmit_again(partition, active, after, after + 1 if far is not None and far.probes() else NONE)


# -- the target ---------------------------------------------------------------------------------------------------


def answer(partition: Partition, active: Active) -> None:
    """Answer a FENCE from an endpoint that has just ended, or had ended before."""
    endpoint = active.endpoint
    said = Envelope(
        prefix_of(endpoint), Kind.FENCED, -1, endpoint.acknowledge(), endpoint.next_out - 1,
        sent_at=partition.context.now, extras=Extras(fence=endpoint.outcome()),
    )  # fmt: skip
    partition.transmission.transmit(active, encode(said))
    partition.touch(active)
