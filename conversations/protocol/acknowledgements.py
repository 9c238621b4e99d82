"""When a side acknowledges accepted messages, and when it asks for missing ones; the machine is in ``endpoint``.

An acknowledgement rides on whatever this side sends. Only a side that has nothing to send owes a dedicated one: after so many messages, or
after a while. Times are in microseconds.
"""

from __future__ import annotations

from conversations.units import SECOND

ACK_EVERY = 128
"""Messages accepted without reverse traffic before a dedicated ACK."""
ACK_AFTER = 5 * SECOND
FIRST_ACK_AFTER = SECOND // 4
"""The first message is acknowledged sooner: its sender wants to know whether anybody is there."""
RESEND_AFTER = 1 * SECOND
"""A gap is given this long to close by itself, doubled for each further question."""
RESEND_ASKS = 3
