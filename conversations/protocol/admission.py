"""Admission: which records are taken, and what may be asked for. Workers, clients and Spark jobs judge by the same rules.

A **record** that breaks a ``Rule`` is set aside with its bytes: it takes no number and touches no dialog. A **request** that cannot be met
raises at once and changes nothing; its error has Service Broker's code (``protocol.codes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum

from conversations.errors import BodyTooLarge, InvalidBody, LocalError, UnknownContract
from conversations.protocol import codes
from conversations.protocol.contract import Contract
from conversations.protocol.endpoint import NEVER
from conversations.protocol.envelope import HEADER_NAME, IDENTITY, header_of
from conversations.protocol.limits import COMMAND_BYTES, KEY_BYTES, NAME, RECORD_BYTES, sendable
from conversations.protocol.times import later

# -- records -------------------------------------------------------------------------------------------------------------


class Rule(StrEnum):
    """Rules for records: the name is the rule's id, the value its text."""

    VALUE = "the record has no value"
    SIZE = f"a record has at most {RECORD_BYTES} bytes"
    SCHEMA = "the bytes are no envelope of a known schema"
    RESERVED_KIND = "the kind is reserved: this version does not know what to do about it"
    NUMBER = "a message or an end needs a number from 0"
    ERROR = "an ERROR without a code, or with such a number, says nothing"
    NO_NUMBER = "the kind has no number"
    SKIPPED = "an ACK tells of skipped messages by their numbers"
    FIELDS = "the envelope uses skipped numbers, fragments or extras, which this version does not know"
    HEADER = f"the record has no header {HEADER_NAME!r}"
    HEADER_SAYS = "the record's header says something else than its body"
    HEADERS = "the record's headers cannot be read: a name is not UTF-8"
    SERVICE = "misrouted: the envelope is for another service"
    KEY_SIZE = f"misrouted: a record needs a key of 1 to {KEY_BYTES} bytes"
    KEY_TEXT = "misrouted: the key is not text"
    PARTITION = "misrouted: the key belongs to another partition"
    NAMES = "neither a service nor a contract can have such a name"
    REPLY_KEY = f"a reply key has 1 to {KEY_BYTES} bytes"
    ENDPOINT_KEY = "misrouted: the key is not that of the endpoint"
    PREFIX = "the envelope is of another dialog"
    ACCEPT_UNTIL = "the dialog's first message could be sent again more than a day from now"
    SENDER = "the catalog names no such service"
    CONVERSATION = "the conversation is not known"
    COMMAND = f"a command needs a value and a key of 1 to {KEY_BYTES} bytes"
    COMMAND_SCHEMA = "the bytes are no command of a known schema"
    COMMAND_KEY = "the command's key is not that of its record, or it asks for nothing"


OWNERS = frozenset({Rule.HEADERS, Rule.ENDPOINT_KEY, Rule.PREFIX, Rule.ACCEPT_UNTIL, Rule.SENDER, Rule.CONVERSATION})
"""Rules that only the owner of a dialog can judge by: they need its endpoint, its catalog, or the client that read the record."""
COMMANDS = frozenset({Rule.COMMAND, Rule.COMMAND_SCHEMA, Rule.COMMAND_KEY})
"""Rules for commands."""


class Inadmissible(Exception):
    """A record breaks a rule, and must not touch an endpoint."""

    def __init__(self, rule: Rule, detail: object = "") -> None:
        super().__init__(told(rule, detail))


def header_among(headers: Sequence[tuple[str, bytes]] | None, value: bytes, tail_start: int) -> bytes:
    """Find a record's own header among all of them, and check that it says what the record says.

    ``value`` is a valid record of the current schema; its prefix ends at ``tail_start``.

    Raises:
        Inadmissible: the headers cannot be read, there is none, or it says something else.
    """
    if headers is None:
        raise Inadmissible(Rule.HEADERS)
    for name, header in headers:
        if name == HEADER_NAME:
            is_short = value[tail_start + 1] < 128  # nearly all numbers have one or two bytes
            if header != (
                value[IDENTITY] + value[tail_start : tail_start + 2] if is_short else header_of(value, tail_start)
            ):
                raise Inadmissible(Rule.HEADER_SAYS)
            return header
    raise Inadmissible(Rule.HEADER)


