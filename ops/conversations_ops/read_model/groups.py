"""Finds the groups of failed messages in the file of the read model, with what operators noted on them."""

from __future__ import annotations

from typing import NamedTuple

from conversations_ops.operate.notes import About, Known, Mark, about_in, note_in
from conversations_ops.operate.operators_topic import fields_of
from conversations_ops.read_model.file import File
from conversations_ops.read_model.letters import Group, Waits, groups


class Noted(NamedTuple):
    """A group of failed messages, and what operators know about it."""

    group: Group
    known: Known

    @property
    def mark(self) -> Mark:
        """The mark of the group."""
        return self.known.mark(self.group.last)


def noted_groups(file: File, service: str = "") -> list[Noted]:
    """Return the groups of the failed messages that wait for an operator, the largest group first."""
    notes = _notes(file)
    return [
        Noted(it, notes.get(About(it.service, it.exception, it.what), Known()))
        for it in groups(file, Waits.PERSON, service)
    ]


def _notes(file: File) -> dict[About, Known]:
    found: dict[About, Known] = {}
    with file.explained():
        rows = file.connection.execute(
            "SELECT key, value FROM operators WHERE key GLOB 'note/*' OR key GLOB 'mended/*'"
        ).fetchall()
    for key, value in rows:
        about, note = about_in(key), note_in(fields_of(value))
        if about is not None and note is not None:
            part = {key.partition("/")[0]: note}
            found[about] = found.get(about, Known())._replace(**part)
    return found
