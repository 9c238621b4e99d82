"""Writes the tables of ``docs/settings.md`` from the code: ``python -m tests.periods.document``."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from conversations_ops.settings.names import GROUPS, SETTINGS
from conversations_ops.settings.values import written
from tests.periods.exceptions import EXCEPTIONS, UNIT

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
BEGIN, END = "<!-- {}: made by python -m tests.periods.document -->", "<!-- end of {} -->"


def _group(group: str) -> list[str]:
    mine = [it for it in SETTINGS.values() if it.group == group]
    ends = any(it.end for it in mine)
    head, rule = "| setting | unit | default | meaning |", "|---|---|---|---|"
    rows = [
        f"| `{it.name}` | {it.unit} | {written(it, it.default)} | {it.meaning} |{f' {it.end} |' if ends else ''}"
        for it in mine
    ]
    return [f"{head} at its end |", f"{rule}---|", *rows] if ends else [head, rule, *rows]


def _others() -> list[str]:
    rows = [f"| `{path}` | `{name}` | {why} |" for (path, name), why in EXCEPTIONS.items() if why != UNIT]
    return ["| file | name | why it is not a setting |", "|---|---|---|", *rows]


TABLES: dict[str, Callable[[], list[str]]] = {
    **{group: partial(_group, group) for group in GROUPS},
    "other durations": _others,
}


def page() -> str:
    """Return the page with new tables."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, rest = text.split(begin, 1)
        _, after = rest.split(end, 1)
        text = f"{before}{begin}\n" + "\n".join(table()) + f"\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
