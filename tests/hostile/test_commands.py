"""Every command of operators, among records that somebody wrote to hurt them: it ends in order, and shows text only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from conversations_ops.cli.app import app
from tests.hostile.support.planted_rows import REDRIVE, Planted
from tests.hostile.support.texts import forged_in, raw_in

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
WHY = ("--reason", "INC-1")
HERE = Path(__file__).parent

ELSEWHERE = {
    "run": "no result but its log: test_text",
    "forward": "needs a second cluster: tests/acceptance/test_two_clusters.py",
    "demo": "its own broker, and data that comes with the package",
    "broker start": "no Kafka of anybody's",
    "broker stop": "no Kafka of anybody's",
    "spark archive": "tests/spark",
    "spark dialog-metrics": "tests/spark",
    "spark dead-letter-triage": "tests/spark",
    "spark stuck-dialogs": "tests/spark",
    "spark delivery-audit": "tests/spark",
    "spark redrive": "tests/spark",
    "spark speak": "tests/spark",
    "console": "tests/hostile/test_pages.py, tests/acceptance/test_console.py",
}
"""Commands that are not called here, and why."""


OFFLINE = {"version", "users list", "users add", "users remove"}
"""Commands that need no Kafka."""
WITHOUT_JSON = {"users add", "users remove"}


def calls(planted: Planted, out: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield what to call, and how it must end."""
    letter, over = planted.letter, planted.over
    yield 1, ("dead-letters", "list")
    for by in ("exception", "type", "contract", "peer", "service"):
        yield 1, ("dead-letters", "list", "--by", by)
    yield 1, ("dead-letters", "list", "--detached")
    yield 1, ("dead-letters", "list", "desk", "--detached")
    yield 0, ("dead-letters", "show", letter)
    yield 2, ("dead-letters", "show", f"{letter}\x1b[31m\nerror: forged")
    for decision in ("retry", "skip", "end"):
        yield 0, ("dead-letters", decision, letter, "--dry-run")
    yield 2, ("dead-letters", "edit", letter, "--body", str(HERE / "support" / "texts.py"), "--dry-run")
    (out / "body.json").write_text("{}")
    yield 0, ("dead-letters", "edit", letter, "--body", str(out / "body.json"), "--dry-run")
    yield 1, ("dead-letters", "retry", letter, *WHY, "--wait", "0.5")
    yield 0, ("dead-letters", "discard", over, "--dry-run")
    yield 1, ("dead-letters", "discard", over, *WHY, "--wait", "0.5")
    yield 0, ("dead-letters", "resubmit", over, "--dry-run")
    yield 1, ("dead-letters", "resubmit", over, *WHY, "--wait", "0.5")
    yield from dialog_calls(str(planted.dialog), str(planted.odd))
    yield 0, ("retries", "list")
    yield 1, ("status",)
    yield 1, ("why", str(planted.dialog))
    yield 2, ("why", "\x1b[31m\nerror: forged")
    yield from sending_calls(str(planted.odd))
    yield from doctor_calls(planted)
    yield 0, ("events",)
    yield 2, ("events", "--service", "\x1b[31m\nerror: forged")
    yield from route_calls(planted)
    yield 1, ("queue", "show")
    yield 2, ("queue", "show", "\x1b[31m\nerror: forged")
    yield 0, ("queue", "off", "desk", "--dry-run")
    yield 1, ("queue", "off", "desk", *WHY, "--wait", "0.5")
    yield 1, ("queue", "on", "desk", *WHY, "--wait", "0.5")
    yield from redrive_calls(planted, out)
    yield 0, ("check", "tests.hostile.test_commands:desk", "--catalog")
    yield 0, ("check", "tests.acceptance.services.fragile:asker")
    yield 0, ("apply", "tests.hostile.test_commands:desk", "--partitions", "1")
    yield 2, ("apply", "tests.hostile.test_commands:desk", "--despite", "\x1b[31m\nerror: forged")
    yield 0, ("codes",)
    yield 2, ("codes", "\x1b[31m\nerror: forged")
    yield 0, ("acl", "tests.hostile.test_commands:desk")
    yield 2, ("acl", "tests.hostile.test_commands:desk", "--role", "\x1b[31m\nerror: forged")
    yield 0, ("settings",)
    yield 2, ("settings", "--setting", "\x1b[31m\nerror: forged=1")
    yield 3, ("broker", "status", "nobody")
    yield 0, ("version",)
    yield from other_calls(out)


