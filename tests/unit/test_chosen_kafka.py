"""The choice of the Kafka of a test run, and what the run says if it cannot be used."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import chosen_kafka

ROOT = Path(__file__).resolve().parents[2]
USAGE_ERROR = 4
"""Exit code of pytest."""


@pytest.mark.parametrize(
    ("option", "variable", "chosen"),
    [(None, "", "embedded"), (None, "k:1", "k:1"), ("docker", "k:1", "docker"), ("embedded", "k:1", "embedded")],
)
def test_the_option_comes_before_the_variable(
    monkeypatch: pytest.MonkeyPatch, option: str | None, variable: str, chosen: str
) -> None:
    monkeypatch.setenv(chosen_kafka.VARIABLE, variable)
    assert chosen_kafka.choice(option) == chosen


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ("127.0.0.1:1", "no Kafka answers at this address"),
        ("dockr", "use embedded, docker or HOST:PORT"),
        ("docker", "no Docker engine answers"),
    ],
)
def test_a_kafka_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, chosen: str, said: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    assert said in chosen_kafka.trouble(chosen)


def test_a_run_ends_before_its_first_test_if_no_engine_answers() -> None:
    """It neither skips its tests nor takes another Kafka."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--kafka", "docker", "-p", "no:cacheprovider", "tests/unit/test_sharing.py"],
        cwd=ROOT, capture_output=True, text=True, check=False, env={"DOCKER_HOST": "unix:///nowhere/docker.sock"},
    )  # fmt: skip
    assert done.returncode == USAGE_ERROR
    assert "no Docker engine answers" in done.stderr
    assert "passed" not in done.stdout
