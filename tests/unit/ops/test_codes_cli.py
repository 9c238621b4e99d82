"""``conversations codes``: a list for people and pipes, and one code explained."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from conversations.protocol.code_table import TABLE
from conversations_ops.cli.app import app


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["codes", *arguments])
    return result.exit_code, result.stdout, result.stderr


def found(*arguments: str) -> list[dict[str, Any]]:
    code, out, _ = run(*arguments, "--json")
    assert code == 0
    (line,) = out.splitlines()
    rows: list[dict[str, Any]] = json.loads(line)["codes"]
    return rows


def test_behind_a_pipe_each_code_is_one_line_of_cells() -> None:
    code, out, _ = run()
    head, *lines = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert head[:3] == ["code", "name", "class"]
    assert {len(line) for line in lines} == {len(head)}
    assert [(int(it[0]), it[1], it[2]) for it in lines] == [(row.number, row.name, row.error_class) for row in TABLE]


def test_the_list_says_what_is_raised() -> None:
    raised = {row["code"]: (row["raised"], row["comes"] is None) for row in found()}
    assert raised[-8408] == ("yes", True)
    assert raised[-8425] == ("never", False)
    assert raised[-8495] == ("later", False)


@pytest.mark.parametrize("number", ["-8459", "8489", "-8489"])
def test_one_code_is_explained(number: str) -> None:
    code, out, _ = run(number)
    told = dict(line.split("\t") for line in out.split("\n\n")[0].splitlines())
    (row,) = [it for it in TABLE if it.number == -abs(int(number))]
    assert code == 0
    assert told == {
        "code": str(row.number), "name": row.name, "class": row.error_class, "detected by": row.detected_by, "told": row.told,
        "raised": "yes", "text": row.text, "what to do": row.to_do,
    }  # fmt: skip


def test_a_number_without_a_sign_is_every_code_with_this_number() -> None:
    assert [row["code"] for row in found("8459")] == [-8459, 8459]
    assert [row["code"] for row in found("-8459")] == [-8459]
    assert [row["code"] for row in found("50001")] == [50001]


def test_an_absent_code_says_what_will_bring_it() -> None:
    code, out, _ = run("-8495")
    assert code == 0
    assert "\ncomes\twhen dialogs cross clusters" in out


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("8409", "-8408 (CONTRACT_NOT_ACCEPTED) and 8410 (TIMER_BEYOND_LIFETIME)"), ("-9999", "-9720 (REMOTE_RESTORED)"),
        ("1404", "ask the application"), ("abc", "is not the number of a code"), ("--8489", "is not the number of a code"),
        ("9" * 5000, "is not the number of a code"), ("²", "is not the number of a code"),
    ],
)  # fmt: skip
def test_an_unknown_number_is_an_error_that_names_the_nearest(number: str, said: str) -> None:
    code, out, err = run(number)
    assert (code, out) == (2, "")
    assert said in err
    code, out, _ = run(number, "--json")
    assert code == 2
    assert said in json.loads(out)["error"]
