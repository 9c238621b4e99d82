"""Services on two clusters: one here that begins dialogs, and one there that answers."""

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, PeerError, Service
from conversations.testing import Simulation
from tests.simulation.support.services import ECHO, Say


class Word(BaseModel):
    text: str


class Back(BaseModel):
    text: str


TALK = Contract("Talk", sent_by_initiator=[Word], sent_by_target=[Back], lifetime=timedelta(hours=1))
WIRE = {"lose": 0.3, "duplicate": 0.2, "reorder": 0.2}


class Both:
    """A service here that begins dialogs, and one on another cluster that answers, both with what they heard."""

    def __init__(self, last: str = "last") -> None:
        self.heard: dict[str, list[str]] = {}
        self.answers: dict[str, list[str]] = {}
        self.ended: set[str] = set()
        self.errors: list[int] = []
        self.here: Service[dict[str, Any]] = Service("here", initiates=[TALK], accepts=[ECHO])
        self.there: Service[dict[str, Any]] = Service("there", accepts=[TALK])

        @self.here.on(Say)
        def begin(body: Say, dialog: Dialog[dict[str, Any]]) -> None:
            other = dialog.group.begin_dialog("there", TALK, related=False)
            for text in body.text.split():
                other.send(Word(text=text))

        @self.there.on(Word)
        def hear(body: Word, dialog: Dialog[dict[str, Any]]) -> None:
            self.heard.setdefault(dialog.id, []).append(body.text)
            if body.text == "break":
                dialog.end_with_error(7, "no")
                return
            dialog.send(Back(text=body.text))
            if body.text == last:
                dialog.end()

        @self.here.on(Back)
        def answered(body: Back, dialog: Dialog[dict[str, Any]]) -> None:
            self.answers.setdefault(dialog.id, []).append(body.text)

        @self.here.on_end(TALK)
        def over(dialog: Dialog[dict[str, Any]]) -> None:
            self.ended.add(dialog.id)

        @self.here.on_error(TALK)
        def broken(error: PeerError, dialog: Dialog[dict[str, Any]]) -> None:
            self.errors.append(error.code)


def begin(sim: Simulation, *texts: str) -> None:
    """Let the service here begin a dialog with the other cluster, and send all texts."""
    sim.peer("web").begin_dialog("here", ECHO).send(Say(text=" ".join(texts)))
