"""``python -m tests.mutations``: remove each guard in a copy of the tree, and see which tests of the rules notice."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from conversations_ops.broker import EmbeddedBroker
from tests.mutations.runner import Result, baseline, run, snapshot
from tests.mutations.table import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parents[2]


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="only patches whose name begins so")
    parser.add_argument(
        "--own-test-only", action="store_true", help="run only the test each patch must break, not all of tests/rules"
    )
    parser.add_argument("--jobs", type=int, default=2, help="copies of the tree tested at the same time")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument("--list", action="store_true", help="list the patches and their tests, and do nothing")
    return parser.parse_args(argv)


@contextlib.contextmanager
def kafka() -> Iterator[str]:
    """Give the address of ``KAFKA_BOOTSTRAP``, or of one broker for all the copies."""
    if given := os.environ.get("KAFKA_BOOTSTRAP"):
        yield given
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


def show(results: Sequence[Result]) -> None:
    """Print the table."""
    table = Table("patch", "what failed, and why", "s", "verdict")
    for result in results:
        lines = [f"{name.rpartition('::')[2]}: {why[:120]}" for name, why in result.failed.items()]
        lines += [f"{name.rpartition('::')[2]}: not when run alone" for name in result.unsteady]
        if not result.good and result.expected not in result.failed:
            lines.append(f"{result.expected} did not fail. {result.detail[-500:]}")
        table.add_row(result.patch, escape("\n".join(lines) or "nothing"), f"{result.seconds:.0f}", str(result.verdict))
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    good = sum(result.good for result in results)
    print(f"{good} of {len(results)} as they must be", file=sys.stdout)  # noqa: T201 - the report of a command


def main(argv: Sequence[str] | None = None) -> int:
    """Run; return 0 when every patch breaks exactly its test, 1 when one does not."""
    asked = arguments(argv)
    chosen = [m for m in MUTATIONS if not asked.only or m.patch.startswith(tuple(asked.only))]
    if not chosen:
        print("no patch has such a name", file=sys.stderr)  # noqa: T201 - usage
        return 2
    if asked.list:
        for mutation in chosen:
            print(f"{mutation.patch:<36} {mutation.test}")  # noqa: T201 - the report of a command
        return 0
    with kafka() as bootstrap, snapshot(ROOT) as tree, ThreadPoolExecutor(asked.jobs) as pool:

        def one(mutation: Mutation) -> Result:
            result = run(tree, mutation, bootstrap, own_test_only=asked.own_test_only)
            others = [name.rpartition("::")[2] for name in result.failed if name != mutation.test]
            line = f"{result.patch}: {result.verdict} ({result.seconds:.0f} s) {' '.join(others)}"
            print(line.rstrip(), file=sys.stderr, flush=True)  # noqa: T201 - progress
            return result

        results = [baseline(tree, chosen, bootstrap, own_test_only=asked.own_test_only)]
        if results[0].good:
            results += pool.map(one, chosen)
    if asked.json:
        print(json.dumps([result.plain() for result in results], indent=1))  # noqa: T201 - the report of a command
    else:
        show(results)
    return 0 if all(result.good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
