"""Dialogs that end in every other way, beside those of the chaos run: an error, a timer, a lifetime, a refusal."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, Service
from conversations.protocol.codes import CONTRACT_NOT_ACCEPTED, LIFETIME

ASKER, DESK = "soak-asker", "soak-desk"
TARGETS = {ASKER: "tests.soak.services:asker", DESK: "tests.soak.services:desk"}
OWN = 77
"""The error of the application."""
CODES = {"error": OWN, "timer": 0, "expire": LIFETIME.number, "refuse": CONTRACT_NOT_ACCEPTED.number}
"""Kinds of dialogs, and what the side that began each is told at its end; 0 is an end in agreement."""
TIMER = timedelta(seconds=0.5)


class Ask(BaseModel):
    kind: str
    n: int


class Told(BaseModel):
    n: int


KINDS = Contract("soak.kinds", sent_by_initiator=[Ask], sent_by_target=[Told])
UNKNOWN = Contract("soak.unknown", sent_by_initiator=[Ask], sent_by_target=[Told])
"""The desk does not accept it."""


def asker() -> Service[dict[str, Any]]:
    """Begins them, through a client, and takes what comes."""
    service = Service(ASKER, initiates=[KINDS, UNKNOWN])

    @service.on("Told")
    def told(told: Told, dialog: Dialog[dict[str, Any]]) -> None:
        pass

    @service.on_end()
    def over(dialog: Dialog[dict[str, Any]]) -> None:
        dialog.end()

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog[dict[str, Any]]) -> None:
        pass

    return service


def desk() -> Service[dict[str, Any]]:
    """Does to each what its kind says."""
    service = Service(DESK, accepts=[KINDS])

    @service.on("Ask")
    def asked(ask: Ask, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.send(Told(n=ask.n))
        if ask.kind == "error":
            dialog.end_with_error(OWN, "as asked")
        elif ask.kind == "timer":
            dialog.set_timer(TIMER)

    @service.on_timer()
    def rung(dialog: Dialog[dict[str, Any]]) -> None:
        dialog.end()

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog[dict[str, Any]]) -> None:
        pass

    return service
