"""``python -m tests.hostile``: honest dialogs beside a peer that may write one queue and nothing else."""

from __future__ import annotations

import argparse
import json
import logging
import secrets
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.hostile import soak
from tests.hostile.soak import JUDGED, MOST, Options, Outcome
from tests.hostile.support.two_workers import Pace

SHOWN = 20


def main() -> int:
    """Run it as the command line says: 0 when all is right and cheap enough, 1 when not."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile", description=soak.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="pairs of measurements (default: 5)")
    parser.add_argument("--dialogs", type=int, default=60, help="honest dialogs of a window (default: 60)")
    parser.add_argument("--orders", type=int, default=50, help="honest messages of each (default: 50)")
    parser.add_argument(
        "--hostile", type=int, default=400, help="things an attack does, of one record or some (default: 400)"
    )
    parser.add_argument("--seed", type=int, default=None, help="draws the same attack again")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    options = Options(
        rounds=given.rounds, dialogs=given.dialogs, orders=given.orders, hostile=given.hostile, seed=seed, pace=Pace()
    )
    logging.disable(logging.CRITICAL)
    directory = Path(tempfile.mkdtemp(prefix="hostile-"))
    _say(f"seed {seed}, everything of the workers in {directory}")
    outcome = soak.carry_out(options, directory, _say)
    bad = outcome.wrong or not outcome.rounds or outcome.dear()
    if not bad:
        shutil.rmtree(directory, ignore_errors=True)
    if given.json:
        sys.stdout.write(json.dumps(_facts(outcome, seed)) + "\n")
    else:
        _tell(outcome)
    return 1 if bad else 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _facts(outcome: Outcome, seed: int) -> dict[str, object]:
    ratios = {name: outcome.medians(name) for name in ("shop", "web")} if outcome.rounds else {}
    return {
        "seed": seed, "medians": ratios, "most": MOST, "judged": JUDGED, "dear": outcome.dear() if outcome.rounds else [],
        "wrong": outcome.wrong, "sent": outcome.sent, "refused": outcome.refused, "kinds": outcome.kinds, "kept": outcome.kept,
        "rounds": [asdict(it) for it in outcome.rounds],
    }  # fmt: skip


def _tell(outcome: Outcome) -> None:
    kinds = ", ".join(f"{count:,} {name}" for name, count in outcome.kinds.most_common())
    lines = [f"{outcome.sent:,} hostile records, {outcome.refused:,} more refused by the broker: {kinds}"]
    if outcome.rounds:
        for process in ("shop", "web"):
            told = " · ".join(f"{name} {ratio:.2f}" for name, ratio in outcome.medians(process).items())
            lines.append(f"{process}, medians of {len(outcome.rounds)}: {told}")
        lines += outcome.dear()
    lines.append("kept at the end: " + ", ".join(f"{name} {count:,}" for name, count in outcome.kept.items()))
    lines += outcome.wrong[:SHOWN]
    lines.append("All right." if not outcome.wrong else f"NOT RIGHT, {len(outcome.wrong)} things.")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
