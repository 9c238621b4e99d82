"""Processes that stand still are replaced, and no others."""

import time
from datetime import timedelta
from typing import Any

import pytest

from conversations.config import Periods, WorkerSettings
from conversations_ops.host.child import Spec, patience
from conversations_ops.host.standstills import ASLEEP, LOOK
from conversations_ops.host.supervisor import Child, Supervisor

STATUS: dict[str, Any] = {
    "stopping": False, "joined": True, "idle_seconds": 0.0, "kafka": None, "partitions": [0], "restoring": False,
}  # fmt: skip
SPEC = Spec(
    target="shop", bootstrap="nowhere:1", namespace="n", settings={}, state=None, slots="", base="host", log_level="info", log_json=False
)  # fmt: skip
AWAY = {"unreachable": True, "unanswered_seconds": 200.0, "trying": "polling"}


class Process:
    """A process that can only be killed."""

    killed = False

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """A supervisor of one process, on a clock that stands at 1,000 s."""
    monkeypatch.setattr(time, "monotonic", lambda: 1_000.0)
    made = Supervisor([SPEC], 1, 5.0)
    made._standstills.allow("shop", 120.0)
    made._standstills.allow("other", 1_000.0)
    made._standstills._looked = 1_000.0 - LOOK
    return made


def child_of(supervisor: Supervisor, *, heard: float = 1_000.0, **facts: Any) -> tuple[Child, Process]:
    (child,), process = supervisor.children, Process()
    child.process, child._heard = process, heard  # type: ignore[assignment]  # it is only killed
    child.service, child._status = "shop", STATUS | facts
    return child, process


@pytest.mark.parametrize(
    ("heard", "facts", "replaced"),
    [
        (1_000.0, {}, False),
        (881.0, {}, False),
        (879.0, {}, True),
        (1_000.0, {"idle_seconds": 119.0}, False),
        (1_000.0, {"idle_seconds": 121.0}, True),
        (1_000.0, {"idle_seconds": 121.0, "kafka": AWAY}, False),
        (1_000.0, {"idle_seconds": 121.0, "joined": False}, True),
        (879.0, {"kafka": AWAY}, True),
        (879.0, {"stopping": True}, False),
    ],
    ids=[
        "well",
        "silent",
        "too-silent",
        "stuck",
        "too-stuck",
        "no-kafka",
        "leaving",
        "silent-without-kafka",
        "stopping",
    ],
)
def test_a_process_that_stands_still_for_too_long_is_killed(
    supervisor: Supervisor, heard: float, facts: dict[str, Any], replaced: bool
) -> None:
    """While Kafka is away no step can be finished, so only silence counts."""
    _, process = child_of(supervisor, heard=heard, **facts)
    supervisor._replace()
    assert process.killed == replaced


def test_a_process_is_killed_once(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    child, process = child_of(supervisor, heard=0.0)
    supervisor._replace()
    process.killed = False
    monkeypatch.setattr(time, "monotonic", lambda: 1_002.0)
    supervisor._replace()
    assert (process.killed, child.state()) == (False, "starting")


def test_after_the_machine_slept_each_process_has_the_whole_time_again(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, process = child_of(supervisor, heard=500.0)
    supervisor._standstills._looked = 1_000.0 - ASLEEP - 1
    for now in range(1_000, 1_122):
        monkeypatch.setattr(time, "monotonic", lambda now=now: float(now))
        supervisor._replace()
        assert process.killed == (now >= 1_120)


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        (WorkerSettings(), 120.0),
        (WorkerSettings(replaced_after=timedelta(seconds=1)), 30.0),
        (WorkerSettings(revocation=timedelta(minutes=5)), 325.0),
        (WorkerSettings(periods=Periods(unreachable_after=300_000_000)), 310.0),
    ],
    ids=["default", "short", "long-handlers", "patient"],
)
def test_a_healthy_process_has_time_for_its_longest_step(settings: WorkerSettings, seconds: float) -> None:
    """A step waits for handlers while partitions move, and for a Kafka that does not answer."""
    assert patience(settings) == seconds
