"""A service whose target says how its workers work; its handler tells what its worker lets it send."""

import logging
import os
from pathlib import Path

from pydantic import BaseModel

from conversations import BodyTooLarge, Contract, Dialog, Limits, Service, WorkerSettings

OUT = Path(os.environ.get("OUT", "."))
log = logging.getLogger("modest")
SIZES = (1_000, 3_000, 5_000)


class Question(BaseModel):
    text: str


class Note(BaseModel):
    text: str


TALK = Contract("Talk", sent_by_initiator=[Question], sent_by_target=[Note])
talker = Service("talker", initiates=[TALK], ignores=[Note])
modest = Service("modest", accepts=[TALK])
target = modest, WorkerSettings(batch=7, concurrency=7, limits=Limits(body_bytes=4_000, held_messages=7))


@modest.on(Question)
def answer(_question: Question, dialog: Dialog) -> None:
    """Send notes of several sizes, and write down which are refused."""
    refused = []
    for size in SIZES:
        try:
            dialog.send(Note(text="x" * size))
        except BodyTooLarge:
            refused.append(size)
    log.info("answered")
    (OUT / "refused").write_text(" ".join(map(str, refused)))
