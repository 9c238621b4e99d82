"""The two services of the chaos run, in two releases: ``chaos-teller`` tells entries, ``chaos-ledger`` writes receipts.

Targets of worker processes: ``tests.chaos.services:teller_1`` and so on. Both keep a running digest of what they handled
as the state of the dialog's group, so what was lost, repeated or swapped shows in the topics for ever. Each handler also
leaves a line in ``$CHAOS_RECORDS`` before it returns; a handler that ran twice leaves two.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

from pydantic import BaseModel

from conversations import Contract, Dialog, MessageType, PoisonPolicy, Service, Then
from tests.chaos.fates import POLICIES, suffer

TELLER, LEDGER = "chaos-teller", "chaos-ledger"
SLOW, UNWELL = 97, 61
"""Every so many messages of a dialog a handler takes its time, or fails at the first attempt."""
POISONED, MOST = 20, 6
"""In one dialog of so many a message that fails does so up to so many times, and waits in between."""
LONG = 0.15
"""Seconds a slow handler takes: longer than a step waits, so the message is committed as a waiting row."""


class Entry(BaseModel):
    n: int
    pad: str


class Receipt(BaseModel):
    n: int
    digest: str


class NewReceipt(Receipt):
    release: int | None = None


class Tally(BaseModel):
    count: int = 0
    digest: str = ""


class NewTally(Tally):
    release: int = 2


class Unwell(Exception):
    """A handler failed; the next attempt succeeds."""


PATIENT = PoisonPolicy(
    then=Then.END_DIALOG,
    exception=Unwell,
    delays=[timedelta(seconds=wait) for wait in (0, 0.2, 0.5, 1, 3, 3)],
    jitter=timedelta(seconds=0.5),
)
"""Waits longer than workers live."""


def contract(receipt: type[Receipt] = Receipt) -> Contract:
    """The contract, with the body of receipts as a release knows it."""
    return Contract(
        "chaos.entries",
        sent_by_initiator=[MessageType("chaos.Entry", Entry)],
        sent_by_target=[MessageType("chaos.Receipt", receipt)],
    )


ENTRIES = contract()


def advance(state: Tally, n: int, text: str) -> None:
    """Add a message to the running digest."""
    state.count += 1
    state.digest = sha256(f"{state.digest}{n}:{text}".encode()).hexdigest()


def teller(release: int, entries: Contract) -> Service[Tally]:
    """Tells entries, and ends a dialog that is meant to end when its last receipt came."""
    service = Service(TELLER, initiates=[entries], state=Tally, poison=[PATIENT])

    @service.on("chaos.Receipt")
    def received(receipt: Receipt, dialog: Dialog[Tally]) -> None:
        note(service.name, dialog.id, receipt.n, release)
        if receipt.n % SLOW == SLOW // 2:
            Event().wait(LONG)
        fall_ill(receipt.n + 1, dialog)
        state = dialog.group.state
        advance(state, receipt.n, receipt.digest)
        if state.count == receipts(dialog.id):
            dialog.end()

    return service


def ledger(release: int, entries: Contract, state: type[Tally], receipt: Callable[..., Receipt]) -> Service[Tally]:
    """Writes a receipt for every entry."""
    service = Service(LEDGER, accepts=[entries], state=state, state_version=release, poison=[PATIENT, *POLICIES])

    @service.on("chaos.Entry")
    async def written(entry: Entry, dialog: Dialog[Tally]) -> None:
        note(service.name, dialog.id, entry.n, release)
        if entry.n % SLOW == SLOW // 3:
            await asyncio.sleep(LONG)  # is the slow handler: nobody waits for it to be over
        fall_ill(entry.n, dialog)
        suffer(plan()["fates"].get(dialog.id), entry.n, entry.pad, dialog.message.attempt)
        tally = dialog.group.state
        advance(tally, entry.n, entry.pad)
        dialog.send(receipt(n=entry.n, digest=tally.digest))

    return service


def teller_1() -> Service[Tally]:
    """The first release."""
    return teller(1, ENTRIES)


def teller_2() -> Service[Tally]:
    """Knows the new field of receipts; works beside the first release for as long as one likes."""
    return teller(2, contract(NewReceipt))


def ledger_1() -> Service[Tally]:
    """The first release; its messages of groups whose state the second one has written wait for the second."""
    return ledger(1, ENTRIES, Tally, Receipt)


def ledger_2() -> Service[Tally]:
    """Has another field in its receipts and in its state, which it upgrades as it comes across it."""
    service = ledger(2, contract(NewReceipt), NewTally, functools.partial(NewReceipt, release=2))

    @service.upgrade_state(1)
    def second(state: Any) -> Any:
        return {**state, "release": 2}

    return service


def fall_ill(n: int, dialog: Dialog[Tally]) -> None:
    """Fail now and then: at the first attempt, in some dialogs up to the sixth."""
    times = 1 + n % MOST if int(dialog.id[-4:], 16) % POISONED == 0 else 1
    if is_unwell(n) and dialog.message.attempt <= times:
        raise Unwell(f"message {n}, {times} times")


def is_unwell(n: int) -> bool:
    """Say whether the handlers of a message of this number fail, whatever its dialog."""
    return n % UNWELL == UNWELL // 2


def plan() -> Any:
    """What the driver means to happen, as it was written last."""
    return _read_plan((records() / "plan.json").stat().st_mtime_ns)


@functools.lru_cache(1)
def _read_plan(_written: int) -> Any:
    return json.loads((records() / "plan.json").read_text(encoding="utf-8"))


def receipts(dialog: str) -> int | None:
    """How many receipts a dialog has that is meant to end."""
    found = plan()
    if "meant" not in found:
        found["meant"] = set(found["ends"])
    return found["receipts"][dialog] if dialog in found["meant"] else None


def records() -> Path:
    """Where records are kept."""
    return Path(os.environ["CHAOS_RECORDS"])


@functools.cache
def _notes(service: str) -> int:
    return os.open(records() / f"{service}-{os.getpid()}.jsonl", os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)


def note(service: str, conversation: str, n: int, release: int) -> None:
    """Leave a line about a handler's run, in one write."""
    line = {
        "service": service, "conversation": conversation, "initiator": service == TELLER, "n": n, "release": release,
        "pid": os.getpid(),
    }  # fmt: skip
    os.write(_notes(service), json.dumps(line).encode() + b"\n")
