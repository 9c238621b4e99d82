"""Writes the tables of ``docs/periods.md`` from the code: ``python -m tests.periods.document``."""

from dataclasses import fields
from pathlib import Path

from conversations.config import Periods
from conversations.units import DAY, HOUR, MINUTE, SECOND
from tests.periods.exceptions import EXCEPTIONS, UNIT

PAGE = Path(__file__).resolve().parents[2] / "docs" / "periods.md"
BEGIN, END = "<!-- {}: made by python -m tests.periods.document -->", "<!-- end of {} -->"
_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))


def _length(period: int) -> str:
    size, unit = next((size, unit) for size, unit in _UNITS if period % size == 0)
    return f"{period // size} {unit}"


def _periods() -> list[str]:
    rows = [
        f"| `{it.name}` | {_length(getattr(Periods(), it.name))} | {it.metadata['meaning']} | {it.metadata['end']} |"
        for it in fields(Periods)
    ]
    return ["| setting | default | period | at its end |", "|---|---|---|---|", *rows]


def _others() -> list[str]:
    rows = [f"| `{path}` | `{name}` | {why} |" for (path, name), why in EXCEPTIONS.items() if why != UNIT]
    return ["| file | name | why it is not one of them |", "|---|---|---|", *rows]


TABLES = {"periods": _periods, "other durations": _others}


def page() -> str:
    """Return the page with its tables made anew."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, rest = text.split(begin, 1)
        _, after = rest.split(end, 1)
        text = f"{before}{begin}\n" + "\n".join(table()) + f"\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
