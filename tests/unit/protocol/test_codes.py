"""Error codes are rows of one table, and every error has the code of a row."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from conversations import errors
from conversations.errors import ConversationError, DeclarationError, PeerError
from conversations.protocol import code_table, codes
from conversations.protocol.code_table import ABSENT, TABLE, nearest, rows_of
from conversations.protocol.codes import ROWS, ApplicationCode, Code, ErrorClass, LocalCode, SystemCode

ROOT = Path(__file__).resolve().parents[3]
HOMES = {"conversations/protocol/codes.py", "conversations/protocol/code_table.py"}
NUMBERS = {abs(row.number) for row in TABLE if row is not codes.POISON}
SYSTEM_CODES = (
    8489, 8462, 9719, 9720, 28052, 8494, 8490, 8425, 8408, 8428, 8498, 8430, 8457, 8437, 9616, 9615, 8470, 8469, 8468, 8487,
    8495, 8472, 8475, 8499, 28058,
)  # fmt: skip
"""Service Broker's errors of a conversation: those of "Resending messages", and those of its documentation."""
STATEMENTS = (
    8403, 8404, 8406, 8410, 8411, 8414, 8417, 8418, 8419, 8420, 8421, 8422, 8423, 8424, 8425, 8426, 8427, 8428, 8429, 8431, 8432,
    8433, 8434, 8436, 8438, 8439, 8442, 8447, 8450, 8458, 8459, 8492, 9610, 9613, 9614, 9617, 9618, 9620, 9648, 9653, 9717, 9718,
    28006,
)  # fmt: skip
"""Service Broker's errors of a statement."""
REFUSALS_TOO = {8412, 8430, 8490, 8494, 9615}
"""Service Broker's numbers of other lists that callers get here: a bad name, a body where none belongs, and three system errors."""
CLASSES = {
    ErrorClass.RECOVERABLE: {8489, 8462, 9719, 9720, 28052},
    ErrorClass.BREACH: {8494, 8490, 8425, 8408, 8428, 8498, 8430, 8457, 8437, 9616, 9615},
    ErrorClass.ALTERED: {8470, 8487, 8469, 8468},
    ErrorClass.UNCLASSIFIED: {8495},
}
"""Service Broker's three classes of errors, and the code that is in none of them."""


def product() -> list[Path]:
    return [
        path
        for root in ("conversations", "ops", "spark_jobs")
        for path in sorted((ROOT / root).rglob("*.py"))
        if path.relative_to(ROOT).as_posix() not in HOMES
    ]


def trees() -> Iterator[tuple[str, ast.Module]]:
    return ((path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))) for path in product())


# -- the table -----------------------------------------------------------------------------------------------------------


def test_a_row_has_the_name_of_its_constant() -> None:
    assert {name: it for name, it in vars(codes).items() if isinstance(it, Code) and it.name != name} == {}
    assert len(ROWS) == len({row.name for row in ROWS})


def test_no_name_and_no_number_is_told_twice() -> None:
    assert [it for it, count in Counter(row.number for row in TABLE).items() if count > 1] == []
    assert [it for it, count in Counter(row.name for row in TABLE).items() if count > 1] == []


def test_system_codes_are_negative_and_other_codes_positive() -> None:
    assert {row.name for row in TABLE if isinstance(row, SystemCode) != (row.number < 0)} == set()


def test_a_row_says_all_of_its_columns() -> None:
    empty = [row.name for row in TABLE if not all((row.name, row.text.endswith("."), row.to_do.endswith(".")))]
    assert empty == []


def test_each_code_of_service_broker_is_in_the_table() -> None:
    assert sorted({-number for number in SYSTEM_CODES} - {row.number for row in TABLE}) == []
    assert sorted(set(STATEMENTS) - {row.number for row in TABLE}) == []


def test_system_codes_have_the_classes_of_service_broker() -> None:
    by_number = {-row.number: row.error_class for row in TABLE if isinstance(row, SystemCode)}
    assert {(it, by_number[it]) for numbers in CLASSES.values() for it in numbers} == {
        (it, found) for found, numbers in CLASSES.items() for it in numbers
    }


def test_a_code_that_nothing_raises_says_when_it_comes_or_why_never() -> None:
    assert [row.name for row in ABSENT if not re.match(r"(when |never( as a number)?: )", row.absent)] == []
    assert [row.name for row in ROWS if row.absent] == []


def test_local_codes_outside_service_broker_have_numbers_that_sql_server_leaves_free() -> None:
    own = {row.number for row in ROWS if isinstance(row, LocalCode)} - set(STATEMENTS) - REFUSALS_TOO
    assert own
    assert min(own) > codes.SQL_SERVERS


# -- its use -------------------------------------------------------------------------------------------------------------


