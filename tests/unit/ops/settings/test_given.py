"""What was given, by whom, and what is in effect."""

from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conversations import Brake, Limits, WorkerSettings
from conversations.config import Periods
from conversations.durations import DAY, HOUR
from conversations.errors import DeclarationError
from conversations_ops.cli import app as top
from conversations_ops.settings.file import VARIABLE
from conversations_ops.settings.given import differences, given
from conversations_ops.settings.names import GROUPS, SETTINGS, nearest


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "shop.settings"
    path.write_text("")
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_every_field_of_every_group_is_a_setting() -> None:
    """But what is a group itself, and the slot, which `--slot` names."""
    declared = {f"{group}.{it.name}" for group, settings in GROUPS.items() for it in fields(settings)}
    assert declared - SETTINGS.keys() == {"worker.limits", "worker.periods", "worker.slot"}
    assert all(it.meaning for it in SETTINGS.values())


def test_an_option_counts_more_than_the_file_and_the_file_more_than_the_target(file: Path) -> None:
    file.write_text("worker.batch=2\nworker.step=2s\nlimits.held_messages=2\nperiods.lifetime=2 d\n")
    own = WorkerSettings(
        concurrency=1, batch=1, step=timedelta(seconds=1), limits=Limits(held_messages=1, held_bytes=1)
    )
    found = given(["worker.batch=3", "brake.dialogs=3"]).worker_settings(own)
    limits = Limits(held_messages=2, held_bytes=1)
    periods = replace(Periods(), lifetime=2 * DAY)
    assert found == WorkerSettings(
        concurrency=1, batch=3, step=timedelta(seconds=2), limits=limits, periods=periods, brake=Brake(dialogs=3)
    )


def test_nothing_given_changes_nothing() -> None:
    own = WorkerSettings(concurrency=1, brake=None)
    assert given().worker_settings(own) == own
    assert given().worker_settings() == WorkerSettings()


def test_the_brake_is_off_or_on_or_set() -> None:
    without = WorkerSettings(brake=None)
    assert given(["worker.brake=off"]).worker_settings().brake is None
    assert given(["worker.brake=on"]).worker_settings(without).brake == Brake()
    assert given(["brake.dialogs=7"]).worker_settings(without).brake == Brake(dialogs=7)
    with pytest.raises(DeclarationError, match=r"--setting: worker.brake.*--setting: brake.dialogs.*have no effect"):
        given(["worker.brake=off", "brake.dialogs=7"]).worker_settings()


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("limits.body_bites=1", ["limits.body_bytes"]), ("period.lifetime=1 d", ["periods.lifetime"]),
        ("concurrency=4", ["worker.concurrency"]), ("worker.slot=a", ["nearest", "worker.s"]),
        ("brake.windows=1 s", ["brake.window"]), ("Worker.batch=5", ["worker.batch"]),
        ("worker.step=5", ["worker.step=5", "a time has a unit"]), ("limits.body_bytes=many", ["limits.body_bytes=many", "64 MB"]),
        ("session.timeout.ms=45 s", ["session.timeout.ms", "milliseconds"]), ("fetch.max.bytes=1 MB", ["bytes without a unit"]),
    ],
)  # fmt: skip
def test_an_error_names_file_line_name_and_the_right_one(file: Path, line: str, parts: list[str]) -> None:
    file.write_text(f"# ours\n{line}\n")
    with pytest.raises(DeclarationError) as caught:
        given()
    text = str(caught.value)
    assert not [part for part in [str(file), "line 2", line.partition("=")[0], *parts] if part not in text], text


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("sasl.pasword=hush", ["sasl.pasword", "No such configuration", "the nearest name is sasl.password"]),
        ("security.protocol=TLS", ["security.protocol", "TLS"]),
    ],
)
def test_so_does_what_librdkafka_refuses_before_a_process_starts(file: Path, line: str, parts: list[str]) -> None:
    file.write_text(f"client.id=x\n{line}\n")
    done = CliRunner().invoke(top.app, ["run", "a:b", "--bootstrap", "k:1"], env={"COLUMNS": "1000", "TERM": "dumb"})
    assert done.exit_code == 2
    text = " ".join(done.output.replace("│", " ").split())
    assert not [part for part in ["line 2", *parts] if part not in text], text
    assert "hush" not in text


@pytest.mark.parametrize(
    "name",
    ["sasl.password", "ssl.ca.location", "client.id", "debug", "log_level", "retries", "acks", "batch.size", "linger.ms",
     "batch.num.messages", "message.max.bytes", "fetch.wait.max.ms", "group.id", "broker.address.family", "max.in.flight",
     "statistics.interval.ms", "topic.metadata.refresh.interval.ms", "compression.codec", "client.rack"],
)  # fmt: skip
def test_no_setting_of_librdkafka_is_taken_for_a_misspelling_of_ours(name: str) -> None:
    assert nearest(name) is None


def test_what_contradicts_itself_is_told_with_its_places(file: Path) -> None:
    file.write_text("\nperiods.inbox_kept=1 h\n")
    with pytest.raises(DeclarationError, match=rf"{file}, line 2: periods.inbox_kept: inbox_kept must be more than"):
        given().worker_settings()
    file.write_text("")
    with pytest.raises(DeclarationError, match=r"--setting: limits.body_bytes: body_bytes is at most"):
        given(["limits.body_bytes=200 MB", "worker.batch=1"]).worker_settings()
    with pytest.raises(DeclarationError, match=r"--setting: brake.dialogs: a brake: dialogs is from 1"):
        given(["brake.dialogs=1_000_000"]).worker_settings()


def test_differences_are_told_as_people_write_them() -> None:
    assert differences(WorkerSettings()) == {}
    changed = WorkerSettings(
        step=timedelta(seconds=90),
        rollbacks=None,
        brake=None,
        periods=replace(Periods(), grace=HOUR // 2, tick_after=2 * HOUR),
    )
    assert differences(changed) == {
        "worker.step": ("90 s", "1 s"),
        "worker.rollbacks": ("never", "5"),
        "worker.brake": ("off", "on"),
        "periods.grace": ("30 min", "10 min"),
        "periods.tick_after": ("2 h", "1 h"),
    }


def test_the_list_of_all_settings_is_a_file_that_says_the_same(file: Path) -> None:
    file.write_text("worker.batch=7\nperiods.lifetime=2 d\n")
    listed = CliRunner().invoke(top.app, ["settings"]).stdout
    file.write_text(listed)
    assert differences(given().worker_settings()) == {"worker.batch": ("7", "5000"), "periods.lifetime": ("2 d", "1 d")}
    assert CliRunner().invoke(top.app, ["settings"]).stdout == listed
    file.write_text("worker.brake=off")
    file.write_text(CliRunner().invoke(top.app, ["settings"]).stdout)
    assert given().worker_settings() == WorkerSettings(brake=None)
