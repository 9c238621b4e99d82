"""Notes on groups of failed messages, and the marks that follow from them; all of it without Kafka."""

import json
from pathlib import Path

import pytest

from conversations_ops.operate.notes import MENDED, NOTE, About, Known, Mark, Note, about_in, key_of
from conversations_ops.operate.redrive.selection import Selector, group_of
from conversations_ops.read_model.file import File
from conversations_ops.read_model.groups import noted_groups

GROUP = About("desk", "Value/Error", 'Ta"sk')
SAID = Note("wait", "ann", 50)


@pytest.mark.parametrize(
    ("known", "mark"),
    [
        (Known(), Mark.NEW),
        (Known(SAID), Mark.NOTED),
        (Known(SAID, SAID), Mark.REGRESSED),
        (Known(None, SAID._replace(at=51)), Mark.REGRESSED),
        (Known(SAID, SAID._replace(at=52)), Mark.MENDED),
    ],
)
def test_a_group_regresses_when_a_message_fails_after_it_was_mended(known: Known, mark: Mark) -> None:
    assert known.mark(52) is mark


def test_a_key_names_its_group() -> None:
    assert about_in(key_of(NOTE, GROUP)) == GROUP
    for key in ("note/", "note/7", 'note/["a"]', 'note/["a", "b", 3]', "note/" + "[" * 100_000):
        assert about_in(key) is None


@pytest.mark.parametrize(
    ("selector", "group"),
    [
        (Selector("desk", exception="E", type="Task"), About("desk", "E", "Task")),
        (Selector("desk", exception="E", type="Task", peer="web"), None),
        (Selector("desk", exception="E", type="Task", since=1), None),
        (Selector("desk", exception="E"), None),
    ],
)
def test_a_plan_is_of_a_group_if_it_chooses_just_that(selector: Selector, group: About | None) -> None:
    assert group_of(selector) == group


def test_notes_are_found_with_their_groups_and_what_is_no_note_is_left_out(tmp_path: Path) -> None:
    other = GROUP._replace(type="Other")
    with File(tmp_path / "model") as file, file.transaction() as connection:
        for about in (GROUP, other):
            row = (
                "desk",
                0,
                b"o" * 17,
                f"l-{about.type}",
                about.type,
                about.exception,
                "x",
                9,
                None,
                0,
                0,
                None,
                "C",
                "p",
                0,
                1,
            )
            connection.execute(f"INSERT INTO parked VALUES ({','.join('?' * len(row))})", row)
        odd = SAID._asdict() | {"at": "soon"}
        for kind, about, fields in ((NOTE, GROUP, SAID._asdict()), (MENDED, GROUP, odd), (NOTE, other, odd)):
            row_of_note = (key_of(kind, about), 1, json.dumps(fields))
            connection.execute("INSERT INTO operators VALUES (?, ?, ?)", row_of_note)
        for offset, key in enumerate(("note/[]", "mended/\x00", "note/x")):
            connection.execute("INSERT INTO operators VALUES (?, ?, ?)", (key, offset, "[7]"))
        found = {it.group.what: (it.mark, it.known) for it in noted_groups(file)}
    assert found == {GROUP.type: (Mark.NOTED, Known(SAID)), "Other": (Mark.NEW, Known())}
