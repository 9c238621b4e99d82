"""Intake: decodes and checks each record of a partition, and puts it into a lane. A record that breaks a rule is set aside.

A record that was damaged between two clusters is discarded before anything else (``protocol.integrity``).

The rules are in ``protocol.rules``. Two of these rules, ``SENDER`` and ``CONVERSATION``, are checked later, in ``strangers``.
"""

from __future__ import annotations

import logging
from typing import Final

from conversations.bodies import said
from conversations.errors import LogError, UndecodableRecord
from conversations.headers import read_headers
from conversations.ports import Headers, Record
from conversations.protocol import rows
from conversations.protocol.command import Command, Piece, concerns_partition, decode_command
from conversations.protocol.envelope import (
    IDENTITY_AT,
    IDENTITY_END,
    Envelope,
    Kind,
    Prefix,
    decode,
    decode_current,
    decode_tail,
)
from conversations.protocol.fences import GENERATIONS
from conversations.protocol.integrity import Damaged, has_checksum
from conversations.protocol.limits import FRAGMENTS, KEY_BYTES, RECORD_BYTES, is_name
from conversations.protocol.plain_records import why_copied
from conversations.protocol.rules import Inadmissible, Rule, told
from conversations.protocol.seals import NotAuthentic
from conversations.protocol.sequencing import NONE
from conversations.protocol.topics import has_commands, partition_of
from conversations.protocol.waiting_row import WaitingRow, decode_waiting, trace_in
from conversations.tracing import headers_of, trace_of
from conversations.worker.active import Active, Arrival, Order
from conversations.worker.partition import Partition
from conversations.worker.wires import Come, Wire

log = logging.getLogger("conversations.worker")

MILLISECOND: Final = 1_000


def take(partition: Partition, record: Record) -> None:  # noqa: PLR0915 - one straight line, for speed
    """Put one record of the queue into its lane, or set it aside, or discard it because it is damaged."""
    value = record.value()
    offset = record.offset()
    at = record.timestamp()[1]
    log_time = (
        (at << 10) - (at << 4) - (at << 3)
    )  # times 1,000: compiled code multiplies such numbers as Python objects
    partition.progress.take(offset, log_time)
    headers = read_headers(record)
    try:
        is_whole = has_checksum(headers, record.key(), value) if headers else False
        if value is None:
            raise Inadmissible(Rule.VALUE)
        if len(value) > RECORD_BYTES:
            raise Inadmissible(Rule.SIZE, f"this one has {len(value)}")
        # Nearly every record has the same prefix as the peer's earlier records. A known prefix is compared as bytes, and is not decoded.
        active = partition.actives.get(value[IDENTITY_AT:IDENTITY_END])
        known = None if active is None else active.from_peer
        if active is not None and known is not None and value.startswith(known[1]):
            start = len(known[1])
            if known[2] is None:
                envelope = decode_tail(known[0], value, start)
            else:
                envelope, value = known[2].undress_usual(Come(record, value, start, is_whole), known[0])
            if record.key() != active.lane.key:
                raise Inadmissible(Rule.ENDPOINT_KEY)
        else:
            value = partition.context.destinations.schemas.envelope(value)
            envelope, start = decode_current(value)
            wire = partition.context.destinations.wire(envelope.prefix.from_service)
            if wire is not None:
                come = Come(record, value, start, is_whole)
                envelope, value = wire.undress(come, envelope, partition.context.destinations.schemas)
            active = _unfamiliar(partition, record, envelope, value[:start], wire)
        if envelope.kind > 1 or envelope.seq < 0 or envelope.fragments != 1 or envelope.skipped or envelope.extras:
            _check_unusual(envelope)
            if envelope.fragments != 1:
                partition.context.budget.take(len(value))
    except Damaged as damage:
        partition.letters.discard_damaged(record, str(damage))
        return
    except NotAuthentic as forgery:
        partition.letters.discard_forged(record, forgery.envelope, str(forgery))
        return
    except Inadmissible as refusal:
        partition.letters.set_aside(record, str(refusal), headers)
        return
    except UndecodableRecord as unreadable:
        partition.letters.set_aside(record, told(Rule.SCHEMA, unreadable), headers)
        return
    except LogError:
        raise  # Kafka failed or the state is damaged: the record is not at fault
    except Exception as error:  # noqa: BLE001 - our own code failed: only this record is set aside
        set_failed_aside(partition, record, error, headers)
        return
    trace = trace_of(headers) if headers and partition.context.service.tracing is not None else b""
    item = Arrival(
        active, partition.context.topics.queue, offset, log_time, active.lane.key, trace, value, envelope=envelope
    )
    lane = active.lane
    work = partition.work
    if work.suspicion is not None:
        if offset < partition.progress.row.bound:
            work.suspicion.mark(item)
        work.suspicion.unspilled.add(lane)
    if lane.put(item):
        work.ready.append(lane)


