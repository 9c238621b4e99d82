"""Every code block of the README and of the pages of docs runs, and the command line accepts every command on them and in its own help."""

from __future__ import annotations

import inspect
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from conversations.errors import DeclarationError
from conversations_ops.cli.app import app
from conversations_ops.cli.spark import JOBS
from conversations_ops.settings.given import given
from tests.support.command_lines import check_command, parser_of_job
from tests.support.documents import ROOT, block, blocks, pages, with_words

HERE = "tests/architecture/test_code_blocks.py"
RUN_BY = {
    "README.md 1": f"{HERE}::test_the_first_example_runs",
    "README.md 4": "tests/acceptance/test_readme.py::test_the_readmes_service_and_client_on_kafka",
    "README.md 5": f"{HERE}::test_the_test_of_the_first_example_passes",
    "README.md 6": f"{HERE}::test_the_example_of_policies_runs",
    "README.md 9": f"{HERE}::test_the_example_of_an_upgrade_runs",
    "docs/other-languages.md 1": "tests/other_languages/test_page.py::test_the_lines_of_python_put_a_service_into_the_catalog",
    "docs/operations.md 14": f"{HERE}::test_the_example_of_logs_and_traces_runs",
    "docs/deployment.md 2": "tests/running/test_image.py::test_the_example_of_an_image_is_right",
    "docs/sealing.md 1": "tests/unit/test_seal_keys.py::test_the_examples_of_the_page_are_keys",
    "docs/sealing.md 2": "tests/unit/test_seal_keys.py::test_the_examples_of_the_page_are_keys",
    "docs/settings.md 1": f"{HERE}::test_the_settings_file_is_accepted",
    "docs/settings.md 2": f"{HERE}::test_slips_in_the_settings_file_are_named",
    "docs/spark.md 1": "tests/spark/test_examples.py::test_dialogs_are_read",
    "docs/spark.md 2": "tests/spark/test_examples.py::test_dialogs_of_the_demo_are_read",
    "docs/spark.md 4": "tests/spark/test_examples.py::test_an_archive_is_read",
    "docs/spark.md 6": "tests/spark/test_examples.py::test_rows_are_spoken",
    "docs/spark.md 7": "tests/spark/test_examples.py::test_rows_are_spoken",
}
"""The test that runs each block which is no list of commands."""
NOT_RUN = {
    "README.md 7": "a drawing",
    "docs/architecture.md 1": "a drawing",
    "docs/architecture.md 2": "a drawing",
    "docs/deployment.md 1": "commands of Docker: there is no engine here",
    "docs/deployment.md 3": "commands of Docker: there is no engine here; tests/running/test_compose.py knows the profiles",
    "docs/protocol.md 1": "a drawing; test_docs.py compares it with the transition table",
    "docs/two-clusters.md 1": "a drawing",
    "docs/spark.md 8": "commands of Spark for a cluster: there is no cluster here",
}
"""The blocks that no test runs, and the reasons."""
NO_COMMAND = {"conversations spark JOB": "JOB stands for the name of any job"}
"""Words in the text that look like a command and are none, and the reasons."""
PROGRAMS = ("conversations", "make", "export")
"""Programs whose commands may be on a page. ``export`` sets a variable."""


# -- every block has its test ------------------------------------------------------------------------------------------


def is_commands(text: str) -> bool:
    """Return True if the block is a list of commands."""
    return all(line.split(maxsplit=1)[0] in PROGRAMS for line in text.splitlines())


def test_each_block_is_run_or_has_a_reason() -> None:
    others = {it.place for it in blocks() if not is_commands(it.text)}
    assert others == RUN_BY.keys() | NOT_RUN.keys()
    assert not RUN_BY.keys() & NOT_RUN.keys()
    python = {it.place for it in blocks() if it.language == "python"}
    assert not python & NOT_RUN.keys(), "Python always runs"


def test_each_test_that_is_named_names_its_block() -> None:
    for place, test in RUN_BY.items():
        file, _, name = test.partition("::")
        (body,) = re.findall(rf"^def {name}\(.*?(?=^def |\Z)", (ROOT / file).read_text(), re.MULTILINE | re.DOTALL)
        assert f'block("{place}")' in body, test


# -- Python ------------------------------------------------------------------------------------------------------------


def run(folder: Path, *command: str) -> str:
    """Run a Python command in a folder and return what it prints."""
    result = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def executed(text: str, given: str) -> dict[str, Any]:
    """Run a part of a program after ``given``, the lines before it that the page leaves out. Return the names it defines."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(given, "<what the page leaves out>", "exec"), names)
    exec(compile(text, "<the block>", "exec"), names)
    return names


def test_the_first_example_runs(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(block("README.md 1"))
    assert run(tmp_path, "hello.py") == "Hello, Ada\n"


def test_the_test_of_the_first_example_passes(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(block("README.md 1"))
    (tmp_path / "test_hello.py").write_text(block("README.md 5"))
    assert "1 passed" in run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_hello.py")


POLICIES = """
from datetime import timedelta
from pydantic import BaseModel
from conversations import Contract, PoisonPolicy, Service, Then

class CheckCredit(BaseModel):
    amount: int
class UnknownCustomer(Exception):
    pass

ORDERS = Contract("Orders", sent_by_initiator=[CheckCredit])
"""


def test_the_example_of_policies_runs() -> None:
    orders = executed(block("README.md 6"), POLICIES)["orders"]
    assert [(len(it.delays), it.then.name) for it in orders.poison][:2] == [(0, "END_DIALOG"), (3, "HOLD")]


TRACED = """
from conversations import Service

