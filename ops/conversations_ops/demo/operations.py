"""Service ``operations``: sends every aircraft's legs and receives their outcomes.

The flights come from a client (``conversations_ops.demo.sending``); here is what happens when answers arrive.
"""

from __future__ import annotations

from pydantic import BaseModel

from conversations import Dialog, Service
from conversations_ops.demo.messages import FLIGHTS, SUMMARIES, Logged, Summary


class Desk(BaseModel):
    """What operations knows of one aircraft; the demo's check reads it back from Kafka."""

    replies: int = 0
    out_of_order: int = 0
    """Replies that were not the next one: 0, or order was lost."""
    summaries: list[Summary] = []
    """One; a second one would be a message that took effect twice."""


operations = Service("operations", initiates=[FLIGHTS], accepts=[SUMMARIES], state=Desk)


@operations.on(Logged)
def count(logged: Logged, dialog: Dialog[Desk]) -> None:
    """Count the replies, check that they come in order, and end after the last one: not before, or it would be lost."""
    desk = dialog.group.state
    desk.replies += 1
    if logged.legs != desk.replies:
        desk.out_of_order += 1
    if logged.last:
        dialog.end()


@operations.on(Summary)
def keep(summary: Summary, dialog: Dialog[Desk]) -> None:
    """Keep a summary, which aircraft-log sends after our END."""
    dialog.group.state.summaries.append(summary)
