"""``python -m tests.chaos.checker --bootstrap HOST:PORT --records DIR``: exit 0 clean, 1 not, 2 usage, 3 Kafka."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.checker.check import check
from tests.chaos.checker.copies import Unreadable as NoCopy
from tests.chaos.checker.copies import archived, streamed
from tests.chaos.checker.files import Unreadable, read_notes, read_plan
from tests.chaos.checker.reader import Unreachable, read
from tests.chaos.checker.topics import names
from tests.chaos.checker.verdict import Verdict

CLEAN, VIOLATED, USAGE, KAFKA = 0, 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a run and print the verdict; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.checker", description="Judge a chaos run from its topics."
    )
    parser.add_argument("--bootstrap", required=True, help="brokers, as host:port,...")
    parser.add_argument("--records", required=True, type=Path, help="directory with plan.json and the handlers' notes")
    parser.add_argument("--archive", type=Path, help="directory of an archive that must have every message once")
    parser.add_argument("--stream", type=Path, help="directory of a stream's batches that must have every message once")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(arguments)
    verdict = Verdict()
    try:
        plan = read_plan(options.records)
        notes = read_notes(options.records, plan, verdict)
        copies = {"archive": archived(options.archive)} if options.archive else {}
        copies |= {"stream": streamed(options.stream)} if options.stream else {}
        log = read(options.bootstrap, names(plan))
    except (Unreadable, NoCopy, Unreachable) as error:
        sys.stderr.write(f"{error}\n")
        return KAFKA if isinstance(error, Unreachable) else USAGE
    check(log, plan, notes, verdict, copies)
    text = json.dumps(verdict.plain(), indent=2) if options.json else "\n".join(verdict.lines())
    sys.stdout.write(f"{text}\n")
    return CLEAN if verdict.clean else VIOLATED


if __name__ == "__main__":
    sys.exit(main())
