"""The table says something true of every row: its tests are there, its codes are in the table of codes, and the page is the table."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from conversations.protocol.code_table import TABLE
from tests.conformance.__main__ import found, main
from tests.conformance.check import exists, laws_of, problems
from tests.conformance.document import PAGE, page
from tests.conformance.row import Chapter, Coded, Row, Verdict, join
from tests.conformance.table import CHAPTERS

HERE = "tests/conformance/test_conformance.py"
GOOD = Row("a.row", "They do.", "We do.", Verdict.SAME, (f"{HERE}::test_the_table_and_its_page_are_right",))


def said_of(*rows: Row) -> list[str]:
    """Return what the check says of these rows alone. It also misses every code, which is left out here."""
    chapter = Chapter("a", "A", "About a.", rows)
    return [line for line in problems([chapter]) if not line.endswith("of the table of codes has no row")]


def without(number: int) -> Sequence[Chapter]:
    return [replace(it, rows=tuple(row for row in it.rows if row.code != number)) for it in CHAPTERS]


def test_the_table_and_its_page_are_right() -> None:
    """``python -m tests.conformance --write`` writes the page anew."""
    assert found(CHAPTERS) == []


def test_a_good_row_is_not_complained_about() -> None:
    assert said_of(GOOD) == []


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (replace(GOOD, proof=(f"{HERE}::test_nothing",)), f"no such test: {HERE}::test_nothing"),
        (replace(GOOD, proof=("tests/nowhere/test_x.py::test_x",)), "no such test: tests/nowhere/test_x.py::test_x"),
        (replace(GOOD, proof=(f"{HERE}::said_of",)), f"no such test: {HERE}::said_of"),
        (replace(GOOD, proof=(HERE,)), f"no such test: {HERE}"),
        (replace(GOOD, proof=()), "same without a test"),
        (replace(GOOD, verdict=Verdict.BETTER, proof=()), "better without a test"),
        (replace(GOOD, verdict=Verdict.DIFFERENT), "different without a reason"),
        (replace(GOOD, verdict=Verdict.DIFFERENT, reason="why", proof=()), "different without a test"),
        (replace(GOOD, verdict=Verdict.ABSENT, proof=()), "absent without a reason"),
        (replace(GOOD, reason="why"), "same with a reason"),
        (replace(GOOD, theirs=""), "not a sentence: ''"),
        (replace(GOOD, ours="we do"), "not a sentence: 'we do'"),
        (replace(GOOD, id="A row"), "the id is not words of lower case with dots between them"),
        (replace(GOOD, code=1), "the table of codes has no code 1"),
        (replace(GOOD, code=-8495), "same, but nothing raises the code"),
        (replace(GOOD, code=-8408, verdict=Verdict.ABSENT, reason="never: why"), "absent, but the code is raised"),
    ],
    ids=lambda it: "" if isinstance(it, Row) else it,
)
def test_a_broken_row_is_named_with_what_is_wrong(row: Row, what: str) -> None:
    assert said_of(row) == [f"{row.id}: {what}"]


def test_two_rows_with_one_id_are_found() -> None:
    assert said_of(GOOD, replace(GOOD, ours="We do not.")) == ["a.row: 2 rows have this id"]


@pytest.mark.parametrize("number", [-8462, -8495, 8429, 9617, 50003, 500])
def test_a_code_without_a_row_is_found(number: int) -> None:
    assert problems(without(number)) == [f"code {number} of the table of codes has no row"]


def test_each_row_of_a_code_has_the_text_of_the_table_of_codes_or_says_more() -> None:
    texts = {row.number: row.text for row in TABLE}
    (said, plain) = join(Coded(-8495, Verdict.ABSENT), [Coded(-8408, Verdict.SAME, theirs="It says more.")])
    assert (plain.theirs, plain.ours, plain.reason[:5]) == (texts[-8495], "Nothing raises it.", "when ")
    assert (said.theirs, said.id) == ("It says more.", "codes.system.8408")


@pytest.mark.parametrize("text", [None, "", page(CHAPTERS)[:-1], page(CHAPTERS).replace("same", "better", 1)])
def test_a_stale_page_is_found(tmp_path: Path, text: str | None) -> None:
    other = tmp_path / PAGE.name
    if text is not None:
        other.write_text(text, encoding="utf-8")
    assert found(CHAPTERS, other) == ["conformance.md is stale: run `python -m tests.conformance --write`"]


def test_tests_of_a_file_and_of_its_classes_are_found_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(
        "def test_one(): ...\n"
        "async def test_two(): ...\n"
        "def helper(): ...\n"
        "class TestMany:\n"
        "    def test_three(self): ...\n"
        "    def other(self): ...\n"
        "def outer():\n"
        "    def test_inner(): ...\n"
    )
    assert laws_of(file) == {"test_one", "test_two", "TestMany::test_three"}
    assert not exists(f"{HERE}::TestMany::test_three")


def test_the_command_counts_checks_and_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = sum(len(chapter.rows) for chapter in CHAPTERS)
    assert main([]) == 0
    head, *lines, last = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "chapter"
    assert len(lines) == len(CHAPTERS)
    assert last.split()[:2] == ["all", str(rows)]
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == f"{rows} rows, nothing wrong\n"
    assert main(["--json"]) == 0
    chapters = json.loads(capsys.readouterr().out)["chapters"]
    assert sum(len(chapter["rows"]) for chapter in chapters) == rows
    assert chapters[0]["rows"][0].keys() == {"id", "code", "service_broker", "here", "verdict", "reason", "proof"}


def test_a_broken_table_ends_the_check_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.conformance.__main__.CHAPTERS", without(-8462))
    assert main(["--check"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == "code -8462 of the table of codes has no row"
