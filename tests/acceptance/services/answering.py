"""Answers questions: with an answer, an error, an END, a timer, or not at all."""

from datetime import timedelta
from typing import Any

from pydantic import BaseModel, Field

from conversations import Contract, Dialog, MessageType, Service


class Question(BaseModel):
    text: str
    pages: int = Field(default=1, ge=1)


class Answer(BaseModel):
    text: str


COUNT = {"type": "record", "name": "Count", "fields": [{"name": "n", "type": "long"}]}
ASKS = Contract("Asks", sent_by_initiator=[Question], sent_by_target=[Answer])
COUNTS = Contract(
    "Counts", sent_by_initiator=[MessageType("Count", COUNT)], sent_by_target=[MessageType("Counted", COUNT)]
)
asks = Service("asks", initiates=[ASKS, COUNTS], ignores=[Answer, "Counted"])
answers = Service("answers", accepts=[ASKS, COUNTS])


@answers.on(Question)
def answer(body: Question, dialog: Dialog) -> None:
    if body.text == "error":
        dialog.end_with_error(410, "Gone.\x1b[31m")
    elif body.text == "bye":
        dialog.end()
    elif body.text == "remind":
        dialog.set_timer(timedelta(hours=1), name="reminder")
    elif body.text != "never":
        dialog.send(Answer(text=body.text.upper()))


@answers.on_timer(ASKS)
def remind(dialog: Dialog) -> None:
    dialog.send(Answer(text=dialog.timer or ""))


@answers.on("Count")
def count(body: dict[str, Any], dialog: Dialog) -> None:
    dialog.send({"n": body["n"] + 1}, type="Counted")
