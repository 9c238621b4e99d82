"""The command line of the benchmark: ``python -m bench --help``."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bench import report, results, topics
from bench.contenders import CONTENDERS, RunFailed, work
from bench.rounds import Rounds
from bench.workload import Job, Workload
from conversations.errors import LogError
from conversations.kafka.embedded import BrokerError, EmbeddedBroker

HERE = Path(__file__).resolve().parent
STANDARD = Workload()
NAMES = ", ".join(CONTENDERS)
Only = Annotated[str, typer.Option(metavar="A,B", help=f"Run only these of: {NAMES}.")]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Exit codes: 0 fine, 1 a contender failed or its replies were wrong, 2 wrong usage, 3 no broker.")
def bench(
    messages: Annotated[int, typer.Option(min=1, help="Messages per run.")] = STANDARD.messages,
    dialogs: Annotated[int, typer.Option(min=1, help="Dialogs they are dealt out to.")] = STANDARD.dialogs,
    rounds: Annotated[int, typer.Option(min=1, help="Counted runs of each contender; 3 take about five minutes.")] = 3,
    only: Only = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results as JSON; progress goes to stderr.")
    ] = False,
    out: Annotated[Path | None, typer.Option(file_okay=False, help="Write results.json and results.png here.")] = None,
    profile: Annotated[str, typer.Option(metavar="NAME", help="Instead, show where one of ours spends its time.")] = "",
) -> None:
    """Measure how many messages per second are handled and answered, exactly once.

    Starts a Kafka broker of its own (Java 17 or newer; the network once). Everybody gets the same work: so many
    messages of 100 bytes on so many dialogs, a reply to each, 5,000 to a transaction, one state row for each dialog
    touched. A run is a fresh process, timed from its first record to its last commit; then the replies are counted as
    a reader of committed records sees them.

    \b
    raw      the least a Python process can do and be exactly-once: the limit
    quix     Quix Streams, exactly-once, in an environment of its own (made once)
    ours_*   this library through its public API; bytes bodies unless _pydantic

    With the standard workload and all contenders, it writes bench/results.json, bench/results.png and the table of
    docs/performance.md. With --only, --messages or --dialogs it prints only, unless --out says where to write.

    \b
    Examples:
      python -m bench                                      everything
      python -m bench --only raw,ours_rocksdict --rounds 5
      python -m bench --messages 50000 --rounds 1 --json | jq .ratios
      python -m bench --profile ours_rocksdict             top functions by own time
    """
    console = Console(stderr=as_json)
    workload = Workload(messages, min(dialogs, messages))
    try:
        if profile:
            show_profile(_one_of_ours(profile), workload)
            return
        names = _names(only)
        with EmbeddedBroker() as broker:
            outcome = Rounds(names, broker.bootstrap, workload, console).run(rounds)
    except (BrokerError, LogError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(3) from error
    found = results.collect(workload, outcome.samples, outcome.missing)
    if as_json:
        print(json.dumps(found))
    report.show(found, console)
    standard = not outcome.failures and workload == STANDARD and names == list(CONTENDERS)
    _write(found, console, out=out, standard=standard)
    if outcome.failures:
        raise typer.Exit(1)


def _write(found: dict[str, Any], console: Console, *, out: Path | None, standard: bool) -> None:
    if out is None and not standard:
        console.print("not written: not the standard workload with all contenders, or one failed (see --out)")
        return
    written = report.keep(found, out or HERE)
    if out is None:
        written.append(report.publish(found))
    for path in written:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def show_profile(name: str, workload: Workload) -> None:
    """Run one of our contenders once under the profiler and print what it found."""
    contender = CONTENDERS[name]
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory(prefix="bench-") as directory:
        job = Job(name, broker.bootstrap, "bench-profile", directory, workload, profile=True)
        contender.fill(job)
        try:
            print(work(contender, contender.interpreter(), job).rsplit("\n", 2)[0])
        except RunFailed as error:
            print(error, file=sys.stderr)
            raise typer.Exit(1) from error
        topics.drop(job.bootstrap, job.space)


def _names(only: str) -> list[str]:
    wanted = [name.strip() for name in only.split(",") if name.strip()] or list(CONTENDERS)
    if unknown := [name for name in wanted if name not in CONTENDERS]:
        raise typer.BadParameter(f"no contender is called {', '.join(unknown)}; there are {NAMES}", param_hint="--only")
    return [name for name in CONTENDERS if name in wanted]


def _one_of_ours(name: str) -> str:
    if name not in CONTENDERS or not name.startswith("ours_"):
        ours = ", ".join(each for each in CONTENDERS if each.startswith("ours_"))
        raise typer.BadParameter(f"only ours can be profiled: {ours}", param_hint="--profile")
    return name


def main() -> None:
    """Entry point. Ctrl-C, or SIGTERM, ends the running contender and the broker: code 130."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app(prog_name="python -m bench")


if __name__ == "__main__":
    main()
