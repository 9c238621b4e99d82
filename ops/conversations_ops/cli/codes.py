"""``conversations codes``: lists all error codes, and explains one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from conversations.protocol.code_table import TABLE, nearest, rows_of
from conversations.protocol.codes import Code
from conversations_ops.cli.kafka_options import Command
from conversations_ops.cli.output import Json, show, show_error
from conversations_ops.console.exit_codes import Exit
from conversations_ops.console.tables import as_text

app = typer.Typer()
_NUMBER = re.compile(r"-?[0-9]{1,10}")
COLUMNS = ("code", "name", "class", "detected by", "told", "raised", "text")


@app.command("codes", cls=Command, context_settings={"ignore_unknown_options": True})  # -8462 is a code, and no option
def codes(
    number: Annotated[
        str,
        typer.Argument(
            metavar="[NUMBER]", help="Explain this code. With or without its minus sign. Default: list all."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """List the error codes of dialogs, or explain one: who detects it, who is told, what it means, what to do. Needs no Kafka.

    The column "raised" says whether this version raises the code: yes, later, or never.

    \b
    Examples:
      conversations codes | grep breach | cut -f 1,2
      conversations codes 8462
      conversations codes -8462 --json | jq -r '.codes[].to_do'

    Exit codes: 0 printed, 2 there is no such code.
    """
    if not number:
        cells = ((it.number, it.name, it.error_class, it.detected_by, it.told, _raised(it), it.text) for it in TABLE)
        show(_plain(TABLE), as_text(COLUMNS, cells, whole=COLUMNS[:3]), as_json=as_json)
        return
    found = rows_of(int(number)) if _NUMBER.fullmatch(number) else []
    if not found:
        show_error(_unknown(number), "UnknownCode", as_json=as_json)
        raise typer.Exit(Exit.USAGE)
    show(_plain(found), "\n\n".join(map(_explained, found)), as_json=as_json)


def _raised(row: Code) -> str:
    if not row.absent:
        return "yes"
    return "never" if row.absent.startswith("never") else "later"


def _explained(row: Code) -> str:
    what = [("comes", row.absent)] if row.absent else []
    facts = [
        ("name", row.name), ("class", row.error_class), ("detected by", row.detected_by), ("told", row.told), ("raised", _raised(row)),
        ("text", row.text), *what, ("what to do", row.to_do),
    ]  # fmt: skip
    return as_text(("code", str(row.number)), facts, whole=("code",))


def _plain(rows: Sequence[Code]) -> dict[str, Any]:
    return {
        "codes": [
            {
                "code": it.number, "name": it.name, "class": it.error_class.value, "detected_by": it.detected_by.value,
                "told": it.told.value, "raised": _raised(it), "comes": it.absent or None, "text": it.text, "to_do": it.to_do,
            }
            for it in rows
        ]
    }  # fmt: skip


def _unknown(number: str) -> str:
    if not _NUMBER.fullmatch(number):
        return f"{number[:80]!r} is not the number of a code, for example 8462 or -8462; `conversations codes` lists all of them"
    near = " and ".join(f"{it.number} ({it.name})" for it in nearest(int(number)))
    own = (
        ""
        if number.startswith("-")
        else ". If the peer's application sent it, ask the application: any positive code may be its own"
    )
    return f"no code {number} is in the table; the nearest: {near}{own}"
