"""Finds redrives in the file of the read model: their plans, what their runs have written, and what their events tell."""

from __future__ import annotations

from typing import Any

from conversations.errors import DeclarationError, LogError
from conversations.protocol.events import RedriveEvent, decode_event
from conversations_ops.console.times import micros
from conversations_ops.operate.operators_topic import Written, fields_of
from conversations_ops.operate.redrive.journal import REDRIVE, History
from conversations_ops.operate.redrive.known import Known, State, known
from conversations_ops.operate.redrive.outcomes import Outcome
from conversations_ops.operate.redrive.plan import Plan
from conversations_ops.operate.redrive.stored import Head, head_in, head_key, part_key, plan_in
from conversations_ops.read_model.events import redrive_events
from conversations_ops.read_model.file import File
from conversations_ops.read_model.written import OPERATORS


def plan(file: File, redrive: str) -> Plan | None:
    """Return the plan of a redrive; None if there is none.

    Raises:
        DeclarationError: the plan is not complete, or another version of this program made it.
        LogError: the file cannot be read.
    """
    fields = _fields(file, head_key(redrive))
    head = head_in(fields)
    if head is None:
        return None
    return plan_in(fields, [_fields(file, part_key(head, number)) for number in range(head.parts)])


def _fields(file: File, key: str) -> Any:
    with file.explained():
        found = file.connection.execute("SELECT value FROM operators WHERE key = ?", (key,)).fetchone()
    return fields_of(found[0] if found is not None else None)


def history(file: File, redrive: str) -> tuple[History, int]:
    """Return what the runs of a redrive have written, and the offset of the operators topic up to which this is known.

    Raises:
        LogError: the namespace has no operators topic, or the file cannot be read.
    """
    found, first = History(redrive), f"{REDRIVE}/{redrive}/"
    with file.explained():
        at = file.connection.execute("SELECT next FROM places WHERE kind = ?", (OPERATORS,)).fetchone()
        rows = file.connection.execute(
            "SELECT at_offset, key, value FROM operators WHERE key >= ? AND key < ? ORDER BY at_offset",
            (first, f"{first[:-1]}0"),  # "0" is the character after "/"
        ).fetchall()
    if at is None:
        raise LogError("the namespace has no operators topic: run 'conversations apply'")
    found.take(Written(offset, key, fields_of(value)) for offset, key, value in rows)
    return found, int(at[0])


def redrives(file: File) -> list[Known]:
    """Return all redrives, planned ones too, the oldest first."""
    events = (decode_event(it) for it in redrive_events(file))
    found = {it.redrive: it for it in known(it for it in events if isinstance(it, RedriveEvent))}
    for head in _heads(file):
        if head.redrive not in found:
            counts = {Outcome.OPEN.value: head.letters}
            found[head.redrive] = Known(head.redrive, head.made_by, "", head.letters, 0, _made_at(head), counts, None)
    return sorted(found.values(), key=lambda it: (it.started or it.news, it.redrive))


def redrive(file: File, name: str) -> Known | None:
    """Return a redrive; None if nothing is known about it."""
    return next((it for it in redrives(file) if it.redrive == name), None)


def refuse_stopped(file: File, name: str) -> None:
    """Raise if a redrive cannot be asked to stop.

    Raises:
        LogError: there is no such redrive, it was not started, or it has ended.
    """
    it = redrive(file, name)
    if it is None:
        raise LogError(f"there is no redrive {name}")
    if not it.started or it.end is not None:
        raise LogError(f"{name} does not run")


def refuse_running(file: File, name: str, now: int) -> None:
    """Raise if a redrive runs. ``now`` is in microseconds since 1970.

    Raises:
        DeclarationError: it runs.
    """
    it = redrive(file, name)
    if it is not None and it.state(now) is State.RUNS:
        raise DeclarationError(
            f"{name} runs already, started by {it.by}: conversations redrive watch {name} shows it, and redrive stop stops it"
        )


def _heads(file: File) -> list[Head]:
    with file.explained():
        rows = file.connection.execute("SELECT value FROM operators WHERE key GLOB ?", (head_key("*"),)).fetchall()
    found = (head_in(fields_of(value)) for (value,) in rows)
    return [it for it in found if it is not None]


def _made_at(head: Head) -> int:
    try:
        return micros(head.made_at)
    except ValueError:
        return 0
