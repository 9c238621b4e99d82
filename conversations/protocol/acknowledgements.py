"""Limits that decide when a side acknowledges accepted messages, and when it asks for missing messages.

The module ``endpoint`` applies the limits.

Every envelope that a side sends carries an acknowledgement. If a side sends nothing else, it sends a dedicated ACK after ``ACK_EVERY``
accepted messages, or after the time ``ACK_AFTER``. Times are in microseconds.
"""

from __future__ import annotations

from typing import Final

from conversations.durations import SECOND

ACK_EVERY = 128
"""Number of messages that a side accepts before it sends a dedicated ACK, if it sends nothing else."""
ACK_AFTER = 5 * SECOND
FIRST_ACK_AFTER = SECOND // 4
"""The first message is acknowledged sooner, because its sender needs to know whether it has arrived."""
RESEND_AFTER: Final = 1 * SECOND
"""Time that this side waits for a missing message before it sends a RESEND. The time doubles with each RESEND."""
RESEND_ASKS = 3
"""Number of RESENDs for a missing message. If the message is still missing after the last of them, the dialog breaks.

For a peer on another cluster there is no such number: this side asks until the lifetime ends.
"""
MOST_DOUBLINGS = 6
"""Number of times that the wait between two RESENDs doubles at most: to 64 seconds."""
