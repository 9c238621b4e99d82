"""Back-off, slots, and what a run makes of processes that end before there is any Kafka to ask."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conversations_ops.host.child import Spec
from conversations_ops.host.health import served, verdict
from conversations_ops.host.restarts import Restarts
from conversations_ops.host.slots import host_name, take
from conversations_ops.host.supervisor import GOOD, LOADS, Supervisor

PROGRAM = Path(sys.executable).with_name("conversations")
SERVICE = "from conversations import Service\n{name} = Service('same')\n"


def test_a_process_that_keeps_dying_waits_longer_up_to_ten_seconds() -> None:
    restarts = Restarts()
    assert [restarts.after(1.0) for _ in range(8)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_a_minute_of_health_forgives() -> None:
    restarts = Restarts()
    assert [restarts.after(lived) for lived in (1.0, 1.0, 59.9, 60.0, 1.0)] == [0.2, 0.4, 0.8, 0.2, 0.4]


def test_a_slot_is_kept_while_its_file_is_open_and_the_next_gets_the_next(tmp_path: Path) -> None:
    first, file = take(tmp_path, "a", "a-1")
    second, other = take(tmp_path, "a", "a-1")
    with other:
        assert (first, second) == ("a-1", "a-2")
        file.close()
        again, file = take(tmp_path, "a", "a-1")
        with file:
            assert again == "a-1"


def test_a_slot_that_was_had_before_is_preferred(tmp_path: Path) -> None:
    slot, file = take(tmp_path, "a", "a-7")
    with file:
        assert slot == "a-7"


def test_the_host_name_can_be_part_of_a_path() -> None:
    assert host_name()
    assert "/" not in host_name()


# -- the page ----------------------------------------------------------------------------------------------------


def page(*states: str) -> list[dict[str, Any]]:
    return [{"service": "s", "workers": [{"state": state} for state in states]}]


@pytest.mark.parametrize("state", sorted(GOOD))
def test_the_page_is_well_when_every_worker_is(state: str) -> None:
    assert verdict(page(state, "running"))[0] == 200


@pytest.mark.parametrize(
    "state", ["down", "starting", "joining", "restoring", "stopping", "silent", "stuck", "unreachable"]
)
def test_one_worker_that_is_not_well_is_enough(state: str) -> None:
    status, body = verdict(page("running", state))
    assert (status, body["healthy"]) == (503, False)


def test_a_worker_without_kafka_is_not_ready_and_its_supervisor_is_alive() -> None:
    with served("127.0.0.1", 0, lambda: page("unreachable")) as address:
        for name in ("health", "ready"):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(address.replace("health", name), timeout=5)
            with caught.value:
                assert caught.value.code == 503
        with urllib.request.urlopen(address.replace("health", "live"), timeout=5) as answer:
            assert json.load(answer) == {"alive": True}


def test_the_page_is_served_at_health_and_nowhere_else() -> None:
    with served("127.0.0.1", 0, lambda: page("running")) as address:
        with urllib.request.urlopen(address, timeout=5) as answer:
            assert json.load(answer) == {"healthy": True, "services": page("running")}
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(address.replace("health", "nowhere"), timeout=5)
        with caught.value:
            assert caught.value.code == 404


# -- processes that end early ---------------------------------------------------------------------------------------


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAM), "run", *arguments, "--bootstrap", "127.0.0.1:1", "--memory-state"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)


def test_two_targets_of_one_service_are_refused_before_anything_is_connected(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(SERVICE.format(name="a") + SERVICE.format(name="b"))
    ended = run(tmp_path, "one:a", "one:b")
    assert ended.returncode == 2
    assert "one:a and one:b are both service 'same'" in ended.stderr


def test_a_process_that_dies_while_it_loads_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("import os\nos._exit(7)\n")
    ended = run(tmp_path, "dies:service")
    assert ended.returncode == 1
    assert "exit status 7" in ended.stderr


def test_a_process_that_is_killed_while_it_loads_is_started_again(tmp_path: Path) -> None:
    """Whoever was short of memory for a moment: the others need not end for it."""
    (tmp_path / "dies.py").write_text(
        "import os, pathlib, signal\n"
        "mark = pathlib.Path('died')\n"
        "if not mark.exists():\n"
        "    mark.touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = run(tmp_path, "dies:nothing")
    assert "ended (killed by SIGKILL), starting it again in 0.2 s" in ended.stderr
    assert "no 'nothing'" in ended.stderr
    assert ended.returncode == 2


def test_a_target_that_is_killed_by_loading_it_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    ended = run(tmp_path, "dies:service")
    assert ended.returncode == 1
    assert ended.stderr.count("starting it again") == LOADS - 1
    assert "ended before it was ready: killed by SIGKILL" in ended.stderr


def test_an_error_of_a_block_ends_the_run_with_its_text(tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("def block():\n    raise OSError('no database')\n    yield\n")
    ended = run(tmp_path, "fails:block")
    assert ended.returncode == 1
    assert "no database" in ended.stderr


def test_a_module_of_the_users_may_be_named_like_one_of_pythons(tmp_path: Path) -> None:
    (tmp_path / "signal.py").write_text("raise SystemExit(9)\n")
    (tmp_path / "one.py").write_text("from conversations import Service\n")
    ended = run(tmp_path, "one:nothing")
    assert ended.returncode == 2
    assert "no 'nothing'" in ended.stderr


PERIODS = """
from dataclasses import replace
from conversations import Service, WorkerSettings
from conversations.config import Periods
from conversations.durations import DAY

