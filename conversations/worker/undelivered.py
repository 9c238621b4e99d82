"""Undelivered: a record that a topic refuses is kept as a row until the topic takes it, or until its dialog is given up on."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from conversations.errors import RefusedRecord
from conversations.protocol import codes, letters, rows
from conversations.protocol.codes import SystemCode
from conversations.protocol.command import decode_command
from conversations.protocol.envelope import IDENTITY_AT, IDENTITY_END, Kind, decode
from conversations.protocol.events import CommandRefused, ConversationId, Undeliverable
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.sequencing import NONE
from conversations.protocol.states import State
from conversations.protocol.waiting_row import decode_waiting
from conversations.sealing import plain_value
from conversations.tracing import trace_of
from conversations.worker import remaining
from conversations.worker.active import Active
from conversations.worker.letters import Leftover
from conversations.worker.partition import Partition
from conversations.worker.transmission import Refusal
from conversations.worker.unacknowledged import Remaining
from conversations.worker.waiting_rows import FIRST_ROW

log = logging.getLogger("conversations.worker")


@dataclass(frozen=True)
class Failed:
    """The topics and records that made a commit fail."""

    topics: Mapping[str, str]
    """Topics that take no records now, with the reasons."""
    forbidden: frozenset[str] = frozenset()
    """The topics among ``topics`` that the worker has no permission to write to."""
    records: Mapping[int, RefusedRecord] = field(default_factory=dict)
    """Individually refused records, with the reasons. The key is the ``id()`` of the record."""


def withdraw(partition: Partition, outs: list[Any], failed: Failed, before: AbstractSet[bytes]) -> None:
    """Turn refused records into rows, letters or log lines; the other records stay in ``outs``.

    ``before``: the dialogs that had delayed rows before anything was taken out.
    """
    kept, context = [], partition.context
    refused_ones: list[tuple[Any, ...]] = []
    for out in outs:
        topic, _, _, value, _ = out
        refused = failed.records.get(id(out))
        if refused is None and topic not in failed.topics and not _is_behind(partition, out):
            kept.append(out)
        elif topic == context.topics.events:
            log.warning("an event could not be published: %s", (value or b"").decode("utf-8", "backslashreplace"))
        elif topic == context.topics.commands:
            _refuse_command(partition, out, refused)
        elif not topic.startswith(context.topics.retry_prefix):  # else: a record of a retry topic only shows a row
            refused_ones.append(out)
            if refused is not None:
                code = codes.TOO_LARGE if refused.too_large else codes.INVALID
                _give_up(partition, out, code, f"{topic} does not take the record: {refused.why}")
            elif topic in failed.forbidden and _is_overdue(partition, value):
                _give_up(partition, out, codes.NOT_PERMITTED, failed.topics[topic])
    _delay(partition, refused_ones, before)
    outs[:] = kept


def _delay(partition: Partition, outs: list[tuple[Any, ...]], before: AbstractSet[bytes]) -> None:
    """Keep refused envelopes as rows, in their order. What was delayed of a dialog before was sent after them."""
    in_front = [out for out in outs if out[3][IDENTITY_AT:IDENTITY_END] in before]
    behind = [out for out in outs if out[3][IDENTITY_AT:IDENTITY_END] not in before]
    for out in (*reversed(in_front), *behind):
        topic, _, key, value, headers = out
        own = value[IDENTITY_AT:IDENTITY_END]
        # The row has the plain bytes, so that they are sealed anew when they are transmitted.
        partition.transmission.delay(own, topic, key, plain_value(value), trace_of(headers), in_front=own in before)


def _is_overdue(partition: Partition, value: bytes) -> bool:
    context = partition.context
    return context.now - decode(value).sent_at >= context.periods.refused_after


def _refuse_command(partition: Partition, out: tuple[Any, ...], refused: RefusedRecord | None) -> None:
    topic, _, key, value, _ = out
    command = decode_command(value)
    item = Leftover(topic, partition.waiting.draw(), key, value, command=command)
    partition.letters.dead_letter(item, letters.COMMAND_REFUSED, code=codes.BODY_TOO_LARGE.number)
    why = refused.why if refused is not None else "it cannot be written to"
    number, code = uuid_text(command.command_id), codes.BODY_TOO_LARGE.number
    partition.letters.event(CommandRefused(number, code, f"{topic} does not take the command: {why}"))


def _give_up(partition: Partition, out: tuple[Any, ...], code: SystemCode, why: str) -> None:
    topic, _, _, value, _ = out
    partition.transmission.give_up(value[IDENTITY_AT:IDENTITY_END], Refusal(topic, code, why))


def _is_behind(partition: Partition, out: tuple[Any, ...]) -> bool:
    """Return True if a record comes after a record of the same dialog that was refused for good."""
    topic, _, _, value, _ = out
    if value is None or not partition.transmission.refused:
        return False
    refusal = partition.transmission.refused.get(value[IDENTITY_AT:IDENTITY_END])
    return refusal is not None and refusal.topic == topic


def wake(partition: Partition) -> None:
    """Give a turn to each dialog that is given up on. If the dialog is over, only write its dead letters."""
    for own, refusal in list(partition.transmission.refused.items()):
        if own in partition.transmission.returning:
            continue  # its messages become dead letters already
        active = partition.find(rows.other_side(own), "", "")
        if not active.exists or active.endpoint.state is State.CLOSED:
            keep(partition, own)
        elif not refusal.asked:
            partition.transmission.asked(own)
            partition.work.fall_due(active)


def has_end(partition: Partition, active: Active) -> bool:
    """Return True if this side's END is delayed."""
    if active.identity not in partition.waiting.delayed.of:
        return False
    return any(envelope.kind is Kind.END for _, _, envelope in partition.waiting.delayed_rows(active.identity))


