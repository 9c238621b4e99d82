"""``conversations check`` and the faces of ``run`` and ``apply`` that need no Kafka."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conversations_ops.cli.app import app

SERVICES = Path(__file__).parents[2] / "acceptance" / "services"


@pytest.fixture(autouse=True)
def services(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SERVICES)
    monkeypatch.syspath_prepend(SERVICES)
    monkeypatch.delenv("CONVERSATIONS_BOOTSTRAP", raising=False)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_a_complete_service_is_printed_with_what_it_accepts_and_who_handles_it() -> None:
    code, out, _ = run("check", "counting:sink", "counting:source")
    assert code == 0
    for part in ("sink: complete", "accepts Counting", "sends     Echo", "def echo, at most 60 s", "async def finish"):
        assert part in out
    assert "source: complete\n  initiates Counting" in out


def test_the_same_as_json() -> None:
    code, out, _ = run("check", "counting:sink", "--json")
    assert code == 0
    (found,) = json.loads(out)["services"]
    assert found["accepts"] == [
        {
            "contract": "Counting",
            "sends": ["Echo"],
            "receives": {
                "Number": {"handler": "echo", "async": False, "time_limit_seconds": 60.0},
                "Total": {"handler": "finish", "async": True, "time_limit_seconds": 60.0},
            },
            "events": {},
        }
    ]
    assert found["state_version"] == 1


def test_a_gap_is_2_and_named_as_text_or_json() -> None:
    code, _, err = run("check", "various:incomplete")
    assert code == 2
    assert "Note (contract Notes, sent by the initiator)" in err
    code, out, _ = run("check", "various:incomplete", "--json")
    assert code == 2
    assert json.loads(out)["kind"] == "DeclarationError"


@pytest.mark.parametrize(
    ("target", "way_out"),
    [("various:misspelt", "It may receive: Note"), ("various:ignorant", "register one with @service.on(...)")],
)
def test_a_policy_that_can_never_be_applied_is_2_and_says_what_to_do(target: str, way_out: str) -> None:
    code, _, err = run("check", target)
    assert code == 2
    assert "poison policy 1" in err
    assert way_out in err


def test_an_incomplete_service_gets_no_topics() -> None:
    code, _, err = run("apply", "various:incomplete", "--bootstrap", "127.0.0.1:1")
    assert code == 2
    assert "Note" in err


def test_a_target_that_is_not_there_is_2() -> None:
    code, _, err = run("check", "nowhere:service")
    assert code == 2
    assert "module:attribute" in err


@pytest.mark.parametrize("command", ["run", "apply"])
def test_without_an_address_the_command_says_how_to_give_one(command: str) -> None:
    code, _, err = run(command, "counting:sink")
    assert code == 2
    assert "CONVERSATIONS_BOOTSTRAP" in err


@pytest.mark.parametrize("command", ["run", "check", "apply"])
def test_every_help_teaches_with_examples_and_tells_the_exit_codes(command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"conversations {command} shop.orders:service" in out
    assert "Exit codes" in out


def test_the_version_is_printed() -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("kafka-dialogs ")
