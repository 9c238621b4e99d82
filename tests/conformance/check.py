"""What can be wrong with the table. The tests of a row are looked up in the source text, so that nothing is imported or run."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from conversations.protocol.code_table import TABLE
from tests.conformance.row import NEEDS_REASON, Chapter, Row, Verdict

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_CODES = {row.number: row for row in TABLE}


def problems(chapters: Sequence[Chapter]) -> list[str]:
    """Return a line for each thing that is wrong with the rows; an empty list if nothing is."""
    rows = [row for chapter in chapters for row in chapter.rows]
    found = [
        f"{name}: {count} rows have this id" for name, count in Counter(row.id for row in rows).items() if count > 1
    ]
    for row in rows:
        found += [f"{row.id}: {what}" for what in _of(row)]
    told = {row.code for row in rows}
    found += [f"code {number} of the table of codes has no row" for number in sorted(_CODES.keys() - told)]
    return found


def _of(row: Row) -> Iterator[str]:
    if not NAME.fullmatch(row.id):
        yield "the id is not words of lower case with dots between them"
    for text in (row.theirs, row.ours):
        if not text.endswith("."):
            yield f"not a sentence: {text!r}"
    if row.verdict in NEEDS_REASON and not row.reason:
        yield f"{row.verdict} without a reason"
    if row.verdict not in NEEDS_REASON and row.reason:
        yield f"{row.verdict} with a reason"
    if row.verdict is not Verdict.ABSENT and not row.proof:
        yield f"{row.verdict} without a test"
    yield from (f"no such test: {node}" for node in row.proof if not exists(node))
    if row.code is not None:
        yield from _of_code(row, row.code)


def _of_code(row: Row, number: int) -> Iterator[str]:
    code = _CODES.get(number)
    if code is None:
        yield f"the table of codes has no code {number}"
    elif code.absent and row.verdict in {Verdict.SAME, Verdict.BETTER}:
        yield f"{row.verdict}, but nothing raises the code"
    elif not code.absent and row.verdict is Verdict.ABSENT:
        yield "absent, but the code is raised"


def exists(node: str) -> bool:
    """Return True if a node id without parameters names a test function of a file, or of a class in it."""
    file, _, name = node.partition("::")
    path = ROOT / file
    return path.is_file() and path.name.startswith("test_") and name in laws_of(path)


@cache
def laws_of(path: Path) -> frozenset[str]:
    """Return the names of the tests of a file; those of a class have the name of the class in front."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, functions) and node.name.startswith("test_"):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = (it.name for it in node.body if isinstance(it, functions) and it.name.startswith("test_"))
            found |= {f"{node.name}::{name}" for name in methods}
    return frozenset(found)
