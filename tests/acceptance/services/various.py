"""Targets of every kind that `conversations run` takes, and services that misbehave."""

import asyncio
import logging
import os
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel

from conversations import Contract, Dialog, PoisonPolicy, Service

OUT = Path(os.environ.get("OUT", "."))
log = logging.getLogger("various")


class Note(BaseModel):
    text: str


class Tally(BaseModel):
    notes: int = 0


class TallyTwo(BaseModel):
    count: int = 0
    texts: list[str] = []


NOTES = Contract("Notes", sent_by_initiator=[Note])
incomplete = Service("incomplete", accepts=[NOTES])
writer = Service("writer", initiates=[NOTES])


def misspelt() -> Service:
    """Has a policy for a message that there is not."""
    return Service("misspelt", accepts=[NOTES], ignores=[Note], poison=[PoisonPolicy(message="Noet")])


def ignorant() -> Service:
    """Has a policy for a message that it ignores."""
    return Service("ignorant", accepts=[NOTES], ignores=[Note], poison=[PoisonPolicy(message=Note)])


def write(name: str, *facts: object) -> None:
    """Append a line."""
    with (OUT / name).open("a") as file:
        file.write(" ".join(map(str, facts)) + "\n")


def first_version() -> Service[Tally]:
    """Keeps how many notes there were."""
    service = Service("tally", accepts=[NOTES], state=Tally)

    @service.on(Note)
    def keep(note: Note, dialog: Dialog[Tally]) -> None:
        dialog.group.state.notes += 1
        write("tally", note.text, dialog.group.state.notes)

    return service


def second_version() -> Service[TallyTwo]:
    """Keeps the texts too; knows what the first version stored."""
    service = Service("tally", accepts=[NOTES], state=TallyTwo, state_version=2)

    @service.upgrade_state(1)
    def rename(old: dict[str, int]) -> dict[str, object]:
        return {"count": old["notes"], "texts": ["?"] * old["notes"]}

    @service.on(Note)
    def keep(note: Note, dialog: Dialog[TallyTwo]) -> None:
        state = dialog.group.state
        state.count += 1
        state.texts.append(note.text)
        write("tally", note.text, state.count, ",".join(state.texts))

    return service


@contextmanager
def with_file() -> Iterator[Service]:
    """Owns something that handlers use, and writes when it is given back."""
    service = Service("owner", accepts=[NOTES])
    resource = (OUT / "resource").open("a", buffering=1)

    @service.on(Note)
    def keep(note: Note, dialog: Dialog) -> None:
        log.info("noted %s", note.text)
        resource.write(f"{note.text} {dialog.id}\n")

    with resource:
        yield service
        resource.write("closed\n")


@asynccontextmanager
async def with_loop() -> AsyncIterator[Service]:
    """Owns something that belongs to one event loop: handlers must run on the same one."""
    service = Service("owner", accepts=[NOTES])
    loop = asyncio.get_running_loop()

    @service.on(Note)
    async def keep(note: Note, dialog: Dialog) -> None:
        await asyncio.sleep(0)
        log.info("noted %s", note.text)
        write("resource", note.text, dialog.id, asyncio.get_running_loop() is loop)

    yield service
    write("resource", "closed", asyncio.get_running_loop() is loop)


@asynccontextmanager
async def blocking() -> AsyncIterator[Service]:
    """Its handler blocks the event loop for good, four times: then its message is given up on."""
    service = Service("stuck", accepts=[NOTES])

    @service.on(Note, time_limit=timedelta(seconds=1))
    async def wait(note: Note, _dialog: Dialog) -> None:
        write("stuck", note.text, os.getpid())
        if note.text == "stuck":
            threading.Event().wait()

    yield service


def hogging() -> Service:
    """Its handler never gives the interpreter back for one text: a regular expression that takes for ever."""
    service = Service("hogged", accepts=[NOTES])

    @service.on(Note)
    def match(note: Note, _dialog: Dialog) -> None:
        write("hogged", note.text, os.getpid())
        if note.text == "hog":
            re.match("(a+)+$", "a" * 60 + "b")

    return service


def never_ending() -> Service:
    """Its handler does not return."""
    service = Service("stuck", accepts=[NOTES])

    @service.on(Note)
    def wait(_note: Note, _dialog: Dialog) -> None:
        write("stuck", os.getpid())
        threading.Event().wait()

    return service
