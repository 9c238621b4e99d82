"""Fields of the formats that this version does not use: docs/protocol.md names each."""

import ast
import json
import re
from pathlib import Path

import pytest

from conversations.protocol.envelope import Kind

ROOT = Path(__file__).resolve().parents[3]
SCHEMAS = ROOT / "conversations" / "schemas"
CODECS = {"envelope", "envelope_avro", "envelope_records", "envelope_run", "partition_row"}
"""Modules that only carry the fields between bytes and objects."""
ADMISSION = "intake"
"""The module that sets records aside for what they say in a reserved field."""


def table() -> dict[str, str]:
    """What the page says is reserved, by name: of what."""
    section = (ROOT / "docs" / "protocol.md").read_text().partition("### Reserved")[2]
    rows = re.findall(r"^\| (`.*?) \| ([a-z ]+) \|", section.partition("Every envelope")[0], re.MULTILINE)
    return {name: of for names, of in rows for name in re.findall(r"`(\w+)`", names.partition(", with")[0])}


def names_read(*packages: str) -> set[str]:
    """Every attribute that the product reads outside its codecs and the simulation."""
    found = set()
    for path in (path for package in packages for path in (ROOT / package).rglob("*.py")):
        if path.stem not in CODECS | {ADMISSION} and "testing" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and not _of_tombstone(node):
                    found.add(node.attr)
    return found


def _of_tombstone(node: ast.Attribute) -> bool:
    """Whether the attribute is read from a tombstone, a row with a field ``transmitted`` of its own."""
    return isinstance(node.value, ast.Name) and node.value.id == "tombstone"


@pytest.mark.parametrize(
    ("schema", "of", "readers"),
    [
        ("envelope.v1", "envelope", ["conversations"]),
        ("partition.v2", "partition row", ["conversations", "ops", "spark_jobs"]),
    ],
)
def test_a_field_that_nobody_reads_is_said_to_be_reserved_and_no_other(
    schema: str, of: str, readers: list[str]
) -> None:
    fields = [it["name"] for it in json.loads((SCHEMAS / f"{schema}.avsc").read_text())["fields"]]
    read = names_read(*readers)
    assert [name for name in fields if name not in read] == [name for name, what in table().items() if what == of]


def test_so_is_a_kind_that_nobody_sends() -> None:
    used = {"MESSAGE", "END", "ERROR", "ACK", "RESEND", "FENCE", "FENCED"}
    assert used <= names_read("conversations")
    assert {kind.name for kind in Kind} - used == {name for name, what in table().items() if what == "kinds"}
