"""The short form of the chaos run of speakers, as anybody starts it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.support.command_line import ROOT
from tests.support.waiting import SLOWER

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.long]


def test_three_speakers_have_one_order_and_no_view_is_ahead_of_the_truth(tmp_path: Path) -> None:
    options = ["--seconds", "25", "--dialogs", "4", "--kill-every", "5", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.speakers", *options], cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=380 * SLOWER,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    nothing = (
        "lost 0, twice 0, unasked 0, holes 0, out of order 0, told too early 0, told backwards 0, refused 0, letters 0"
    )
    assert told["line"].endswith(nothing)
    figures = told["found"]["figures"]
    speakers = [figures[f"of the {name}"] for name in ("handler", "hook", "terminal")]
    assert min(*speakers, figures["changes of speaker"], figures["views"], told["counts"]["killed"]) > 0
    assert not list(tmp_path.glob("conversations-speakers-*")), "a clean run leaves nothing behind"