def set_failed_aside(partition: Partition, record: Record, error: Exception, headers: Headers | None) -> None:
    """Set aside a record on which our own code failed. So far, the record has changed only the position."""
    log.error(
        "our own code failed with the record of %s at offset %d: it is set aside",
        record.topic(),
        record.offset(),
        exc_info=error,
        extra=partition.log_fields(),
    )
    partition.letters.set_aside(
        record, f"decoding or checking it failed: {type(error).__name__}: {said(error)}", headers
    )


def set_untaken_aside(partition: Partition, record: Record, why: str) -> None:
    """Set aside a record that killed processes. The record is not decoded, and its headers are not read."""
    offset = record.offset()
    log.error(
        "the record of %s at offset %d is set aside undecoded: %s",
        record.topic(),
        offset,
        why,
        extra=partition.log_fields(),
    )
    if record.topic() == partition.context.topics.queue:
        partition.progress.skip(offset)
    else:
        partition.progress.take_command(record.topic(), offset)
    partition.letters.set_aside(record, why, None)


def _check_unusual(envelope: Envelope) -> None:
    """Check an envelope that is not a plain MESSAGE or END: refuse reserved kinds, and numbers or fields that do not fit the kind."""
    kind, number = envelope.kind, envelope.seq
    extras = envelope.extras
    if extras is not None and extras.seal is not None:
        raise NotAuthentic("it is sealed, and there are no keys for its sender here", envelope)
    if kind is Kind.FENCE or kind is Kind.FENCED:
        _check_fence(envelope)
        return
    if kind is Kind.MESSAGE or kind is Kind.END:
        if number < 0:
            raise Inadmissible(Rule.NUMBER, f"{kind.name} has {number}")
    elif kind is Kind.ERROR:
        if number < NONE or not envelope.code:
            raise Inadmissible(Rule.ERROR, f"number {number}, code {envelope.code}")
    elif number != NONE:
        raise Inadmissible(Rule.NO_NUMBER, f"{kind.name} has {number}")
    if envelope.skipped and kind is Kind.ACK and min(envelope.skipped) < 0:
        raise Inadmissible(Rule.SKIPPED)
    if envelope.skipped and kind is not Kind.ACK:
        raise Inadmissible(Rule.FIELDS)
    if envelope.fragments != 1 and (
        kind is not Kind.MESSAGE or not 0 <= envelope.fragment < envelope.fragments <= FRAGMENTS
    ):
        raise Inadmissible(Rule.FRAGMENT, f"fragment {envelope.fragment} of {envelope.fragments}")
    if extras is not None and (extras.fence or kind is not Kind.MESSAGE or not _is_origin(envelope)):
        raise Inadmissible(Rule.FIELDS)


def _is_origin(envelope: Envelope) -> bool:
    """Return True if a message of an initiator says, in a possible way, on which dialog it was sent first."""
    origin = envelope.extras.origin if envelope.extras is not None else None
    return (
        origin is not None
        and envelope.prefix.from_initiator
        and 1 <= origin.generation <= GENERATIONS
        and len(origin.conversation_id) == 16
        and origin.seq >= envelope.seq
    )


