"""The page ``docs/conformance.md``, made from the table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.conformance.row import Chapter, Row, Verdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"
HEAD = """# Service Broker's behaviours, and ours

<!-- made by `python -m tests.conformance --write` from tests/conformance -->

This page compares the behaviours of SQL Server's Service Broker with the behaviours of this product, one row for each. It is for people
who know Service Broker, and for people who want to know what is not built. The facts about Service Broker are from its documentation, and
from articles of its developers ("Resending messages", "Handling Poison Messages", "Service Broker Communication Protocols"). The sentences
are our own.

Each row has a **verdict**:

* **same**: an application sees the same.
* **better**: the same, without a known defect of Service Broker, or with more.
* **different**: the same purpose, served in another way. The row says why.
* **absent**: not built. The row says what would bring it, or why it never comes.

A row that is not absent names at least one test that proves what the row says about this product. `python -m tests.conformance` counts the
rows, `--json` prints all of them, and `--check` fails if a test that a row names does not exist, if a code has no row, or if this page is
stale.

"""


def page(chapters: Sequence[Chapter]) -> str:
    """Return the text of the page."""
    return HEAD + "\n".join(_lines(chapters)) + "\n"


def counts(chapter: Chapter) -> dict[Verdict, int]:
    """Return how many rows of a chapter have each verdict."""
    found = Counter(row.verdict for row in chapter.rows)
    return {verdict: found[verdict] for verdict in Verdict}


def _lines(chapters: Sequence[Chapter]) -> Iterator[str]:
    yield f"| chapter | rows | {' | '.join(Verdict)} |"
    yield f"|---|---|{'---|' * len(Verdict)}"
    total: Counter[Verdict] = Counter()
    for chapter in chapters:
        of = counts(chapter)
        total.update(of)
        yield f"| [{chapter.title}](#{_anchor(chapter.title)}) | {len(chapter.rows)} | {_cells(of)} |"
    yield f"| all | {total.total()} | {_cells(total)} |"
    for chapter in chapters:
        yield from ("", f"## {chapter.title}", "", chapter.about, "")
        yield "| row | Service Broker | here | verdict | proof, or why there is none |"
        yield "|---|---|---|---|---|"
        yield from map(_row, chapter.rows)


def _cells(of: dict[Verdict, int] | Counter[Verdict]) -> str:
    return " | ".join(str(of[verdict]) for verdict in Verdict)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def _row(row: Row) -> str:
    name = f"`{row.id}`" if row.code is None else f"`{row.id}`<br>[{row.code}](codes.md)"
    tests = [f"[{node.partition('::')[2]}](../{node.partition('::')[0]})" for node in row.proof]
    why = [row.reason[:1].upper() + row.reason[1:].rstrip(".") + "."] if row.reason else []
    return f"| {name} | {row.theirs} | {row.ours} | {row.verdict} | {'<br>'.join([*why, *tests])} |"
