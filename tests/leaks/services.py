"""Two services for dialogs that end in every way. The text of a message tells its receiver what to do."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, PoisonPolicy, Service, Then

MINUTE = timedelta(minutes=1)
LIFETIME = 10 * MINUTE


class Say(BaseModel):
    """The only message."""

    text: str


TALK = Contract("Talk", sent_by_any=[Say], lifetime=LIFETIME)
AGAIN = Contract("Again", sent_by_any=[Say], lifetime=LIFETIME, resend="automatic")
UNKEPT = Contract("Unkept", sent_by_any=[Say], lifetime=LIFETIME, resend="off")
ENDLESS = Contract("Endless", sent_by_any=[Say], lifetime=None)
SHARED = Contract("Shared", sent_by_any=[Say], lifetime=LIFETIME, group_named_by=["caller"])
NOTICE = Contract("Notice", sent_by_initiator=[Say], lifetime=LIFETIME)
"""The desk begins its dialogs, in a handler."""
CONTRACTS = [TALK, AGAIN, UNKEPT, ENDLESS, SHARED]
HOLD = PoisonPolicy(delays=[], then=Then.HOLD)


class Services:
    """The services ``caller`` and ``desk``, and how often each of their handlers ran."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        """By service and event, for example "desk: said" and "caller: error -8489"."""
        self.caller = self._service("caller", accepts=[NOTICE], initiates=CONTRACTS)
        self.desk = self._service("desk", accepts=CONTRACTS, initiates=[NOTICE])

    def _service(self, name: str, *, accepts: list[Contract], initiates: list[Contract]) -> Service[Any]:
        service: Service[Any] = Service(name, accepts=accepts, initiates=initiates, poison=[HOLD])
        calls = self.calls

        @service.on(Say)
        def said(message: Say, dialog: Dialog) -> None:
            calls[f"{name}: said"] += 1
            self.obey(message.text, dialog)

        @service.on_end()
        def ended(dialog: Dialog) -> None:
            calls[f"{name}: end"] += 1

        @service.on_error()
        def broken(error: PeerError, dialog: Dialog) -> None:
            calls[f"{name}: error {error.code}"] += 1

        @service.on_timer()
        def fired(dialog: Dialog) -> None:
            calls[f"{name}: timer"] += 1
            raise ValueError("a timer that always fails")

        return service

    def obey(self, text: str, dialog: Dialog) -> None:
        """Do what a message asks for."""
        for word in text.split():
            if word == "fail":
                raise ValueError(word)
            if word == "keep":
                dialog.group.state["kept"] = dialog.group.state.get("kept", 0) + 1
            elif word == "drop":
                dialog.group.delete_state()
            elif word == "answer":
                dialog.send(Say(text="quiet"))
            elif word == "end":
                dialog.end()
            elif word == "error":
                dialog.end_with_error(7, "enough")
            elif word == "timer":
                dialog.set_timer(MINUTE)
            elif word == "named":
                for name in ("reminder", "give-up", "never"):
                    dialog.set_timer((9 if name == "never" else 1) * MINUTE, name=name)
            elif word == "relay":
                other = dialog.group.begin_dialog("caller", NOTICE)
                other.send(Say(text="quiet"))
                other.end()
