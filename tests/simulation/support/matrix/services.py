"""The two services of the matrix. The text of a message tells its receiver what to do: "i3 hold" is the fourth message of the initiator."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, PoisonPolicy, Service, Then
from conversations.protocol.contract import Resend

SECOND = timedelta(seconds=1)
LIFETIME = timedelta(minutes=10)
SAMPLES = 4
"""Number of ways in which a handler of errors behaves; the conversation id decides which of them."""


class Line(BaseModel):
    """The only message."""

    text: str


class Passing(Exception):
    """A failure that goes away before the delays of its policy are used up."""


class Hopeless(Exception):
    """A failure that does not go away: its policy skips the message."""


class Stuck(Exception):
    """A failure after which the dialog waits for an operator. The next attempt succeeds."""


POLICIES = (
    PoisonPolicy(exception=Passing, delays=[SECOND, 5 * SECOND], then=Then.HOLD),
    PoisonPolicy(exception=Hopeless, delays=[SECOND], then=Then.SKIP),
    PoisonPolicy(exception=Stuck, delays=[], then=Then.HOLD),
)


def contract(resend: Resend, *, limited: bool) -> Contract:
    """Return the contract of a cell."""
    name = f"{resend.name.title().replace('_', '')}{'Limited' if limited else 'Unlimited'}"
    return Contract(name, sent_by_any=[Line], lifetime=LIFETIME if limited else None, resend=resend)


CONTRACTS = {(resend, limited): contract(resend, limited=limited) for resend in Resend for limited in (True, False)}


def services() -> tuple[Service[Any], Service[Any]]:
    """Make the services ``caller``, which begins the dialogs, and ``desk``. They keep nothing, so all simulations of a process share them."""
    every = list(CONTRACTS.values())
    caller: Service[Any] = Service("caller", initiates=every, poison=POLICIES)
    desk: Service[Any] = Service("desk", accepts=every, poison=POLICIES)
    for service in (caller, desk):
        service.on(Line)(_said)
        service.on_error()(_broken)
    return caller, desk


def _said(line: Line, dialog: Dialog[Any]) -> None:
    name, verb = line.text.split()
    attempt = dialog.message.attempt
    if verb == "park" and attempt <= 2:
        raise Passing(name)
    if verb == "skip":
        raise Hopeless(name)
    if verb == "hold" and attempt == 1:
        raise Stuck(name)
    if verb == "answer":
        dialog.send(Line(text=f"{'i' if dialog.is_initiator else 't'}-{name} quiet"))
    elif verb == "end":
        dialog.end()
    elif verb == "error":
        dialog.end_with_error(7, "enough")


def _broken(error: PeerError, dialog: Dialog[Any]) -> None:
    how = UUID(dialog.id).int % SAMPLES
    if how == 0 and dialog.attempt == 1:
        raise Passing("on_error")
    if how == 1 and dialog.attempt == 1:
        raise Stuck("on_error")
    if how == 2 and dialog.is_initiator and error.can_resend and dialog.pending:
        dialog.resend()
