"""The tables in docs/bad-input.md agree with the rows of the tests."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.bad_input import commands, test_callers, test_handlers, wire
from tests.bad_input.document import PAGE, page


def test_the_tables_of_the_page_are_those_of_the_tests() -> None:
    """``python -m tests.bad_input.document`` writes the tables again."""
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("module", [wire, commands, test_callers, test_handlers], ids=lambda module: module.__name__)
def test_every_row_of_a_table_has_a_name_of_its_own(module: Any) -> None:
    rows: Sequence[Any] = module.ROWS
    names = [row.what for row in rows]
    assert sorted(names) == sorted(set(names))
