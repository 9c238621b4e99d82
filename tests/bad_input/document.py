"""Writes the tables of ``docs/bad-input.md`` from the rows that the tests run: ``python -m tests.bad_input.document``."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.bad_input import commands, test_callers, test_handlers, test_state, wire

PAGE = Path(__file__).resolve().parents[2] / "docs" / "bad-input.md"
BEGIN, END = "<!-- {}: from tests/bad_input -->", "<!-- end of {} -->"

_TOLD = {
    "breach": "ERROR to the sender; `on_error` of this service",
    "held-at-end": "ERROR to the sender; `on_error` of this service",
    "refused": "ERROR to the sender; event `DIALOG_BROKEN`",
}


def _table(head: str, rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    cells = head.split("|")
    yield from (f"| {' | '.join(cells)} |", f"|{'---|' * len(cells)}")
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _wire() -> Iterator[str]:
    rows = []
    for row in wire.ROWS:
        if row.what.endswith(", in a dialog under way"):
            continue
        rows.append((row.what, _outcome(row), _where(row.reason), _told(row), str(row.code or "")))
    return _table("input|outcome|where its bytes are|reported by|code", rows)


def _outcome(row: wire.Wire) -> str:
    if row.reason == wire.SET_ASIDE:
        return "set aside; does not use up a number"
    if row.reason == "refused":
        return "no dialog begins"
    if row.reason or row.code:
        return "the dialog breaks"
    if row.event:
        return "refused; its sender transmits it again"
    return "accepted; see the text below the table"


def _where(reason: str) -> str:
    return f"dead letter `{reason}`" if reason else "only in its topic"


def _told(row: wire.Wire) -> str:
    if row.event:
        return f"event `{row.event}`"
    if row.code and not row.reason:
        return _TOLD["breach"]
    return _TOLD.get(row.reason, "")


def _commands() -> Iterator[str]:
    rows = []
    for row in commands.ROWS:
        outcome = {"set-aside": "set aside", "command-refused": "refused as a whole", "": "carried out"}[row.reason]
        told = "event `SET_ASIDE`" if row.event else ""
        rows.append((row.what, outcome, _where(row.reason), told, str(row.code or "")))
    return _table("input|outcome|where its bytes are|reported by|code", rows)


def _callers() -> Iterator[str]:
    rows = [(row.what, f"raises `{row.exception}`", str(row.code or "")) for row in test_callers.ROWS]
    return _table("input|outcome|code", rows)


def _handlers() -> Iterator[str]:
    rows = []
    for row in test_handlers.ROWS:
        name = row.exception.replace(test_handlers.__name__, "yours").rsplit(".", 1)[-1]
        failed = f"fails four times with `{name}`; dead letter `handler-failed`; the peer gets error 500"
        rows.append((row.what, failed if row.exception else "the message is handled"))
    return _table("a handler that|outcome", rows)


def _state() -> Iterator[str]:
    outcome = "the partition is set aside with an event `PARTITION_SET_ASIDE`; its state is not written; the other partitions go on"
    return _table("input|outcome", [(what, outcome) for what in test_state.DAMAGE])


TABLES = {
    "records of a queue": _wire,
    "commands": _commands,
    "calls of a client": _callers,
    "handlers": _handlers,
    "rows of the state": _state,
}


def page() -> str:
    """Return the page with new tables.

    Raises:
        ValueError: a table has no begin or end mark in the page.
    """
    text = PAGE.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, rest = text.split(begin, 1)
        _, after = rest.split(end, 1)
        lines = "\n".join(line.replace("\0", "\\0") for line in table())
        text = f"{before}{begin}\n{lines}\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