def told(rule: Rule, detail: object = "") -> str:
    """Say which rule a record breaks, and by what."""
    return f"{rule}: {detail}" if detail != "" else str(rule)


# -- requests ------------------------------------------------------------------------------------------------------------


def check_error(code: object, description: object) -> None:
    """Check the parts of an application's error.

    Raises:
        LocalError: 8419 or 8422.
    """
    if not isinstance(code, int) or isinstance(code, bool) or not 0 < code < 1 << 31:
        raise LocalError(f"an error code is a positive number, not {code!r} (8419)", code=codes.CODE_NOT_POSITIVE)
    if not isinstance(description, str) or not description:
        raise LocalError("an error needs a description (8422)", code=codes.NO_DESCRIPTION)


def check_service(name: object) -> None:
    """Check that a service can have this name.

    Raises:
        LocalError: 8490.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise LocalError(f"no service can be called {name!r:.200} (8490)", code=codes.NO_SUCH_SERVICE)


def check_key(key: object) -> None:
    """Check the key of a conversation group.

    Raises:
        LocalError: it is empty, too long, or no text that can be written.
    """
    if (
        not isinstance(key, str)
        or not 0 < len(key.encode("utf-8", "replace")) <= KEY_BYTES
        or sendable(key, KEY_BYTES) != key
    ):
        raise LocalError(f"the key of a group is a text of 1 to {KEY_BYTES} bytes, not {key!r:.200}")


def micros(duration: timedelta, what: str) -> int:
    """Turn a duration into microseconds.

    Raises:
        LocalError: it is not a timedelta, or negative.
    """
    if not isinstance(duration, timedelta):
        raise LocalError(f"{what} takes a timedelta, not {duration!r}")
    amount = duration // timedelta(microseconds=1)
    if amount < 0:
        raise LocalError(f"{what} takes a positive duration, not {duration}")
    return amount


def expiry(now: int, lifetime: timedelta | None, contract: Contract, default: int) -> int:
    """Return when a dialog begun now ends its life; ``default`` microseconds later, if neither beginner nor contract say.

    Raises:
        LocalError: the lifetime is not positive (8411).
    """
    amount = contract.lives(default) if lifetime is None else micros(lifetime, "a lifetime")
    if amount is None:
        return NEVER
    if amount == 0:
        raise lifetime_not_positive(amount)
    return later(now, amount)


def lifetime_not_positive(lifetime: int) -> LocalError:
    """Refuse a lifetime, in microseconds (8411)."""
    return LocalError(
        f"a lifetime is more than zero, not {lifetime} microseconds (8411)", code=codes.LIFETIME_NOT_POSITIVE
    )


def not_initiated(service: str, contract: str, mend: str = "") -> UnknownContract:
    """Refuse a contract that a service does not declare; ``mend`` says how to mend it (8425)."""
    return UnknownContract(f"service {service!r} does not initiate contract {contract!r} (8425){mend and f': {mend}'}")


def body_too_large(size: int, limit: int) -> BodyTooLarge:
    """Refuse the body of a message (8459)."""
    return BodyTooLarge(f"the body has {size} bytes; a message may have {limit} (8459)")


def command_too_large(what: str, size: int) -> BodyTooLarge:
    """Refuse requests of one block that do not fit into one command (8459)."""
    return BodyTooLarge(f"{what} {size} bytes; what takes effect together may have {COMMAND_BYTES} (8459)")


def check_content_type(message_type: str, content_type: str, expected: str) -> None:
    """Check that a body is encoded as its message type says.

    Raises:
        InvalidBody: 9615.
    """
    if content_type != expected:
        raise InvalidBody(f"the content type of {message_type} is {expected!r}, not {content_type!r:.200} (9615)")


def clogged(service: str) -> str:
    """Say that no more is taken for a service."""
    return f"too much waits for {service}, whose queue takes nothing"