def _check_fence(envelope: Envelope) -> None:
    """Check a FENCE, which only an initiator sends, or a FENCED, which only a target sends."""
    kind, extras = envelope.kind, envelope.extras
    if envelope.seq != NONE:
        raise Inadmissible(Rule.FENCE, f"number {envelope.seq}")
    if envelope.prefix.from_initiator is not (kind is Kind.FENCE):
        raise Inadmissible(
            Rule.FENCE, f"{kind.name} of the {'initiator' if envelope.prefix.from_initiator else 'target'}"
        )
    outcome = extras.fence if extras is not None else None
    if (outcome is None) is not (kind is Kind.FENCE) or (kind is Kind.FENCE and envelope.code >= 0):
        raise Inadmissible(Rule.FENCE, f"{kind.name} without its answer or code")
    if outcome is not None and (outcome.accepted < NONE or outcome.transmitted < NONE):
        raise Inadmissible(Rule.FENCE, f"numbers {outcome.accepted} and {outcome.transmitted}")
    if envelope.skipped or envelope.fragments != 1 or (extras is not None and extras.origin is not None):
        raise Inadmissible(Rule.FIELDS)


def _unfamiliar(partition: Partition, record: Record, envelope: Envelope, encoded: bytes, wire: Wire | None) -> Active:
    """Find the endpoint of a record whose prefix is not known yet, and check that the record belongs to this endpoint."""
    key = record.key()
    context = partition.context
    if not key or len(key) > KEY_BYTES:
        raise Inadmissible(Rule.KEY_SIZE)
    count = context.destinations.partitions(context.name)
    if count is not None and partition_of(key, count) != partition.number:
        raise Inadmissible(Rule.PARTITION, partition_of(key, count))
    prefix = envelope.prefix
    if prefix.to_service != context.name:
        raise Inadmissible(Rule.SERVICE, repr(prefix.to_service))
    try:
        text = key.decode()
    except UnicodeDecodeError:
        raise Inadmissible(Rule.KEY_TEXT) from None
    if not (is_name(prefix.from_service) and is_name(prefix.contract)):
        raise Inadmissible(Rule.NAMES)
    size = len(prefix.reply_key.encode())
    if not 0 < size <= KEY_BYTES:
        raise Inadmissible(Rule.REPLY_KEY, f"this one has {size}")
    peer = rows.identity(prefix.conversation_id, prefix.from_initiator)
    active = partition.find(peer, text, _origin(partition, prefix))
    if active.key != key:
        raise Inadmissible(Rule.ENDPOINT_KEY)
    if active.exists:
        _check_prefix(active, prefix)
    elif (
        active.tombstone is None
        and prefix.accept_until > record.timestamp()[1] * MILLISECOND + context.periods.clock_ahead
    ):
        # A tombstone is kept until after ``accept_until``. Without this check, a sender could make a tombstone stay for ever.
        raise Inadmissible(Rule.ACCEPT_UNTIL)
    active.learn(prefix, encoded, wire)
    return active


def _origin(partition: Partition, prefix: Prefix) -> str:
    """Return the origin of the group of a dialog that has no endpoint here yet."""
    if not prefix.from_initiator:
        return ""
    side = partition.context.sides.get((prefix.contract, False))
    shared = side is not None and side.contract.may_name_group(prefix.from_service)
    return rows.SHARED if shared else prefix.from_service


def _check_prefix(active: Active, prefix: Prefix) -> None:
    endpoint = active.endpoint
    expected = (endpoint.contract, endpoint.peer, endpoint.peer_key)
    if (prefix.contract, prefix.from_service, prefix.reply_key) != expected:
        raise Inadmissible(
            Rule.PREFIX,
            f"it has {prefix.contract}, {prefix.from_service}, {prefix.reply_key}; the dialog has {expected}",
        )


