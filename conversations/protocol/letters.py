"""Dead letters and retries as records: the original bytes are the value, headers say why and where from.

Letters are written by workers, and read by operators' tools, Spark jobs and tests. ``source_of`` tells the letters of this product from those of
other programs that share a topic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

STACK_LIMIT = 8_192
"""Bytes of a stack, and characters of an exception's text, in a header."""
TEXT_LIMIT = 1_000
"""Characters of a text from outside that is repeated in a header or an event."""

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
HELD = "dl.held"
"""The letter is open: its message is still the head of its dialog, which waits until an operator decides."""
DUE = "dl.due"
"""On a retry topic: when it is tried again, microseconds since 1970."""
PART = "dl.part"
"""``number/count`` of a letter in parts, from 1: a record too large for one; all have the same source offset."""
PART_OF = "dl.part-of"
"""Whether the part is of the ``key`` or the ``value``."""
SIZE = "dl.size"
"""Bytes of the whole key or value that the part is of."""
ORIGINAL = "dl.header."
"""Prefix of the headers that a record set aside had itself."""

# Why a record became a dead letter.
HANDLER_FAILED = "handler-failed"
AFTER_END = "after-end"
HELD_AT_END = "held-at-end"
PARKED_AT_END = "parked-at-end"
SKIPPED = "skipped"
EDITED = "edited"
BREACH = "breach"
REFUSED = "refused"
COMMAND_REFUSED = "command-refused"
WAITS = "waits"
"""On a retry topic: it is tried again."""
SET_ASIDE = "set-aside"
UNDELIVERABLE = "undeliverable"
"""What this side said, and its peer's topic refused for good."""

_COUNTED = re.compile(rb"[0-9]{1,18}")
_NUMBERS = {SOURCE_OFFSET: _COUNTED, FAILED_AT: _COUNTED, SEQUENCE: re.compile(rb"(-?[0-9]{1,18})?")}
"""Headers that are numbers, and how those look."""


class Source(NamedTuple):
    """The facts in a letter about the record that it keeps."""

    topic: str
    """Kind of the topic it was read from: ``queue`` or ``commands``."""
    offset: int
    reason: str
    exception: str
    """Class of the exception, empty without one."""
    message: str
    conversation: str
    from_initiator: bool
    sequence: int
    """-1 without a number."""
    message_type: str
    failed_at: int
    """Microseconds since 1970."""


def letter_of(service: str, topic: str, partition: int, offset: int) -> str:
    """Name a letter by where its record came from: "orders.queue-3-17"."""
    return f"{service}.{topic.rpartition('.')[2]}-{partition}-{offset}"


def source_of(headers: Mapping[str, bytes]) -> Source | None:
    """Read the headers of a letter; None when another program wrote it, or nobody can have."""
    if REASON not in headers or not all(look.fullmatch(headers.get(name, b"")) for name, look in _NUMBERS.items()):
        return None

    def text(name: str) -> str:
        return headers.get(name, b"").decode("utf-8", "backslashreplace")

    return Source(
        text(SOURCE_TOPIC).rpartition(".")[2], int(text(SOURCE_OFFSET)), text(REASON), text(EXCEPTION), text(EXCEPTION_MESSAGE),
        text(CONVERSATION), text(FROM_INITIATOR) == "true", int(text(SEQUENCE) or "-1"), text(MESSAGE_TYPE), int(text(FAILED_AT)),
    )  # fmt: skip
