"""A worker whose clock is off: everything that asks Python for the time is told the other one."""

import json
import subprocess
import sys
import time

from tests.acceptance.support.command_line import ROOT

PROGRAM = """
from tests.chaos.clock import shift
shift(-172800.0)
import json, sys, time
from conversations.stores import rocksdb as store
from conversations.memory.clock import SystemClock
print(json.dumps([SystemClock().now() / 1e6, store.time(), time.time(), time.time_ns() / 1e9]))
"""
A_DAY = 86_400


def test_all_of_a_process_sees_the_clock_it_was_given() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [round((time.time() - told) / A_DAY, 1) for told in json.loads(done.stdout)] == [2.0] * 4
