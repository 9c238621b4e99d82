"""The command line of the benchmark: ``python -m bench --help``."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench import part as parts
from bench import report, results
from bench.contenders.roster import CONTENDERS
from bench.ground import Ground
from bench.part import Found, Part
from bench.plan import QUICK, Plan
from bench.profiling import show_profile
from bench.screen import Screen
from conversations.errors import LogError
from conversations_ops.broker import BrokerError, EmbeddedBroker

HERE = Path(__file__).resolve().parent
NAMES = ", ".join(CONTENDERS)
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PARTS]...", help=f"Parts to measure (default: all): {', '.join(parts.HOMES)}."),
]
Only = Annotated[str, typer.Option(metavar="A,B", help=f"Run only these contenders in `throughput`: {NAMES}.")]
Profile = Annotated[
    str, typer.Option(metavar="NAME", help="Do not measure; show where one of our contenders spends its time.")
]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Exit codes: 0 fine, 1 a run failed or its replies were wrong, 2 wrong usage, 3 no broker.")
def bench(
    names: Names = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of measured rounds.")] = Plan.rounds,
    messages: Annotated[int, typer.Option(min=1, help="Messages per run of `throughput`.")] = Plan.messages,
    dialogs: Annotated[int, typer.Option(min=1, help="Number of dialogs that share these messages.")] = Plan.dialogs,
    only: Only = "",
    block_seconds: Annotated[
        int, typer.Option(min=1, help="How long the handler of `blocked` blocks.")
    ] = Plan.block_seconds,
    rows: Annotated[int, typer.Option(min=100, help="Delayed rows of `release`.")] = Plan.rows,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a twentieth of everything, to check that it works.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results as JSON; progress goes to stderr.")
    ] = False,
    out: Annotated[Path | None, typer.Option(file_okay=False, help="Write results and pictures here.")] = None,
    profile: Profile = "",
) -> None:
    """Measure throughput, latency, waiting handlers and the effect of sizes. Every run verifies that each message was answered once.

    All parts together take more than an hour on two cores. Run nothing else meanwhile. Each part starts a Kafka broker of
    its own, which needs Java 17 or newer and, the first time, network access. The figures of a part are kept as soon as
    the part has ended. Contenders run in turn, round after round, and each run has a new process.

    \b
    throughput  300,000 and 1,500,000 messages: the bare loop (raw), Quix Streams, Kafka Streams, ours
    latency     requests through two services and back: one at a time, and 200 per second
    waiting     handlers that wait 5 ms: 1, 16 and 256 at the same time, def and async def
    blocked     200 messages per second on other dialogs while one handler blocks for 90 s
    batch       throughput by messages per transaction
    dialogs     throughput by number of dialogs
    keeping     an initiator that keeps its messages until they are acknowledged, or keeps nothing
    release     others of the same worker while a million delayed rows are released to a peer that is back
    resending   10,000 dialogs that break and carry on with new dialogs
    remote      dialogs between two clusters, beside one cluster and beside MirrorMaker 2
    parking     throughput beside parked dialogs, a retry storm, a million parked messages, a redrive
    scale       a million open dialogs
    console     pages of the web console over a million dialogs and a hundred thousand failed messages
    spark       dialogs read in Spark, compared with a plain read: batches, streams, other ways, more dialogs

    With the standard sizes, the figures of a part go into bench/results.json, bench/pictures and docs/performance.md.
    With other sizes, or after a failure, they are only printed, unless --out gives a directory for them.

    \b
    Examples:
      python -m bench                                           everything
      python -m bench latency blocked                           two parts
      python -m bench throughput --only raw,ours_rocksdict --rounds 5
      python -m bench blocked --block-seconds 10 --json | jq .blocked.blocked.p99_ms
      python -m bench --quick                                   a twentieth of everything, in some minutes
      python -m bench --profile ours_rocksdict                  the functions with the most own time
    """
    console = Console(stderr=as_json)
    shrink = QUICK if quick else 1
    plan = Plan(rounds, messages, min(dialogs, messages), _contenders(only), block_seconds, rows, shrink)
    try:
        if profile:
            show_profile(_one_of_ours(profile), plan)
            return
        found = _run([parts.load(name) for name in _chosen(names)], plan, console, out)
    except BrokerError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(3) from error
    if as_json:
        print(json.dumps(found))
    if any(it["failures"] for it in found.values()):
        raise typer.Exit(1)


def _run(chosen: list[Part], plan: Plan, console: Console, out: Path | None) -> dict[str, Found]:
    minutes = sum(part.minutes for part in chosen) * plan.rounds / Plan.rounds / plan.shrink
    console.print(f"{len(chosen)} parts, about {max(1, minutes):.0f} minutes", highlight=False)
    every: dict[str, Found] = {}
    for part in chosen:
        found = results.complete(_measured(part, plan, console), plan)
        every[part.name] = found
        if "machine" in found and not _empty(found):
            report.show(part, found, console)
            _write(part, found, console, out=out, standard=plan.standard)
        else:
            for failure in found["failures"]:
                console.print(f"{part.name} failed: {failure}", markup=False, style="red")
    return every


def _empty(found: Found) -> bool:
    return not found.get("rounds")


def _measured(part: Part, plan: Plan, console: Console) -> Found:
    """Measure a part on a broker of its own. An error ends only this part; the other parts are still measured."""
    began = time.monotonic()
    with EmbeddedBroker() as broker, Screen(console) as screen:
        screen.begin(part.title)
        try:
            found = part.measure(Ground(broker.bootstrap, plan, screen))
        except (LogError, OSError) as error:
            found = {"failures": [f"{type(error).__name__}: {error}"]}
    return {**found, "took_seconds": round(time.monotonic() - began)}


def _write(part: Part, found: Found, console: Console, *, out: Path | None, standard: bool) -> None:
    if out is None and (found["failures"] or not standard):
        console.print("not written, because the sizes are not the standard ones or something failed (see --out)")
        return
    directory = out or HERE
    written = [results.keep(directory, part.name, found), report.draw(part, found, directory)]
    if out is None:
        written.append(report.publish(part, found))
    for path in written:
        if path is not None:
            console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def _chosen(names: list[str] | None) -> list[str]:
    there = parts.known()
    if unknown := [name for name in names or () if name not in there]:
        raise typer.BadParameter(f"no part is called {', '.join(unknown)}; there are {', '.join(there)}")
    return [name for name in there if not names or name in names]


def _contenders(only: str) -> tuple[str, ...]:
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in CONTENDERS]:
        raise typer.BadParameter(f"no contender is called {', '.join(unknown)}; there are {NAMES}", param_hint="--only")
    return tuple(name for name in CONTENDERS if name in wanted)


def _one_of_ours(name: str) -> str:
    if name not in CONTENDERS or not name.startswith("ours_"):
        ours = ", ".join(each for each in CONTENDERS if each.startswith("ours_"))
        raise typer.BadParameter(f"only ours can be profiled: {ours}", param_hint="--profile")
    return name


def main() -> None:
    """Run the command line. Ctrl-C or SIGTERM ends the running contender and the broker, with exit code 130."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app(prog_name="python -m bench")


if __name__ == "__main__":
    main()
