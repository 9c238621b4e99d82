"""Limits of everything that comes from outside. A writer of records cannot raise these limits.

The limits agree with each other and with the topics that ``conversations apply`` creates. An accepted record fits into a row of the state
topic and into a dead letter, together with the fields and headers that are added there.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

BODY_BYTES = 128_000_000
"""Largest allowed value of ``Limits.body_bytes``. A message goes into one transaction, and is whole in the memory of its handler."""
FRAGMENT_BYTES = 1_000_000
"""Largest allowed value of ``Limits.fragment_bytes``. With it, body and envelope together fit into Kafka's default of 1 MiB per record."""
RECORD_BODY = 900_000
"""Largest body of a message that comes in one record: of a feed, a pool or an operator, in bytes."""
FRAGMENTS = 8_192
"""Maximum number of fragments of a message."""
RECORD_BYTES: Final = 1_500_000
"""Largest record value that is accepted, in bytes. A larger record is set aside, in parts."""
COMMAND_BYTES = 1_040_000
"""Largest command that is written, in bytes. As a record, it fits into Kafka's default of 1 MiB."""
PIECE_BYTES = 900_000
"""Bytes of each piece of a command that is larger than ``COMMAND_BYTES``; the last piece may be smaller."""
KEY_BYTES = 1_000
"""Longest key of an endpoint or a conversation group, in bytes."""
STATE_BYTES = 1_000_000
"""Largest encoded state of a conversation group, in bytes."""
GROUP_MEMBERS = 10_000
"""Maximum number of dialogs in one conversation group. A closed dialog counts until its tombstone is deleted."""
SKIPPED = 100
"""Maximum number of skipped messages that one envelope can list."""
PUBLICATION_BYTES = 1_000_000
"""Largest record that a handler publishes to a plain topic: key, value and headers, in bytes. It fits into Kafka's default of 1 MiB."""
PUBLICATIONS = 10_000
"""Maximum number of records that one run of a handler publishes."""
PUBLICATIONS_BYTES = 16_000_000
"""Maximum bytes of all records that one run of a handler publishes. They go into one transaction, which has ten seconds."""
OPERATIONS = 10_000
"""Maximum number of operations of one command, or of one block of a client."""
TIMERS = 16
"""Maximum number of timers with a name of one side of a dialog. They are in the row of its endpoint, which every message writes anew."""
DESCRIPTION_LIMIT = 3_000
"""Maximum number of characters of an error's description (Service Broker's limit)."""

NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
"""Pattern of the names of services, contracts and message types. Such a name can be part of a topic's name."""
_NAME_CHARACTERS = 128


def is_name(text: str) -> bool:
    """Return True if a text can be the name of a service, a contract or a message type. Names that were asked for lately are known."""
    return len(text) <= _NAME_CHARACTERS and _is_name(text)


@lru_cache(1_000)
def _is_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None


TIMER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Pattern of the names of timers. Such a name can be part of the name of a letter, which has its last dot before it."""


def sendable(text: str, limit: int) -> str:
    """Cut a text to ``limit`` characters, and escape characters that UTF-8 cannot encode (lone surrogates)."""
    return text[:limit].encode("utf-8", "backslashreplace").decode()
