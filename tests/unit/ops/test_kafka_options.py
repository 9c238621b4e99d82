"""Which Kafka: said once, in front of a command or behind it, or in the environment."""

import json
import re
from collections.abc import Mapping

import pytest
import typer
from typer.testing import CliRunner

from conversations import Kafka
from conversations_ops.cli import app as top
from conversations_ops.cli import spark
from conversations_ops.cli.kafka_options import Command, Group, kafka_of

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
ENVIRONMENT = {"CONVERSATIONS_BOOTSTRAP": "environment:1", "CONVERSATIONS_NAMESPACE": "environment"}
BEFORE = (
    "--bootstrap",
    "before:1",
    "--namespace",
    "before",
    "--setting",
    "client.id=before",
    "--setting",
    "client.rack=before",
)
BEHIND = ("--bootstrap", "behind:1", "--namespace=behind", "--setting", "client.id=behind")


def told(before: tuple[str, ...], behind: tuple[str, ...], environment: Mapping[str, str] = {}) -> Kafka:
    """What a command in a group of commands is told."""
    found: list[Kafka] = []
    app, group = typer.Typer(cls=Group), typer.Typer()
    app.callback()(lambda: None)
    app.add_typer(group, name="group")

    @group.command("look", cls=Command)
    def look(context: typer.Context, name: str, reason: str = "") -> None:
        found.append(kafka_of(context))

    done = CliRunner().invoke(app, [*before, "group", "look", "it", *behind], env=dict(environment))
    assert done.exit_code == 0, done.output
    return found[0]


def test_options_count_in_front_of_a_command_and_behind_it() -> None:
    assert told(BEFORE, ()) == Kafka(
        "before:1", namespace="before", settings={"client.id": "before", "client.rack": "before"}
    )
    assert told((), BEHIND) == Kafka("behind:1", namespace="behind", settings={"client.id": "behind"})


def test_what_is_said_last_counts_and_settings_add_up() -> None:
    assert told(BEFORE, BEHIND) == Kafka(
        "behind:1", namespace="behind", settings={"client.id": "behind", "client.rack": "before"}
    )


def test_the_command_line_counts_more_than_the_environment() -> None:
    assert told((), (), ENVIRONMENT) == Kafka("environment:1", namespace="environment")
    assert told(("--namespace", "conv"), (), ENVIRONMENT) == Kafka("environment:1", namespace="conv")
    assert told(BEFORE[:4], (), ENVIRONMENT) == Kafka("before:1", namespace="before")
    assert told((), BEHIND[:3], ENVIRONMENT) == Kafka("behind:1", namespace="behind")


def test_a_value_of_another_option_that_looks_like_one_stays_its_value() -> None:
    assert told(BEFORE[:2], ("--reason", "--namespace")) == Kafka("before:1")


def test_a_job_gets_what_was_said_in_front_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[list[str]] = []
    monkeypatch.setattr(spark, "start", lambda _, arguments: passed.append(arguments))
    CliRunner().invoke(top.app, [*BEFORE[:6], "spark", "archive", "/data", "--json"], env=ENVIRONMENT)
    CliRunner().invoke(top.app, ["spark", "archive", "/data"], env=ENVIRONMENT)
    first = ["--bootstrap=before:1", "--namespace=before", "--setting=client.id=before", "/data", "--json"]
    assert passed == [first, ["/data"]]


def test_a_command_that_declares_an_option_of_every_command_is_refused() -> None:
    app = typer.Typer()
    app.command("look", cls=Command)(lambda file: None)
    with pytest.raises(ValueError, match="look declares options of every command: file"):
        typer.main.get_command(app)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("dead-letters", "skip", "a.queue-0-1", "--bootstrap", "127.0.0.1:1"), "--reason"),
        (("dead-letters", "list"), "--bootstrap"),
        (("dead-letters", "list", "--no-such-option"), "--no-such-option"),
        (("dead-letters", "skip"), "LETTER"),
        (("no-such-command",), "no-such-command"),
    ],
)
def test_a_wrong_usage_is_json_if_json_is_asked_for(arguments: tuple[str, ...], part: str) -> None:
    plain = CliRunner().invoke(top.app, arguments, env={"COLUMNS": "200"})
    assert (plain.exit_code, plain.stdout) == (2, "")
    assert part in ESCAPES.sub("", plain.stderr)  # a terminal of a CI has colours, also in the middle of a word
    done = CliRunner().invoke(top.app, [*arguments, "--json"])
    told = json.loads(done.stdout)
    assert (done.exit_code, told["kind"], done.stderr) == (2, "UsageError", "")
    assert part in told["error"]
