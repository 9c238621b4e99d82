"""The rules for records: workers and Spark jobs accept the same ones.

A record that breaks a ``Rule`` is set aside with its bytes. Its number does not count as accepted, and no dialog changes.
"""

from __future__ import annotations

from enum import StrEnum

from conversations.protocol.limits import FRAGMENTS, KEY_BYTES, RECORD_BYTES


class Rule(StrEnum):
    """Rules for records. The name of a member is the id of the rule; its value is the text for a record that breaks the rule."""

    VALUE = "the record has no value"
    SIZE = f"a record has at most {RECORD_BYTES} bytes"
    SCHEMA = "the bytes are not an envelope of a known schema"
    FENCE = "an initiator sends a FENCE with a code, and a target sends a FENCED with its answer; neither has a number"
    NUMBER = "a MESSAGE or an END needs a number of at least 0"
    ERROR = "an ERROR needs a code, and a number of at least -1"
    NO_NUMBER = "an envelope of this kind must not have a number"
    SKIPPED = "an ACK names a skipped message by a negative number"
    FIELDS = "only an ACK may have skipped numbers, and only some kinds of envelopes have extras"
    FRAGMENT = f"only a MESSAGE has fragments: fragment 0 to n - 1 of n, which is at most {FRAGMENTS}"
    SERVICE = "misrouted: the envelope is for another service"
    KEY_SIZE = f"misrouted: a record needs a key of 1 to {KEY_BYTES} bytes"
    KEY_TEXT = "misrouted: the key is not text"
    PARTITION = "misrouted: the key belongs to another partition"
    NAMES = "neither a service nor a contract can have such a name"
    REPLY_KEY = f"a reply key has 1 to {KEY_BYTES} bytes"
    ENDPOINT_KEY = "misrouted: the record's key is not the key of the endpoint"
    PREFIX = "the contract, the sender or the reply key is not that of the dialog"
    ACCEPT_UNTIL = "accept_until is too late: more than the period clock_ahead after the record's log time"
    SENDER = "the catalog names no such service"
    CONVERSATION = "the conversation is not known"
    COMMAND = f"a command needs a value and a key of 1 to {KEY_BYTES} bytes"
    COMMAND_SCHEMA = "the bytes are not a command of a known schema"
    COMMAND_KEY = "the command's key is not the key of its record, or the command has no operations"


OWNERS = frozenset({Rule.ENDPOINT_KEY, Rule.PREFIX, Rule.ACCEPT_UNTIL, Rule.SENDER, Rule.CONVERSATION})
"""Rules that only the owner of a dialog can check.

The check needs the endpoint, the catalog, or the Kafka client that read the record.
"""
COMMANDS = frozenset({Rule.COMMAND, Rule.COMMAND_SCHEMA, Rule.COMMAND_KEY})
"""Rules for commands."""


class Inadmissible(Exception):
    """A record breaks a rule, so it must not change an endpoint."""

    def __init__(self, rule: Rule, detail: object = "") -> None:
        super().__init__(told(rule, detail))


def told(rule: Rule, detail: object = "") -> str:
    """Return the text of a broken rule, with the detail that breaks it."""
    return f"{rule}: {detail}" if detail != "" else str(rule)
