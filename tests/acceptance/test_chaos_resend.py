"""The short form of the chaos run of resends, as anybody starts it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.support.command_line import ROOT
from tests.support.waiting import SLOWER

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.long]


def test_every_item_is_handled_once_in_order_or_is_one_letter_however_its_dialog_breaks(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.chaos.resend", "--dialogs", "60", "--kill-every", "6", "--json"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False,
        timeout=380 * SLOWER,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["line"].endswith("lost 0, twice 0, out of order 0, undecided 0")
    figures = told["found"]["figures"]
    assert (figures["dialogs"], figures["items told"]) == (60, 600)
    assert min(figures["first new dialogs"], told["counts"]["killed"], told["counts"]["queues off"]) > 0
    assert not list(tmp_path.glob("conversations-resend-*")), "a clean run leaves nothing behind"