def take_command(partition: Partition, record: Record) -> None:
    """Put one command of a client or an operator into the lane of its endpoint.

    If the key of a client's command belongs to another partition, the command is forwarded. An operator's command is refused then, because
    a worker has no right to write decisions.
    """
    value, key = record.value(), record.key()
    partition.progress.take_command(record.topic(), record.offset())
    headers = read_headers(record)
    try:
        if not value or not key or len(key) > KEY_BYTES:
            raise Inadmissible(Rule.COMMAND)
        if len(value) > RECORD_BYTES:
            raise Inadmissible(Rule.SIZE, f"this one has {len(value)}")
        value = partition.context.destinations.schemas.command(value)
        command = decode_command(value)
        if command.key.encode() != key or not command.operations:
            raise Inadmissible(Rule.COMMAND_KEY)
        if isinstance(command.operations[0], Piece):
            partition.context.budget.take(len(value))
        trace = b"" if partition.context.service.tracing is None else trace_of(headers)
        _into_lane(partition, record, command, value, trace)
    except Inadmissible as refusal:
        partition.letters.set_aside(record, why_copied(key, headers) or str(refusal), headers)
    except UndecodableRecord as unreadable:
        partition.letters.set_aside(record, told(Rule.COMMAND_SCHEMA, unreadable), headers)
    except LogError:
        raise
    except Exception as error:  # noqa: BLE001 - our own code failed: only this record is set aside
        set_failed_aside(partition, record, error, headers)


def _into_lane(partition: Partition, record: Record, command: Command, value: bytes, trace: bytes) -> None:
    context, key = partition.context, command.key.encode()
    count = context.destinations.partitions(context.name)
    is_astray = count is not None and partition_of(key, count) != partition.number
    if is_astray and record.topic() == context.topics.commands:
        # Forward it without other headers, because a command needs none, and the record's headers may be too large or have invalid names.
        headers = headers_of(trace) or None
        partition.outbox.produce((context.topics.commands, partition_of(key, count or 1), key, value, headers))
        return
    active = partition.work.itself if is_astray else _concerned(partition, command)
    log_time = record.timestamp()[1] * MILLISECOND
    item = Order(active, record.topic(), record.offset(), log_time, key, trace, value, command=command)
    if partition.work.suspicion is not None and partition.progress.is_from_before(record.topic(), record.offset()):
        partition.work.suspicion.mark(item)
    partition.work.enqueue(active.lane, item)


def _concerned(partition: Partition, command: Command) -> Active:
    """Find the endpoint that a command is about. Commands about the partition have their own lane, so they do not wait for any dialog."""
    if concerns_partition(command):
        return partition.work.itself
    own = rows.identity(command.conversation_id, command.from_initiator)
    if not command.from_initiator and not partition.knows(own):
        # The peer's first message decides the group of this side. So a command that comes first is refused, and claims no lane.
        return partition.work.itself
    return partition.find(rows.other_side(own), command.key, "")


def restore_waiting(partition: Partition) -> None:
    """Put the records of waiting rows back into their lanes after a restore, in the order of the rows' numbers."""
    for row_key, data in partition.outbox.store.scan(rows.WAITING):
        row = partition.outbox.decoded(row_key, decode_waiting, data)
        number = int.from_bytes(row_key[1:], "big")
        item = partition.outbox.decoded(row_key, lambda _, row=row: _waiting_item(partition, row), data)  # type: ignore[misc]  # the default binds the loop's row
        partition.waiting.restore(item, number)
        partition.work.suspect(item)
        partition.work.enqueue(item.active.lane, item)


def _waiting_item(partition: Partition, row: WaitingRow) -> Arrival | Order:
    text = row.key.decode()
    record = row.topic, row.offset, row.log_time, row.key, trace_in(row), row.value, row.accepted
    if has_commands(row.topic):
        command = decode_command(row.value)
        return Order(_concerned(partition, command), *record, command=command, attempts=row.attempts)
    envelope = decode(row.value)
    prefix = envelope.prefix
    peer = rows.identity(prefix.conversation_id, prefix.from_initiator)
    active = partition.find(peer, text, _origin(partition, prefix))
    return Arrival(active, *record, envelope=envelope, attempts=row.attempts)