def route_calls(planted: Planted) -> Iterator[tuple[int, tuple[str, ...]]]:
    yield 0, ("route", "list")
    yield 2, ("route", "add", "desk", "--cluster", "emea", "--at", "127.0.0.1:1")
    yield 2, ("route", "add", "far", "--cluster", "\x1b[31m\nerror: forged", "--at", "127.0.0.1:1")
    yield 2, ("route", "remove", "\x1b[31m\nerror: forged")
    yield 0, ("transmission", "list")
    yield 2, ("transmission", "list", "--service", "\x1b[31m\nerror: forged")
    yield 0, ("transmission", "list", "--dialog", str(planted.odd))


def redrive_calls(planted: Planted, out: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    yield 0, ("redrive", "plan", "--out", str(out / "plan.json"))
    yield 0, ("redrive", "start", str(out / "plan.json"), "--dry-run")
    yield 0, ("redrive", "show", str(out / "plan.json"))
    yield 2, ("redrive", "resume", str(out / "plan.json"), *WHY)
    yield 2, ("redrive", "start", "\x1b[31m\nerror: forged", *WHY)
    yield 1, ("dead-letters", "groups")
    yield 2, ("dead-letters", "note", "--exception", "\x1b[31m\nerror: forged", *WHY)
    yield 0, ("redrive", "stop", REDRIVE, *WHY)
    planted.event(json.dumps({"event": "REDRIVE_ENDED", "redrive": REDRIVE, "by": "a", "end": "\x1b[2J\nerror: forged", "outcomes": {"\x9b2J": 1}}).encode())  # fmt: skip
    yield 0, ("redrive", "watch", REDRIVE)
    yield 0, ("redrive", "list")


def other_calls(out: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    yield 0, ("queue", "abort", "desk", "--dry-run")
    yield 2, ("queue", "abort", "\x1b[31m\nerror: forged", "--dry-run")
    yield 0, ("journal",)
    yield 0, ("journal", "--since", "1h", "--by", "\x1b[31m\nerror: forged")
    yield 2, ("journal", "--since", "\x1b[31m\nerror: forged")
    at = ("--users", str(out / "users.json"))
    yield 0, ("users", "list", *at)
    yield 2, ("users", "add", "\x1b[31m\nerror: forged", *at)
    yield 2, ("users", "remove", "\x1b[31m\nerror: forged", *at)


def sending_calls(odd: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    forged = "\x1b[31m\nerror: forged"
    yield 0, ("timers",)
    yield 2, ("timers", forged)
    for command in ("send", "request"):
        yield 2, (command, "desk", forged, "--contract", forged, "--from", "desk", "--body", "{}")
        yield 2, (command, forged, "Note", "--contract", "Notes", "--from", forged, "--body", forged)
        yield 2, (command, "desk", "Note", forged, "--contract", "Notes", "--from", "desk")
    yield 2, ("send", "clerk", "Note", "--from", "desk", "--dialog", odd, "--body", "{}")


def doctor_calls(planted: Planted) -> Iterator[tuple[int, tuple[str, ...]]]:
    for seconds in (1e308, -75, "\x1b[2J"):
        clock = {"event": "CLOCK_OFF", "service": "desk", "partition": 0, "at": 1, "seconds": seconds}
        planted.event(json.dumps(clock).encode())
    yield 1, ("doctor", "--role", "worker")
    yield 2, ("doctor", "--role", "\x1b[31m\nerror: forged")
    yield 2, ("doctor", "--stores", "\x1b[31m\nerror: forged")


def dialog_calls(dialog: str, odd: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    yield 0, ("dialogs", "list")
    yield 0, ("dialogs", "list", "desk", "--with-pending", "--all")
    yield 2, ("dialogs", "list", "--peer", "clerk", "--state", "\x1b[31m\nerror: forged")
    yield 0, ("dialogs", "show", dialog)
    yield 0, ("dialogs", "show", odd)
    yield 0, ("dialogs", "end", odd, "--dry-run")
    yield 0, ("dialogs", "cleanup", odd, "--dry-run")
    yield 2, ("dialogs", "show", f"{dialog}\x1b[31m\nerror: forged")
    yield 0, ("dialogs", "end", dialog, "--error", "5", "--description", "\x1b[31m\nerror: forged", "--dry-run")
    yield 2, ("dialogs", "end", dialog, "--dry-run")
    yield 2, ("dialogs", "resend", dialog, "--dry-run")
    as_desk = ("--service", "tests.hostile.test_commands:desk")
    yield 2, ("dialogs", "send", dialog, "\x1b[31m\nerror: forged", "{}", *as_desk, "--dry-run")
    yield 2, ("dialogs", "send", odd, "Note", "\x1b[31m\nerror: forged", *as_desk, "--wait", "0.5")
    yield 2, ("dialogs", "resend", odd, *WHY)
    yield 1, ("dialogs", "end", dialog, "--error", "5", "--description", "No.", *WHY, "--wait", "0.5")
    yield 0, ("dialogs", "cleanup", dialog, "--dry-run")
    yield 1, ("dialogs", "cleanup", dialog, "--yes", *WHY, "--wait", "0.5")


def desk() -> Any:
    """A service as the catalog has it, but for what somebody wrote there."""
    from conversations import Service

    return Service("desk")


def leaves(command: Any, name: str = "") -> Iterator[str]:
    if hasattr(command, "commands"):
        for child, found in command.commands.items():
            yield from leaves(found, f"{name} {child}".strip())
    else:
        yield name


@pytest.fixture(scope="module")
def planted(kafka_bootstrap: str) -> Planted:
    return Planted(kafka_bootstrap)


def test_no_command_fails_at_or_passes_on_what_somebody_wrote(
    planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVERSATIONS_CACHE", str(tmp_path))
    where = ("--bootstrap", planted.kafka.bootstrap, "--namespace", planted.kafka.namespace)
    environment = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "200"}
    called = set()
    known = set(leaves(typer.main.get_command(app)))
    for code, arguments in calls(planted, tmp_path):
        command = next(name for name in known if " ".join(arguments).startswith(name))
        called.add(command)
        options = () if command in {"check", "broker status", *OFFLINE} and "--catalog" not in arguments else where
        for more in ((),) if command in WITHOUT_JSON else ((), ("--json",)):
            if command == "redrive plan":
                (tmp_path / "plan.json").unlink(missing_ok=True)  # a plan does not write over a file
            result = CliRunner().invoke(app, [*arguments, *options, *more], env=environment)
            check(result, code, arguments)
            if more and result.stdout:
                json.loads(result.stdout)
    assert called | set(ELSEWHERE) == known


def check(result: Result, code: int, arguments: tuple[str, ...]) -> None:
    what = f"{arguments}: {result.output}"
    assert result.exit_code == code, (what, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), (what, result.exception)
    assert not raw_in(result.output, styled=True), what
    assert not forged_in(result.output), what


def test_a_service_without_topics_is_named_and_left_out(planted: Planted, caplog: pytest.LogCaptureFixture) -> None:
    where = ["--bootstrap", planted.kafka.bootstrap, "--namespace", planted.kafka.namespace]
    result = CliRunner().invoke(app, ["queue", "show", "--json", *where])
    assert {it["service"] for it in json.loads(result.stdout)["queues"]} == {"desk", "clerk"}
    assert "service ghost is in the catalog and left out, because topics are missing: " in caplog.text
    result = CliRunner().invoke(app, ["queue", "show", "ghost", "--json", *where])
    assert result.exit_code == 1
    assert "ghost.state" in json.loads(result.stdout)["error"]
