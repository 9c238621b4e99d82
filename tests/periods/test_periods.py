"""Every period is a setting. All periods can be shortened together, and no period may contradict another."""

import ast
from dataclasses import fields, replace
from pathlib import Path

import pytest

from conversations import Contract, WorkerSettings
from conversations.config import Periods
from conversations.durations import DAY, SECOND
from conversations.errors import DeclarationError
from conversations.kafka.topic_settings import TIMES, wanted
from conversations.protocol.contract import DEFAULT_LIFETIME
from conversations_ops.settings import given
from conversations_ops.settings.names import SETTINGS
from tests.periods import document, scan
from tests.periods.exceptions import EXCEPTIONS


def test_no_duration_was_left_out() -> None:
    """A new duration belongs in ``Periods``. The few other durations are in ``EXCEPTIONS``, with their reasons."""
    assert {(it.path, it.name): it.line for it in scan.durations() if (it.path, it.name) not in EXCEPTIONS} == {}


def test_no_exception_is_left_over() -> None:
    assert EXCEPTIONS.keys() - {(it.path, it.name) for it in scan.durations()} == set()


@pytest.mark.parametrize(
    "code",
    [
        "LOOK = timedelta(minutes=1)",
        "LOOK_EVERY = 30.0",
        'LOOK = 30.0\n"""Seconds between two looks."""',
        'LOOK = 20_000\n"""Milliseconds between two looks."""',
        "X = {'retention.ms': 7 * 24 * 3600 * 1000}",
        "X = {'session.timeout.ms': '45000'}",
        "def look(timeout: float = 60): ...",
        "look(timeout=60)",
        "thread.join(60)",
        "until = now + 86_400_000_000",
        "class A:\n    window: timedelta = timedelta(seconds=60)",
        "rows.withWatermark('at', '10 minutes')",
    ],
)
def test_a_duration_is_found_however_it_is_written(code: str) -> None:
    assert list(scan.durations_in(code, "x.py"))


@pytest.mark.parametrize("code", ["POLL_EVERY = 5.0", "LIMIT = 1_000", "timedelta(seconds=1)", "look(timeout=5)"])
def test_what_is_short_or_no_duration_is_not(code: str) -> None:
    assert not list(scan.durations_in(code, "x.py"))


def test_the_page_is_fresh() -> None:
    """To write the page again: ``python -m tests.periods.document``."""
    assert document.page() == Path(document.PAGE).read_text(encoding="utf-8")


def test_every_setting_is_read_by_the_product() -> None:
    """The periods of topics are named in the table ``TIMES``. Some code must read the attribute of every other setting."""
    tabled = {period for times in TIMES.values() for period in times.values()}
    read = set()
    for package in scan.PACKAGES:
        for path in (scan.ROOT / package).rglob("*.py"):
            if path.relative_to(scan.ROOT).as_posix() != scan.HOME and "testing" not in path.parts:
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                        read.add((ast.unparse(node.value).rpartition(".")[2].strip("_()").lower(), node.attr))
    owners = {"worker": {"settings"}, "brake": {"brake"}, "limits": {"limits"}, "periods": {"periods"}}
    unread = [
        it.name
        for it in SETTINGS.values()
        if it.field not in tabled and not any((o, it.field) in read for o in owners[it.group])
    ]
    assert unread == []


# -- together --------------------------------------------------------------------------------------------------------------


def test_all_are_shortened_in_one_proportion() -> None:
    whole, short = Periods(), Periods().scaled(1_000)
    for name in (it.name for it in fields(Periods)):
        assert getattr(short, name) * 1_000 == getattr(whole, name), name


@pytest.mark.parametrize("factor", [0, -1, float("nan"), 1e9])
def test_a_factor_that_leaves_nothing_is_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="divided by"):
        Periods().scaled(factor)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grace", 2 * DAY), ("inbox_kept", 1 * DAY), ("deletes_kept", 5 * SECOND), ("letter_life", 6 * DAY), ("tick_after", 60 * SECOND),
        ("spoken_known", 1 * DAY), ("blocked_last", 1 * SECOND), ("lifetime", 0),
    ],
)  # fmt: skip
def test_periods_that_contradict_each_other_are_refused(name: str, value: int) -> None:
    """With such periods, records would be deleted before their dialogs are over, and nothing would report the loss."""
    with pytest.raises(ValueError, match=name):
        replace(Periods(), **{name: value})


def test_settings_are_shortened_with_their_brake() -> None:
    whole = WorkerSettings()
    short = whole.scaled(60)
    assert short.periods == Periods().scaled(60)
    assert short.brake is not None
    assert whole.brake is not None
    assert short.brake.window * 60 == whole.brake.window
    assert replace(whole, brake=None).scaled(60).brake is None


# -- everywhere ------------------------------------------------------------------------------------------------------------


def test_topics_get_them() -> None:
    short = Periods().scaled(1_440)
    for kind in TIMES:
        for name, value in wanted(kind, periods=short).items():
            if name in TIMES[kind]:
                assert int(value) == int(wanted(kind)[name]) // 1_440, (kind, name)


def test_a_contract_that_names_no_lifetime_has_that_of_the_settings() -> None:
    assert Contract("C", sent_by_initiator=[int]).lives(5) == 5
    assert Contract("C", sent_by_initiator=[int], lifetime=DEFAULT_LIFETIME * 2).lives(5) == 2 * DAY
    assert Contract("C", sent_by_initiator=[int], lifetime=None).lives(5) is None


def test_processes_read_the_proportion_from_their_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(given.DIVIDED_BY, raising=False)
    assert given.periods() == Periods()
    monkeypatch.setenv(given.DIVIDED_BY, "720")
    assert given.periods() == Periods().scaled(720)


@pytest.mark.parametrize("said", ["fast", "0", "-3", "inf", "nan", "1e30"])
def test_an_environment_that_says_nonsense_is_told_so(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv(given.DIVIDED_BY, said)
    with pytest.raises(DeclarationError, match=given.DIVIDED_BY):
        given.periods()