orders = Service("orders")
"""


def test_the_example_of_logs_and_traces_runs() -> None:
    """``trace`` needs only the API of OpenTelemetry. The example adds a handler to the root logger, which the test takes away again."""
    root = logging.getLogger()
    before = list(root.handlers)
    try:
        names = executed(block("docs/operations.md 14"), TRACED)
        (added,) = [it for it in root.handlers if it not in before]
        record = logging.makeLogRecord({"msg": "said"})
        assert added.filter(record)
        assert added.format(record).endswith(" [] said")
    finally:
        root.handlers[:] = before
    assert names["orders"].tracing is not None


UPGRADE = """
from typing import Any
from pydantic import BaseModel
from conversations import Service, message_type

orders = Service("orders")
"""


def test_the_example_of_an_upgrade_runs() -> None:
    names = executed(block("README.md 9"), UPGRADE)
    old = {"item": "pen"}
    assert names["Order"].model_validate(names["with_currency"](old)).currency == "EUR"


# -- settings ----------------------------------------------------------------------------------------------------------


def settings_of(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the settings of a file with this text, as a command reads them."""
    (folder / "shop.settings").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CONVERSATIONS_SETTINGS", "shop.settings")
    found = given([])
    found.check_clients()
    found.worker_settings()
    return {line.name: line.value for line in (*found.product, *found.clients)}


def test_the_settings_file_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = block("docs/settings.md 1")
    assert len(settings_of(text, tmp_path, monkeypatch)) == len(text.splitlines()) - 1, "all lines but the comment"


def test_slips_in_the_settings_file_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The errors of the page are the errors of its file with a slip."""
    told = []
    for slip in ({"body_bytes": "body_bites"}, {"2 d": "172800"}):
        with pytest.raises(DeclarationError) as raised:
            settings_of(with_words(block("docs/settings.md 1"), slip), tmp_path, monkeypatch)
        told.append(f"{raised.value}\n")
    assert "".join(told) == block("docs/settings.md 2")


# -- commands ----------------------------------------------------------------------------------------------------------


def lines_of_blocks() -> Iterator[tuple[str, str]]:
    """Yield the lines of all blocks of commands, each with the place of its block."""
    for it in blocks():
        if is_commands(it.text):
            yield from ((it.place, line) for line in it.text.splitlines())


def commands_in_text() -> Iterator[tuple[str, str]]:
    """Yield the commands between backticks in the text of all pages, each with its page."""
    for page in pages():
        prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for found in re.findall(r"`(conversations\s[^`]+)`", prose):
            yield page.name, " ".join(found.split())


def commands_in_help(group: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the examples in the help of all commands of a group, each with the command whose help it is."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_in_help(command, f"{path} {name}")
        for line in inspect.cleandoc(command.help or "").splitlines():
            if line.strip().startswith("conversations "):
                yield f"{path} {name} --help", line.strip()


def commands_in_help_of_jobs() -> Iterator[tuple[str, str]]:
    """Yield the examples in the help of the Spark jobs."""
    for job in JOBS:
        for line in parser_of_job(job).epilog.splitlines():
            if line.strip().startswith("conversations "):
                yield f"conversations spark {job} --help", line.strip()


def refused(commands: Iterator[tuple[str, str]], *, complete: bool) -> list[str]:
    """Return a line for each command that the command line does not accept."""
    found = []
    for place, line in commands:
        if line in NO_COMMAND:
            continue
        try:
            check_command(line, complete=complete)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the page is wrong
            found.append(f"{place}: {line}: {error}")
    return found


def test_the_commands_of_blocks_are_accepted() -> None:
    lines = [(place, line) for place, line in lines_of_blocks() if line.startswith("conversations ")]
    assert len(lines) > 15
    assert refused(iter(lines), complete=True) == []


def test_the_commands_in_texts_are_accepted() -> None:
    lines = list(commands_in_text())
    assert len(lines) > 15
    assert refused(iter(lines), complete=False) == []
    assert NO_COMMAND.keys() <= {line for _, line in lines}, "an exception that is none any more"


def test_the_examples_of_the_help_are_accepted() -> None:
    lines = [*commands_in_help(typer.main.get_command(app), "conversations"), *commands_in_help_of_jobs()]
    assert len(lines) > 30
    assert refused(iter(lines), complete=True) == []


def test_the_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = {line.split()[1] for _, line in lines_of_blocks() if line.startswith("make ")}
    named |= {it for page in pages() for it in re.findall(r"`make ([\w-]+)`", page.read_text())}
    assert len(named) > 5
    assert [it for it in sorted(named) if not re.search(rf"^{it}:", makefile, re.MULTILINE)] == []


@pytest.mark.parametrize(
    "wrong",
    [
        "conversations dead-leters list", "conversations dead-letters lst", "conversations dead-letters list --by nothing",
        "conversations dead-letters list --overr", "conversations dead-letters retry", "conversations queue show --al",
        "conversations spark archive /data --compcat", "conversations spark archive", "conversations spark nothing",
    ],
)  # fmt: skip
def test_wrong_commands_are_found(wrong: str) -> None:
    """The check of this module refuses unknown commands, options and values, and missing arguments."""
    assert refused(iter([("here", wrong)]), complete=True)
