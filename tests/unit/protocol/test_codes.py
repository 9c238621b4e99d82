"""Error codes stand in one table."""

import ast
import re
from pathlib import Path

import pytest

from conversations import errors
from conversations.errors import ConversationError
from conversations.protocol import codes
from conversations.protocol.codes import Code

ROOT = Path(__file__).resolve().parents[3]
HOMES = {"conversations/protocol/codes.py", "conversations/errors.py"}
"""Exceptions have their code themselves: they are below the protocol."""
SYSTEM = {name: code for name, code in vars(codes).items() if isinstance(code, Code)}
LOCAL = {
    name: code for name, code in vars(codes).items() if name.isupper() and isinstance(code, int) and name != "POISON"
}
NUMBERS = set(LOCAL.values()) | {-code.number for code in SYSTEM.values()}


def product() -> list[Path]:
    return [
        path
        for root in ("conversations", "ops", "spark_jobs")
        for path in sorted((ROOT / root).rglob("*.py"))
        if path.relative_to(ROOT).as_posix() not in HOMES
    ]


def test_no_number_is_told_twice() -> None:
    assert len(set(LOCAL.values())) == len(LOCAL)
    assert len({code.number for code in SYSTEM.values()}) == len(SYSTEM)


def test_system_codes_are_negative_and_local_ones_positive() -> None:
    assert max(code.number for code in SYSTEM.values()) < 0 < min(LOCAL.values())


def test_numbers_of_codes_stand_in_the_table_alone() -> None:
    """Bounds of bytes and milliseconds may have the same value; none of them is a code of the table."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path in product()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in NUMBERS
    ]
    assert found == []


def test_texts_name_codes_of_the_table_only() -> None:
    """As "(8429)"."""
    named = {
        (path.relative_to(ROOT).as_posix(), int(number))
        for path in product()
        for group in re.findall(r"\((?:or )?(-?\d{4}(?:, -?\d{4})*)\)", path.read_text(encoding="utf-8"))
        for number in re.findall(r"\b[89]\d{3}\b", group)
    }
    assert named
    assert {it for it in named if it[1] not in NUMBERS} == set()


def test_no_system_code_is_unused() -> None:
    used = "".join(path.read_text(encoding="utf-8") for path in product())
    assert [name for name in SYSTEM if not re.search(rf"\b{name}\b", used)] == []


def test_no_local_code_is_unused() -> None:
    """By its name, as the code of an exception, or in a text that tells it."""
    used = "".join(path.read_text(encoding="utf-8") for path in product())
    raised = {it.code for it in vars(errors).values() if isinstance(it, type) and issubclass(it, ConversationError)}
    unused = {
        name
        for name, number in LOCAL.items()
        if number not in raised and not re.search(rf"\b({name}|{number})\b", used)
    }
    assert unused == set()


def test_every_exception_has_a_code_of_the_table() -> None:
    kinds = [it for it in vars(errors).values() if isinstance(it, type) and issubclass(it, ConversationError)]
    assert {it.__name__: it.code for it in kinds if it.code and it.code not in LOCAL.values()} == {}


@pytest.mark.parametrize("name", sorted(SYSTEM))
def test_the_protocols_page_tells_when_a_system_code_is_sent(name: str) -> None:
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| -")]
    assert any(str(SYSTEM[name].number) in row for row in rows)
