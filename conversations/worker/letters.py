"""Dead letters and records set aside: the original bytes as the value, why and where from in headers."""

from __future__ import annotations

import json
import traceback
from uuid import UUID

from conversations.ports import Headers
from conversations.worker.active import Item
from conversations.worker.partition import Partition

STACK_LIMIT = 8_192

# Names of the headers of a dead letter.
REASON = "dl.reason"
EXCEPTION = "dl.exception"
EXCEPTION_MESSAGE = "dl.exception-message"
STACK = "dl.stack"
ATTEMPTS = "dl.attempts"
FAILED_AT = "dl.failed-at"
SOURCE_TOPIC = "dl.source-topic"
SOURCE_PARTITION = "dl.source-partition"
SOURCE_OFFSET = "dl.source-offset"
CONVERSATION = "dl.conversation"
FROM_INITIATOR = "dl.from-initiator"
SEQUENCE = "dl.sequence"
MESSAGE_TYPE = "dl.message-type"
CODE = "dl.code"

# Why a record became a dead letter.
HANDLER_FAILED = "handler-failed"
AFTER_END = "after-end"
HELD_AT_END = "held-at-end"
BREACH = "breach"
REFUSED = "refused"
COMMAND_REFUSED = "command-refused"
SET_ASIDE = "set-aside"


def dead_letter(
    partition: Partition, item: Item, reason: str, *, failure: BaseException | None = None, code: int = 0
) -> None:
    """Keep a record that is given up on, in the next transaction."""
    partition.owner.counts.dead_letters += 1
    headers = _source(partition, item.topic, item.offset, reason)
    headers += _conversation(item)
    if code:
        headers.append((CODE, str(code).encode()))
    if failure is not None:
        headers += _failure(failure, item.attempts)
    partition.dead_letter(item.key, item.value, headers)


def set_aside(partition: Partition, topic: str, offset: int, key: bytes | None, value: bytes | None, why: str) -> None:
    """Keep a record that cannot be understood; it takes no number and touches no endpoint."""
    partition.owner.counts.set_aside += 1
    headers = _source(partition, topic, offset, SET_ASIDE)
    headers.append((EXCEPTION_MESSAGE, why.encode()[:STACK_LIMIT]))
    partition.dead_letter(key, value, headers)
    event(partition, "SET_ASIDE", topic=topic, offset=offset, why=why)


def event(partition: Partition, name: str, **facts: object) -> None:
    """Report something to the events topic, in the next transaction."""
    owner = partition.owner
    content = {"event": name, "service": owner.name, "partition": partition.number, "at": owner.now, **facts}
    partition.produce((owner.events_topic, 0, owner.name.encode(), json.dumps(content).encode(), None))


def _source(partition: Partition, topic: str, offset: int, reason: str) -> Headers:
    return [
        (REASON, reason.encode()),
        (SOURCE_TOPIC, topic.encode()),
        (SOURCE_PARTITION, str(partition.number).encode()),
        (SOURCE_OFFSET, str(offset).encode()),
        (FAILED_AT, str(partition.owner.now).encode()),
    ]


def _conversation(item: Item) -> Headers:
    envelope, command = item.envelope, item.command
    if envelope is not None:
        prefix = envelope.prefix
        return [
            (CONVERSATION, str(UUID(bytes=prefix.conversation_id)).encode()),
            (FROM_INITIATOR, b"true" if prefix.from_initiator else b"false"),
            (SEQUENCE, str(envelope.seq).encode()),
            (MESSAGE_TYPE, envelope.message_type.encode()),
        ]
    if command is not None:
        return [
            (CONVERSATION, str(UUID(bytes=command.conversation_id)).encode()),
            (FROM_INITIATOR, b"true" if command.from_initiator else b"false"),
        ]
    return []


def _failure(failure: BaseException, attempts: int) -> Headers:
    stack = "".join(traceback.format_exception(failure)).encode()
    kind = type(failure)
    return [
        (EXCEPTION, f"{kind.__module__}.{kind.__qualname__}".encode()),
        (EXCEPTION_MESSAGE, str(failure).encode()[:STACK_LIMIT]),
        (STACK, stack[-STACK_LIMIT:]),
        (ATTEMPTS, str(attempts).encode()),
    ]
