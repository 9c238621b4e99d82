"""Bounds on everything that comes from outside; no writer of a record can raise one.

They fit each other and the topics ``conversations apply`` creates: a record that is taken can be kept as a row of the
state topic and as a dead letter, with room for what is written around it.
"""

from __future__ import annotations

import re

BODY_BYTES = 1_000_000
"""Most that ``Limits.body_bytes`` may be: with what surrounds it a message fits Kafka's default of 1 MiB per record."""
RECORD_BYTES = 1_500_000
"""Largest record value that is taken; a larger one is set aside, in parts."""
COMMAND_BYTES = 1_040_000
"""Largest command that is written: as a record it fits Kafka's default of 1 MiB."""
KEY_BYTES = 1_000
"""Longest key of an endpoint or a conversation group."""
STATE_BYTES = 1_000_000
"""Largest encoded state of a conversation group."""
GROUP_MEMBERS = 10_000
"""Most dialogs of one conversation group that are remembered at a time."""
SKIPPED = 100
"""Numbers of skipped messages that one envelope tells of at most."""
OPERATIONS = 10_000
"""Operations of one command, or of one block of a client, at most."""
DESCRIPTION_LIMIT = 3_000
"""Characters of an error's description (Service Broker's limit)."""

NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
"""The names that a service, a contract or a message type may have: each can be part of a topic's name."""


def sendable(text: str, limit: int) -> str:
    """Cut a text, and replace what UTF-8 cannot say (lone surrogates), so that it always can be written."""
    return text[:limit].encode("utf-8", "backslashreplace").decode()
