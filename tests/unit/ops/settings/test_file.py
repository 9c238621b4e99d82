"""Settings from a file, for every command and every job."""

import json
import re
from argparse import Namespace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from conversations.config import Periods
from conversations.durations import DAY
from conversations.errors import DeclarationError
from conversations_ops.cli import app as top
from conversations_ops.cli import kafka_options
from conversations_ops.settings.file import VARIABLE
from conversations_ops.settings.given import differences, given, periods
from spark_jobs.running import command_line

PAGE = Path(__file__).resolve().parents[4] / "docs" / "settings.md"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "shop.settings"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def context(*settings: str) -> typer.Context:
    """The context of a command that was given these settings."""
    options = kafka_options.Options("k:1", "ns", settings=list(settings))
    return typer.Context(typer.main.get_command(top.app), obj=options)


def test_its_lines_are_settings_and_an_option_counts_more(file: Path) -> None:
    file.write_text("# of staging\n\nsasl.password = a=b\nsasl.username=u\n")
    wanted = {"sasl.password": "a=b", "sasl.username": "me"}
    assert kafka_options.kafka_of(context("sasl.username=me")).settings == wanted
    options = Namespace(bootstrap="k:1", namespace="ns", setting=[("sasl.username", "me")])
    assert command_line.kafka_of(options).settings == wanted


def test_librdkafka_sees_nothing_of_the_products_settings(file: Path) -> None:
    file.write_text("client.id=shop\nworker.batch=7\nperiods.lifetime=2 d\n")
    assert kafka_options.kafka_of(context()).settings == {"client.id": "shop"}


def test_periods_of_the_file_are_those_of_every_command_and_job(file: Path) -> None:
    assert Periods().lifetime != 2 * DAY
    file.write_text("periods.lifetime=2 d\n")
    assert periods().lifetime == 2 * DAY


def test_without_the_variable_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert given() == ((), ())


def test_the_option_stands_for_the_variable_and_counts_more(file: Path, tmp_path: Path) -> None:
    file.write_text("worker.batch=1\n")
    other = tmp_path / "other"
    other.write_text("worker.batch=2\n")

    def batch(*arguments: str) -> str:
        done = CliRunner().invoke(top.app, [*arguments, "--json"])
        return str(json.loads(done.stdout)["worker.batch"]["value"])

    assert batch("settings") == "1"
    assert batch("settings", "--settings", str(other)) == batch("--settings", str(other), "settings") == "2"
    assert batch("settings") == "1", "the environment is as it was"


def test_a_setting_of_workers_is_no_option_of_a_command_without_workers() -> None:
    with pytest.raises(
        typer.BadParameter, match=rf"--setting periods.lifetime: give it in a file that {VARIABLE} names"
    ):
        kafka_options.kafka_of(context("periods.lifetime=2d"))
    options = Namespace(bootstrap="k:1", namespace="ns", setting=[("periods.lifetime", "2d")])
    with pytest.raises(DeclarationError, match=r"--setting periods.lifetime"):
        command_line.kafka_of(options)


def test_a_line_that_is_none_is_named_by_its_number_and_not_shown(file: Path) -> None:
    file.write_text("sasl.username=u\nsecret\n")
    with pytest.raises(DeclarationError, match=r"line 2 of .* is not NAME=VALUE") as failure:
        given()
    assert "secret" not in str(failure.value)
    with pytest.raises(typer.BadParameter, match="line 2 of"):
        kafka_options.kafka_of(context())


def test_the_page_shows_a_file_and_errors_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example, errors = re.findall(r"^```\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "shop.settings")
    path = tmp_path / "shop.settings"
    path.write_text(example)
    path.chmod(0o600)
    found = given()
    found.check_clients()
    assert differences(found.worker_settings()).keys() == {line.name for line in found.product}
    unknown, without_unit = errors.splitlines()
    for old, new, error in [("body_bytes", "body_bites", unknown), ("2 d", "172800", without_unit)]:
        path.write_text(example.replace(old, new))
        with pytest.raises(DeclarationError) as caught:
            given()
        assert str(caught.value) == error


def test_a_file_that_is_not_there_is_said(file: Path) -> None:
    with pytest.raises(DeclarationError, match=f"{file} cannot be read"):
        given()
