"""Dead letters and retries as records. The value is the original bytes; headers have the reason and the source.

Workers write letters. Operators' tools, Spark jobs and tests read them. Other programs may write to the same topic, so ``source_of``
recognizes the letters of this product.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from conversations.protocol.times import moment

STACK_LIMIT = 8_192
"""Maximum number of bytes of a stack trace in a header, and of characters of an exception's text in a header."""
TEXT_LIMIT = 1_000
"""Maximum number of characters of a text from outside, in a header or an event."""

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
"""Present if the message is still the head of its dialog, which waits until an operator decides."""
UNCERTAIN = "dl.uncertain"
"""Present on a letter ``undeliverable`` if the peer has not said what it has accepted. It may have accepted this message."""
DECIDED_BY = "dl.decided-by"
"""Present if an operator's decision wrote the letter: who decided."""
DECIDED_WHY = "dl.decided-why"
"""Why this operator decided so."""
DUE = "dl.due"
"""On a retry topic: the time of the next attempt, in microseconds since 1970."""
PART = "dl.part"
"""``number/count`` of a part, from 1. A record that is too large for one letter is kept in parts with the same source offset."""
PART_OF = "dl.part-of"
"""``key`` or ``value``: the part belongs to the record's key or to its value."""
SIZE = "dl.size"
"""Number of bytes of the whole key or value."""
FRAGMENTS = "dl.fragments"
"""Number of fragments in which the message came. Its numbers end with ``dl.sequence``. Absent if the message came in one record."""
ORIGINAL = "dl.header."
"""Prefix of the names of a record's own headers in its letter. Only the letter of a record that was set aside repeats these headers."""

# Why a record became a dead letter.
HANDLER_FAILED = "handler-failed"
UNFIT = "unfit"
"""This release of the service does not know the message type, or the body does not fit its type."""
AFTER_END = "after-end"
HELD_AT_END = "held-at-end"
PARKED_AT_END = "parked-at-end"
SKIPPED = "skipped"
EDITED = "edited"
BREACH = "breach"
REFUSED = "refused"
COMMAND_REFUSED = "command-refused"
WAITS = "waits"
"""On a retry topic: the message waits for another attempt."""
SET_ASIDE = "set-aside"
UNDELIVERABLE = "undeliverable"
"""This side sent the envelope, and the peer has not accepted it: its topic refused it for good, or the dialog was over before."""

REASONS = (
    HANDLER_FAILED, UNFIT, AFTER_END, HELD_AT_END, PARKED_AT_END, SKIPPED, EDITED, BREACH, REFUSED, COMMAND_REFUSED, SET_ASIDE,
    UNDELIVERABLE,
)  # fmt: skip
"""All reasons of dead letters."""

_CODE = re.compile(rb"-?[0-9]{1,9}")
_COUNTED = re.compile(rb"[0-9]{1,18}")
_NUMBERS = {SOURCE_OFFSET: _COUNTED, FAILED_AT: _COUNTED, SEQUENCE: re.compile(rb"(-?[0-9]{1,18})?")}
"""Headers with numbers, and the pattern of each."""


class Source(NamedTuple):
    """The facts in a letter's headers about the record that it keeps."""

    topic: str
    """Kind of the topic that the record was read from: ``queue`` or ``commands``."""
    offset: int
    reason: str
    exception: str
    """Class of the exception; empty if there was no exception."""
    message: str
    conversation: str
    from_initiator: bool
    sequence: int
    """-1 if the record has no number."""
    message_type: str
    failed_at: int
    """Microseconds since 1970."""


class RefusedCommand(NamedTuple):
    """A command that a worker refused, so that none of its requests took effect."""

    code: int
    """Code of the error (84xx); 0 if the command could not be carried out for another reason."""
    text: str
    at: datetime


def refused_of(headers: Mapping[str, bytes]) -> tuple[str, bool, RefusedCommand] | None:
    """Read the headers of a letter for a refused command: conversation id, True for the initiator's side, and the refusal.

    Return None if the letter has another reason, or if the headers are not headers that this product writes.
    """
    source = source_of(headers)
    code = headers.get(CODE, b"") or b"0"
    if source is None or source.reason != COMMAND_REFUSED or not _CODE.fullmatch(code):
        return None
    return (
        source.conversation,
        source.from_initiator,
        RefusedCommand(int(code), source.message, moment(source.failed_at)),
    )


def letter_of(service: str, topic: str, partition: int, offset: int) -> str:
    """Return the name of a letter, made from the source of its record: "orders.queue-3-17"."""
    return f"{service}.{topic.rpartition('.')[2]}-{partition}-{offset}"


def source_of(headers: Mapping[str, bytes]) -> Source | None:
    """Read the headers of a letter. Return None if they are not headers that this product writes."""
    if REASON not in headers or not all(look.fullmatch(headers.get(name, b"")) for name, look in _NUMBERS.items()):
        return None

    def text(name: str) -> str:
        return headers.get(name, b"").decode("utf-8", "backslashreplace")

    return Source(
        text(SOURCE_TOPIC).rpartition(".")[2], int(text(SOURCE_OFFSET)), text(REASON), text(EXCEPTION), text(EXCEPTION_MESSAGE),
        text(CONVERSATION), text(FROM_INITIATOR) == "true", int(text(SEQUENCE) or "-1"), text(MESSAGE_TYPE), int(text(FAILED_AT)),
    )  # fmt: skip
