"""Text from outside is shown, and does nothing: not in lines, tables and errors of commands, not in logs."""

import json
import logging
import sys

import pytest

from conversations_ops.cli.output import show, show_error
from conversations_ops.console.log_lines import JsonLines, TextLines, Warnings
from conversations_ops.console.times import moment
from conversations_ops.printable import json_line, lines, one_line, unstyled
from tests.hostile.support.texts import FORGED, HOSTILE, RAW, forged_in, raw_in


@pytest.mark.parametrize("raw", RAW, ids=[ascii(raw) for raw in RAW])
def test_nothing_that_is_not_printable_is_left_in_a_line(raw: str) -> None:
    assert one_line(f"a{raw}b").isprintable()
    assert not raw_in(lines(f"a{raw}b"))
    assert not raw_in(unstyled(f"a{raw}b"))


def test_what_people_write_is_left_alone() -> None:
    text = "Größe: 3 m², 東京 → «ok» [red] 50 % \\d+"
    assert (one_line(text), lines(text), unstyled(text)) == (text, text, text)


def test_lines_from_outside_never_begin_where_ours_do() -> None:
    assert lines("ours\ntheirs\n\ttheirs") == "ours\n    theirs\n    \ttheirs"
    assert not forged_in(lines(f"ours: {HOSTILE}"))


def test_a_json_line_is_ascii_and_says_the_same() -> None:
    line = json_line({"text": HOSTILE.replace("\udc9b", "")})
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == {"text": HOSTILE.replace("\udc9b", "")}


def test_an_error_from_outside_is_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    show_error(HOSTILE, "Some", as_json=False)
    written = capsys.readouterr().err
    assert not raw_in(written, styled=True)
    assert not forged_in(written)


def test_a_result_is_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    show({}, f"ours\n{one_line(HOSTILE)}\x1b[2J", as_json=False)
    show({"text": HOSTILE}, "", as_json=True)
    assert not raw_in(capsys.readouterr().out)


def test_a_time_nobody_can_name_stays_a_number() -> None:
    assert moment(10**30) == f"{10**30} us"
    assert moment(-(10**18)) == f"-{10**18} us"


# -- logs -----------------------------------------------------------------------------------------------------------


def record(message: str, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, None)
    return logging.LogRecord("conversations", logging.WARNING, "a.py", 1, message, arguments, info)


@pytest.mark.parametrize(
    "given",
    [
        record("%s", HOSTILE),
        record("the queue was turned off: %s", f"INC-1\n{FORGED}"),
        record("a handler failed", error=ValueError(HOSTILE)),
        record("both %s", HOSTILE, error=ValueError(HOSTILE)),
    ],
    ids=["message", "reason", "exception", "both"],
)
def test_no_line_of_a_text_log_is_forged_and_none_steers_a_terminal(given: logging.LogRecord) -> None:
    first, *further = TextLines("worker").format(given).split("\n")
    assert not raw_in(first)
    assert all(line.startswith("    ") and not raw_in(line) for line in further)


def test_a_traceback_stays_readable_in_a_text_log() -> None:
    try:
        raise KeyError("x")
    except KeyError:
        given = logging.LogRecord("conversations", logging.ERROR, "a.py", 1, "failed", (), sys.exc_info())
    written = TextLines("worker").format(given).split("\n")
    assert written[1] == "    Traceback (most recent call last):"
    assert written[-1] == "    KeyError: 'x'"


def test_a_json_log_line_is_one_line() -> None:
    line = JsonLines("worker").format(record("%s", HOSTILE, error=ValueError(HOSTILE)))
    assert line.isprintable()
    assert json.loads(line)["message"] == HOSTILE


def test_a_warning_of_a_command_is_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    Warnings().emit(record("left out: %s", HOSTILE))
    written = capsys.readouterr().err
    assert written.startswith("warning: left out: ")
    assert not raw_in(written)
    assert not forged_in(written)
