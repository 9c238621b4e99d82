"""``python -m tests.conformance``: how this product compares with SQL Server's Service Broker, row by row."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.check import problems
from tests.conformance.document import PAGE, counts, page
from tests.conformance.row import Chapter, Verdict
from tests.conformance.table import CHAPTERS


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description=f"{__doc__} Without an option it prints how many rows of each chapter have each verdict.",
        epilog="The exit code is 1 if --check finds something. A new row goes into the module of its chapter; then run --write.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--json", action="store_true", help="print every row as one JSON document")
    what.add_argument(
        "--check", action="store_true", help="print what is wrong with the table or its page, one line each"
    )
    what.add_argument("--write", action="store_true", help="write docs/conformance.md anew")
    return parser.parse_args(argv)


def summary(chapters: Sequence[Chapter]) -> str:
    """Return the table of counts as text."""
    width = max(len(chapter.title) for chapter in chapters)
    lines = [f"{'chapter':<{width}}  {'rows':>4}  {'  '.join(Verdict)}"]
    total: Counter[Verdict] = Counter()
    for chapter in chapters:
        total.update(counts(chapter))
        lines.append(_line(chapter.title, width, counts(chapter)))
    return "\n".join([*lines, _line("all", width, total)])


def _line(title: str, width: int, of: dict[Verdict, int] | Counter[Verdict]) -> str:
    cells = "  ".join(f"{of[verdict]:>{len(verdict)}}" for verdict in Verdict)
    return f"{title:<{width}}  {sum(of.values()):>4}  {cells}"


def found(chapters: Sequence[Chapter], written: Path = PAGE) -> list[str]:
    """Return what is wrong with the table, or with its page."""
    stale = not written.is_file() or written.read_text(encoding="utf-8") != page(chapters)
    said = [f"{written.name} is stale: run `python -m tests.conformance --write`"] if stale else []
    return [*problems(chapters), *said]


def main(argv: Sequence[str] | None = None) -> int:
    """Run; return 1 if ``--check`` finds something, else 0."""
    asked = arguments(argv)
    if asked.write:
        PAGE.write_text(page(CHAPTERS), encoding="utf-8")
    elif asked.check:
        wrong = found(CHAPTERS)
        rows = sum(len(chapter.rows) for chapter in CHAPTERS)
        print("\n".join(wrong) or f"{rows} rows, nothing wrong")  # noqa: T201 - the report of a command
        return bool(wrong)
    elif asked.json:
        plain = {
            "chapters": [
                {"name": it.name, "title": it.title, "rows": [row.plain() for row in it.rows]} for it in CHAPTERS
            ]
        }
        print(json.dumps(plain, indent=1))  # noqa: T201 - the report of a command
    else:
        print(summary(CHAPTERS))  # noqa: T201 - the report of a command
    return 0


if __name__ == "__main__":
    sys.exit(main())
