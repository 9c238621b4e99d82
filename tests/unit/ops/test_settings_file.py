"""Settings from a file, for every command and every job."""

from argparse import Namespace
from pathlib import Path

import pytest
import typer

from conversations.errors import DeclarationError
from conversations_ops.cli import app as top
from conversations_ops.cli import kafka_options
from conversations_ops.settings_file import VARIABLE, settings_of_file
from spark_jobs.running import command_line


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kafka.properties"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def context(*settings: str) -> typer.Context:
    """The context of a command that was given these settings."""
    given = kafka_options.Given("k:1", "ns", list(settings))
    return typer.Context(typer.main.get_command(top.app), obj=given)


def test_its_lines_are_settings_and_an_option_counts_more(file: Path) -> None:
    file.write_text("# of staging\n\nsasl.password = a=b\nsasl.username=u\n")
    wanted = {"sasl.password": "a=b", "sasl.username": "me"}
    assert kafka_options.kafka_of(context("sasl.username=me")).settings == wanted
    options = Namespace(bootstrap="k:1", namespace="ns", setting=[("sasl.username", "me")])
    assert command_line.kafka_of(options).settings == wanted


def test_without_the_variable_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert settings_of_file() == {}


def test_a_line_that_is_none_is_named_by_its_number_and_not_shown(file: Path) -> None:
    file.write_text("sasl.username=u\nsecret\n")
    with pytest.raises(DeclarationError, match=r"line 2 of .* is not NAME=VALUE") as failure:
        settings_of_file()
    assert "secret" not in str(failure.value)
    with pytest.raises(typer.BadParameter, match="line 2 of"):
        kafka_options.kafka_of(context())


def test_a_file_that_is_not_there_is_said(file: Path) -> None:
    with pytest.raises(DeclarationError, match=f"{VARIABLE}: {file} cannot be read"):
        settings_of_file()
