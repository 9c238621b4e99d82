"""The services of a bad night: loans ask credit for a score and fraud for a check. A release of credit has a fault."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, PoisonPolicy, Service, Then

OUT = Path(os.environ.get("OUT", "."))
MENDED = "mended"
"""Once there is a file of this name, credit finds scores again."""


class Check(BaseModel):
    customer: str
    data: str = "{}"


class Score(BaseModel):
    score: int


class Look(BaseModel):
    customer: str


CREDIT = Contract("Credit", sent_by_initiator=[Check], sent_by_target=[Score])
FRAUD = Contract("Fraud", sent_by_initiator=[Look])

loans = Service("loans", initiates=[CREDIT, FRAUD], ignores=[Score])
credit = Service("credit", accepts=[CREDIT], poison=[PoisonPolicy(delays=[timedelta(0)] * 3, then=Then.HOLD)])
fraud = Service("fraud", accepts=[FRAUD], poison=[PoisonPolicy(delays=[], then=Then.DISABLE_QUEUE)])


@credit.on(Check)
def check(body: Check, dialog: Dialog[Any]) -> None:
    import json

    found = json.loads(body.data)
    scores = {"score": 7} if (OUT / MENDED).exists() or found.get("known") else {}
    dialog.send(Score(score=scores["score"]))


@fraud.on(Look)
def look(body: Look, dialog: Dialog[Any]) -> None:
    if not (OUT / MENDED).exists():
        raise ConnectionError("the bureau is down")
    dialog.end()
