"""The health page beside connections that say nothing, in a process with few descriptors; and a supervisor without any."""

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from conversations_ops.host.child import Spec
from conversations_ops.host.health import CONNECTIONS, served
from conversations_ops.host.supervisor import Child, Supervisor
from tests.support.waiting import SLOWER

DESCRIPTORS = 64
SPEC = Spec(
    target="nothing:here", bootstrap="127.0.0.1:1", namespace="n", settings={}, state=None, slots="/nowhere",
    base="x", log_level="error", log_json=False,
)  # fmt: skip
SERVING = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from conversations_ops.host.health import served
from tests.hostile.test_health import SPEC, descriptors
from conversations_ops.host.supervisor import Child
with served("127.0.0.1", 0, list, float(sys.argv[1])) as address:
    print(address, flush=True)
    sys.stdin.readline()
    child = Child(SPEC, 1)
    child.spawn()
    child.kill()
    print(descriptors(), flush=True)
    sys.stdin.readline()
"""


@contextlib.contextmanager
def serving(timeout: float) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve the page in a process that may have 64 descriptors."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVING, str(timeout)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def descriptors() -> int:
    """How many this process has."""
    return sum(1 for _ in Path("/dev/fd").iterdir())


def ask(address: str) -> int:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return int(answer.status)


def test_as_many_silent_connections_as_descriptors_cost_the_supervisor_none() -> None:
    with serving(600) as (process, address), contextlib.ExitStack() as stack:
        where = urlsplit(address)
        for _ in range(2 * DESCRIPTORS):
            stack.enter_context(socket.create_connection((str(where.hostname), where.port or 0), timeout=30))
        assert ask(address) == 200
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert int(process.stdout.readline()) < DESCRIPTORS - CONNECTIONS
        assert ask(address) == 200


def test_a_connection_that_goes_on_saying_little_is_ended() -> None:
    with served("127.0.0.1", 0, list, timeout=0.5) as address:
        where = urlsplit(address)
        with socket.create_connection((str(where.hostname), where.port or 0), timeout=30) as slow:
            slow.sendall(b"GET /health HTTP/1.0\r\nX: ")
            while True:
                try:
                    slow.sendall(b"x")
                    slow.settimeout(0.05)
                    if not slow.recv(1):
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert json.load(answer)["healthy"]


def alone(function: Callable[[], None]) -> None:
    """Call a function of this module in a new process, where no other thread opens or closes descriptors."""
    script = f"from tests.hostile.test_health import {function.__name__} as function; function()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60 * SLOWER, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_worker_that_cannot_be_started_just_now_is_started_later() -> None:
    alone(begin_without_descriptors)


def begin_without_descriptors() -> None:
    """Start a worker in a process whose descriptors are all in use, and later again."""
    supervisor = Supervisor([SPEC], 1, 1.0)
    child: Child = supervisor.children[0]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = descriptors()
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, before[1]))
    try:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                while True:
                    stack.callback(os.close, os.dup(0))
            supervisor._spawn(child)
            assert child.process is None
            assert child.state() == "down"
            assert child.restarts == 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert descriptors() == used
    try:
        child.restart_at = 0.0
        supervisor._look_after(child)
        assert child.process is not None
        assert child._reports in supervisor._selector.get_map()
    finally:
        child.kill()
        assert child.process is not None
        child.process.wait()
        child.died()
        supervisor._selector.close()


def test_no_program_is_left_over_when_there_is_none() -> None:
    alone(begin_without_a_program)


def begin_without_a_program() -> None:
    """Start a worker whose program does not exist."""
    sys.executable = "/nothing"  # the supervisor starts its workers with this program
    used = descriptors()
    supervisor = Supervisor([SPEC], 1, 1.0)
    selector = descriptors() - used
    supervisor._spawn(supervisor.children[0])
    assert descriptors() == used + selector
    supervisor._selector.close()