def service(name, **periods):
    return Service(name), WorkerSettings(periods=replace(Periods(), **periods))

usual, long, inbox = service("usual"), service("long", events_kept=10**15), service("inbox", inbox_kept=80 * DAY)
"""


def test_targets_whose_periods_differ_do_not_run_together(tmp_path: Path) -> None:
    (tmp_path / "periods.py").write_text(PERIODS)
    ended = run(tmp_path, "periods:usual", "periods:long")
    assert ended.returncode == 2
    assert "have different periods, but a namespace has one set of periods" in ended.stderr


def test_what_a_target_and_an_option_say_together_may_contradict_itself(tmp_path: Path) -> None:
    (tmp_path / "periods.py").write_text(PERIODS)
    ended = run(tmp_path, "periods:inbox", "--setting", "periods.letter_life=70 d")
    assert ended.returncode == 2
    assert "--setting: periods.letter_life: letter_life must be more than inbox_kept" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["one:a", "--setting", "nonsense"], "NAME=VALUE"),
        (["one:a", "--setting", "worker.step=5"], "a time has a unit"),
        (["one:a", "--settings", "not-there"], "cannot be read"),
        (["one:a", "--log-level", "loud"], "debug, info"),
        (["one:a", "--state-dir", "x"], "exclude"),
        (["one:a", "--workers", "0"], "workers"),
        (["one:a", "--slot", "a/b"], "slot 'a/b'"),
        (["one:a", "--namespace", ".."], "namespace '..'"),
        ([], "TARGET"),
    ],
)
def test_wrong_usage_is_2_and_says_what_is_right(tmp_path: Path, arguments: list[str], part: str) -> None:
    ended = run(tmp_path, *arguments)
    assert ended.returncode == 2
    assert part in ended.stderr


def test_a_port_that_is_taken_is_wrong_usage(tmp_path: Path) -> None:
    with served("127.0.0.1", 0, list) as address:
        port = address.rpartition(":")[2].partition("/")[0]
        ended = run(tmp_path, "one:a", "--health", port)
    assert ended.returncode == 2
    assert "in use" in ended.stderr


# -- what a run says while it runs ----------------------------------------------------------------------------------


def spec(target: str) -> Spec:
    return Spec(
        target=target, bootstrap="127.0.0.1:1", namespace="conv", settings={}, state=None, slots="/nowhere", base="a", log_level="info",
        log_json=False,
    )  # fmt: skip


def status(*, partitions: int = 1, restoring: bool = False, unanswered: float | None = None) -> dict[str, Any]:
    kafka = (
        None
        if unanswered is None
        else {"unanswered_seconds": unanswered, "trying": "a look", "unreachable": unanswered > 30}
    )
    return {
        "event": "status", "joined": True, "stopping": False, "restoring": restoring, "idle_seconds": 0.0, "kafka": kafka,
        "partitions": [{}] * partitions,
    }  # fmt: skip


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    """A supervisor of two workers whose processes are asleep. The test gives it their reports."""
    found = Supervisor([spec("one:a"), spec("two:b")], 1, 1.0)
    for child in found.children:
        child.service = child.spec.target[-1]
        child.process = subprocess.Popen(["sleep", "600"])
        child._heard = time.monotonic()  # as if a report had just come through the pipe
    yield found
    for child in found.children:
        assert child.process is not None
        child.process.kill()
        child.process.wait()


def test_one_line_says_that_every_worker_works(supervisor: Supervisor, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    one, two = supervisor.children
    for child, report in (
        (one, status()), (two, status(partitions=0)), (two, status(restoring=True)), (two, status(unanswered=31)),
    ):  # fmt: skip
        supervisor._take(child, report)
        assert "ready" not in caplog.text
    supervisor._take(two, status())
    supervisor._take(one, status(partitions=0))
    supervisor._take(one, status())
    assert [it.getMessage() for it in caplog.records if "ready" in it.getMessage()] == ["ready: a, b (2 workers)"]


def test_a_worker_without_kafka_is_told_once_and_its_return_once(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (child, _) = supervisor.children
    for unanswered in (None, 10.0, 31.0, 32.0, 40.0, None, None):
        supervisor._take(child, status(unanswered=unanswered))
    told = [(it.levelname, it.getMessage()) for it in caplog.records]
    assert told == [
        ("WARNING", "worker a-1 of a: no broker has answered for 31 s (a look)"),
        ("WARNING", "worker a-1 of a: Kafka answers again"),
    ]