def keep(partition: Partition, own: bytes) -> Refusal:
    """Turn the undelivered envelopes of a dialog into dead letters; return why the dialog is given up on.

    An envelope may have been transmitted before: the peer missed it, and the repetition is refused. The peer may have got the first one
    meanwhile. So its row of unacknowledged envelopes stays, and decides about it when the dialog is over.
    """
    refusal = partition.transmission.take_refusal(own)
    active = partition.find(rows.other_side(own), "", "")
    before = {it.number for it in partition.unacknowledged.after(active, NONE)} if active.exists else set()
    given_up: dict[int, tuple[str, bytes]] = {}
    count = 0
    for it in remaining.whole(_given_up(partition, own, before, given_up)):
        topic, key = given_up[it.number]
        item = Leftover(topic, it.number, key, it.value, it.envelope, pieces=it.pieces)
        partition.letters.dead_letter(item, letters.UNDELIVERABLE, code=refusal.code.number)
        count += 1
    partition.waiting.delayed.forget(own)
    conversation, code = ConversationId(uuid_text(own[:16])), refusal.code.number
    partition.letters.event(Undeliverable(conversation, code, refusal.why, count))
    log.error(
        "dialog %s cannot be carried on, %d envelopes are dead letters: %s", conversation, count, refusal.why, extra=partition.log_fields(own[:16])
    )  # fmt: skip
    return refusal


def _given_up(
    partition: Partition, own: bytes, before: AbstractSet[int], places: dict[int, tuple[str, bytes]]
) -> Iterator[Remaining]:
    """Yield the delayed envelopes of a dialog, and delete their rows. ``places`` gets the topic and the key of each, by its number.

    A message with its number in ``before`` is left out.
    """
    for row_key, row in partition.outbox.scan(rows.DELAYED + own):
        kept = partition.outbox.decoded(row_key, decode_waiting, row)
        number = int.from_bytes(row_key[-8:], "big")
        for envelope, value in partition.transmission.delayed_in(kept):
            if envelope.kind is Kind.MESSAGE and envelope.seq in before:
                continue
            # A number in front may come again after a restart, and a row may stand for several envelopes. Each letter needs its own.
            if number < FIRST_ROW or number in places:
                number = partition.waiting.draw()
            places[number] = kept.topic, kept.key
            yield Remaining(number, value, envelope, row_key)
        partition.transmission.drop(own, row_key, row)
