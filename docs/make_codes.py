"""Write docs/codes.md from the table of error codes, ``conversations.protocol.code_table``.

python docs/make_codes.py           write the page
python docs/make_codes.py --check   exit with 1 if the committed page is stale
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from conversations.protocol import codes
from conversations.protocol.code_table import ABSENT
from conversations.protocol.codes import ROWS, ApplicationCode, Code, ErrorClass, LocalCode, SystemCode

PAGE = Path(__file__).with_name("codes.md")
TEXT = """# Error codes

<!-- made by `make docs` from conversations/protocol/codes.py and code_table.py -->

`conversations codes` prints this table. `conversations codes 8462` explains one code. The numbers are Service Broker's;
[decision 0035](decisions/0035-one-table-of-codes.md) says where this library differs from Service Broker.

* A **system code** tells a side that its dialog broke. It is negative on the wire, and a handler gets it as `PeerError`: `error.code` is the
  number, `error.name` and `error.error_class` are from this table. If no handler gets it, the worker logs a warning and writes the event
  [`DIALOG_BROKEN`](events.md).
* A **local code** tells a caller that a request was refused and changed nothing. It is positive: `error.code` of `LocalError` and
  `DeclarationError`. A command of a client has no caller any more when its owner refuses it. It becomes a dead letter `command-refused`, and
  the event `COMMAND_REFUSED` has the code.
* Applications may use any positive code in `end_with_error`. A worker never changes a code of an application, or a code that it does not
  know.
* Errors of Kafka (`LogError`), and of a process that cannot do what it is asked (`HandlerOver`, `NoWorkerHere`, `NotAccepted`,
  `RequestTimeout`), have no number.
"""
CLASSES = """## Classes

| class | means |
|---|---|
"""
COLUMNS = "| code | name | class | detected by | told | text | what to do |\n|---|---|---|---|---|---|---|\n"
ABSENT_COLUMNS = "| code | name | class | detected by | told | text | what brings it |\n|---|---|---|---|---|---|---|\n"


def meanings() -> dict[str, str]:
    """Return the docstrings of the members of ``ErrorClass``, by value."""
    (tree,) = ast.parse(inspect.getsource(ErrorClass)).body
    lines = list(tree.body) if isinstance(tree, ast.ClassDef) else []
    found = {}
    for line, after in pairwise(lines):
        if isinstance(line, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[ast.literal_eval(line.value)] = str(after.value.value)
    return found


def row(code: Code) -> str:
    """Return the row of a code."""
    last = code.absent or code.to_do
    cells = (
        code.number, f"`{code.name}`", code.error_class, code.detected_by, code.told, code.text, last[0].upper() + last[1:],
    )  # fmt: skip
    return "| " + " | ".join(str(cell).removesuffix(".") for cell in cells) + " |"


def section(title: str, rows: Iterable[Code], columns: str = COLUMNS) -> str:
    """Return a section with a table of codes."""
    ordered = sorted(rows, key=lambda it: (it.number > 0, abs(it.number)))
    return f"## {title}\n\n{columns}" + "\n".join(map(row, ordered)) + "\n"


def page() -> str:
    """Return the text of docs/codes.md."""
    local = [it for it in ROWS if isinstance(it, LocalCode)]
    parts = [
        TEXT,
        CLASSES + "\n".join(f"| {it} | {meaning} |" for it, meaning in meanings().items()) + "\n",
        section("System codes", (it for it in ROWS if isinstance(it, SystemCode))),
        section("Local codes with Service Broker's numbers", (it for it in local if it.number <= codes.SQL_SERVERS)),
        section("Local codes of this library", (it for it in local if it.number > codes.SQL_SERVERS)),
        section("Codes that workers send in the name of applications", (it for it in ROWS if isinstance(it, ApplicationCode))),
        section("Codes of Service Broker that nothing here raises", ABSENT, ABSENT_COLUMNS),
    ]  # fmt: skip
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Write or check the page; return the exit code."""
    if arguments == ["--check"]:
        is_fresh = PAGE.exists() and PAGE.read_text("utf-8") == page()
        if not is_fresh:
            print(f"{PAGE.name}: stale, run `make docs`", file=sys.stderr)
        return int(not is_fresh)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
