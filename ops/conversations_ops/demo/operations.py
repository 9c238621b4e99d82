"""Service ``operations``: sends every aircraft's legs and receives their outcomes.

A client sends the legs (``conversations_ops.demo.sending``). This module has the handlers of the answers.
"""

from __future__ import annotations

from pydantic import BaseModel

from conversations import Dialog, Service
from conversations_ops.demo.messages import FLIGHTS, SUMMARIES, Logged, Summary


class Desk(BaseModel):
    """The state of operations for one aircraft. The check of the demo reads it back from Kafka."""

    replies: int = 0
    out_of_order: int = 0
    """Number of replies that were not the next expected reply. It stays 0 unless the order was lost."""
    summaries: list[Summary] = []
    """The summaries that arrived. One summary is expected. If there is a second summary, a message took effect twice."""


operations = Service("operations", initiates=[FLIGHTS], accepts=[SUMMARIES], state=Desk)


@operations.on(Logged)
def count(logged: Logged, dialog: Dialog[Desk]) -> None:
    """Count the replies and check their order. End the dialog after the last reply, because replies after the end would be lost."""
    desk = dialog.group.state
    desk.replies += 1
    if logged.legs != desk.replies:
        desk.out_of_order += 1
    if logged.last:
        dialog.end()


@operations.on(Summary)
def keep(summary: Summary, dialog: Dialog[Desk]) -> None:
    """Keep a summary. aircraft-log sends it after our END."""
    dialog.group.state.summaries.append(summary)
