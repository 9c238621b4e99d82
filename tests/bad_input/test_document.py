"""The page about bad input says what the tests check."""

from tests.bad_input.document import PAGE, page


def test_the_tables_of_the_page_are_those_of_the_tests() -> None:
    """``python -m tests.bad_input.document`` writes them anew."""
    assert PAGE.read_text(encoding="utf-8") == page()
