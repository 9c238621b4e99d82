"""``conversations broker``: texts, JSON and exit codes, in a cache without any broker."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conversations_ops.broker import named
from conversations_ops.broker.errors import PortTaken
from conversations_ops.broker.named import Record, held, is_held
from conversations_ops.cli.app import app

RECORD = Record("one", 1, "127.0.0.1:1", "/data", "/log", kept=True, started_at=0.0)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVERSATIONS_CACHE", str(tmp_path))


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_no_broker_is_exit_3_with_the_command_that_starts_one() -> None:
    code, out, _ = run("broker", "status")
    assert code == 3
    assert "conversations broker start" in out
    assert "--name two" in run("broker", "status", "two")[1]


def test_a_record_whose_process_is_gone_is_a_crashed_broker() -> None:
    named.write(RECORD)
    code, out, _ = run("broker", "status", "--json")
    assert code == 3
    assert json.loads(out)["brokers"][0]["state"] == "crashed"
    assert run("broker", "stop", "one")[0] == 1
    assert named.find_all() == []


def test_errors_are_one_line_on_stderr_or_json_on_stdout_and_exit_1() -> None:
    code, out, err = run("broker", "stop", "two")
    assert (code, out) == (1, "")
    assert err.startswith("error: No broker named 'two' is running")
    code, out, _ = run("broker", "stop", "two", "--json")
    assert code == 1
    assert json.loads(out)["kind"] == "NotRunning"


def test_a_start_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*_: object) -> Record:
        raise PortTaken("Port 9 is taken", log_path=Path("/some/broker.log"))

    monkeypatch.setattr(named, "start_detached", taken)
    code, _, err = run("broker", "start", "--port", "9")
    assert code == 1
    assert "Port 9 is taken" in err
    assert "/some/broker.log" in err


def test_a_start_prints_the_address_and_how_to_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "start_detached", lambda *_: RECORD)
    code, out, _ = run("broker", "start", "--name", "one", "--data", "/data")
    assert code == 0
    for part in ("127.0.0.1:1", "/data", "/log", "conversations broker stop one"):
        assert part in out
    assert json.loads(run("broker", "start", "--json")[1])["bootstrap"] == RECORD.bootstrap


@pytest.mark.parametrize("arguments", [("--port", "0"), ("--port", "x"), ("--nonsense",)])
def test_wrong_usage_is_exit_2(arguments: tuple[str, ...]) -> None:
    assert run("broker", "start", *arguments)[0] == 2


def test_a_name_that_is_no_file_name_is_refused() -> None:
    code, _, err = run("broker", "start", "--name", "../x")
    assert code == 1
    assert "letters, digits" in err


@pytest.mark.parametrize("command", [(), ("broker",), ("broker", "start"), ("broker", "stop"), ("broker", "status")])
def test_every_help_tells_the_exit_codes(command: tuple[str, ...]) -> None:
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert "Exit codes" in out


def test_a_name_is_held_by_one_process_at_a_time() -> None:
    assert not is_held("one")
    with held("one"):
        assert is_held("one")
    assert not is_held("one")