def test_rows_are_made_in_the_table_alone() -> None:
    kinds = {it.__name__ for it in (Code, SystemCode, LocalCode, ApplicationCode)}
    made = [
        f"{path}:{node.lineno}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in kinds
    ]
    assert made == []


def test_numbers_of_codes_stand_in_the_table_alone() -> None:
    """Bounds of bytes and milliseconds may have the same value; none of them is a code of the table."""
    found = [
        f"{path}:{node.lineno}: {node.value}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in NUMBERS
    ]
    assert found == []


def test_every_row_of_a_raised_code_is_used() -> None:
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load)
    }
    assert [row.name for row in ROWS if row.name not in used] == []


def test_texts_name_codes_of_the_table_only() -> None:
    """As "(8429)"."""
    named = {
        (path.relative_to(ROOT).as_posix(), int(number))
        for path in product()
        for group in re.findall(r"\((?:or )?(-?\d{4,5}(?:, -?\d{4,5})*)\)", path.read_text(encoding="utf-8"))
        for number in re.findall(r"\b(?:[89]\d{3}|50\d{3})\b", group)
    }
    raised = {abs(row.number) for row in ROWS}
    assert named
    assert {it for it in named if it[1] not in raised} == set()


def errors_made() -> Iterator[tuple[str, str, set[int], int]]:
    """Yield where an error is made, its class, the numbers that its text names, and its code."""
    kinds = {name: it for name, it in vars(errors).items() if isinstance(it, type) and issubclass(it, Exception)}
    for path, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) not in kinds:
                continue
            kind = kinds[ast.unparse(node.func)]
            text = "".join(it.value for it in ast.walk(node) if isinstance(it, ast.Constant) and type(it.value) is str)
            given = next((ast.unparse(it.value) for it in node.keywords if it.arg == "code"), "")
            row = vars(codes).get(given.rpartition(".")[2])
            code = row.number if isinstance(row, Code) else getattr(kind, "code", 0) * (not given)
            yield f"{path}:{node.lineno}", kind.__name__, {int(it) for it in re.findall(r"\((\d{4,5})\)", text)}, code


def test_the_text_of_an_error_names_its_code() -> None:
    found = list(errors_made())
    assert sum(bool(numbers) for _, _, numbers, _ in found) > 20
    # A code that a variable has (0 here) is told by the same variable in the text.
    assert [it for it in found if it[2] and it[3] and it[2] != {it[3]}] == []
    assert [it for it in found if it[2] and not it[3] and it[1] != "DialogEnded"] == []


def test_every_exception_has_a_code_of_the_table() -> None:
    kinds = [it for it in vars(errors).values() if isinstance(it, type) and issubclass(it, ConversationError)]
    assert {it.__name__: it.code for it in kinds if it.code and it.code not in NUMBERS} == {}
    assert DeclarationError("text", code=codes.TYPE_TWICE).code == codes.TYPE_TWICE.number
    assert DeclarationError("text").code == 0


# -- looking up ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [row for row in TABLE if isinstance(row, SystemCode)], ids=lambda row: row.name)
def test_an_error_of_a_peer_has_the_name_and_the_class_of_its_code(row: SystemCode) -> None:
    error = PeerError(row.number, "text")
    assert (error.code, error.name, error.error_class) == (row.number, row.name, row.error_class)


@pytest.mark.parametrize(
    ("number", "error_class"),
    [(-8999, ErrorClass.UNCLASSIFIED), (8489, ErrorClass.APPLICATION), (1, ErrorClass.APPLICATION)],
)
def test_an_error_of_a_peer_with_a_code_in_no_table_is_passed_on_unchanged(
    number: int, error_class: ErrorClass
) -> None:
    """A positive code is the application's, also if a local code has the same number."""
    error = PeerError(number, "what the peer said")
    assert (error.code, error.description) == (number, "what the peer said")
    assert (error.name, error.error_class) == ("", error_class)


def test_a_number_finds_its_system_code_and_its_local_code() -> None:
    assert rows_of(8459) == [codes.TOO_LARGE, codes.BODY_TOO_LARGE]
    assert rows_of(-8459) == [codes.TOO_LARGE]
    assert rows_of(8411) == [codes.LIFETIME_OUT_OF_RANGE]
    assert rows_of(-8411) == []


def test_the_nearest_codes_of_an_unknown_number_are_its_neighbours() -> None:
    assert [row.number for row in nearest(8409)] == [-8408, 8410]
    assert [row.number for row in nearest(-8409)] == [-8408, 8410]
    assert [row.number for row in nearest(1)] == [500]
    assert [row.number for row in nearest(10**9)] == [codes.COMMAND_MISPLACED.number]
    assert code_table.nearest(0)
