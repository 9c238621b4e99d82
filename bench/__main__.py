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
Names = Annotated[list[str] | None, typer.Argument(metavar="[PARTS]...", help=f"Any of: {', '.join(parts.HOMES)}.")]
Only = Annotated[str, typer.Option(metavar="A,B", help=f"Run only these in `throughput`: {NAMES}.")]
Profile = Annotated[str, typer.Option(metavar="NAME", help="Instead, show where one of ours spends its time.")]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Exit codes: 0 fine, 1 something failed or its replies were wrong, 2 wrong usage, 3 no broker.")
def bench(
    names: Names = None,
    rounds: Annotated[int, typer.Option(min=1, help="Counted runs of each thing.")] = Plan.rounds,
    messages: Annotated[int, typer.Option(min=1, help="Messages per run of `throughput`.")] = Plan.messages,
    dialogs: Annotated[int, typer.Option(min=1, help="Dialogs they are dealt out to.")] = Plan.dialogs,
    only: Only = "",
    block_seconds: Annotated[
        int, typer.Option(min=1, help="How long the handler of `blocked` blocks.")
    ] = Plan.block_seconds,
    quick: Annotated[bool, typer.Option("--quick", help="Everything a twentieth of its size: does it work?")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results as JSON; progress goes to stderr.")
    ] = False,
    out: Annotated[Path | None, typer.Option(file_okay=False, help="Keep results and pictures here instead.")] = None,
    profile: Profile = "",
) -> None:
    """Measure throughput, latency, handlers that wait, and sizes; every run verifies that each message was answered once.

    Everything takes more than an hour on two cores; nothing else should run meanwhile. Each part starts a Kafka broker of
    its own (Java 17 or newer; the network once) and its figures are kept as soon as it is done. What is compared runs in
    turn, round after round, each run in a fresh process.

    \b
    throughput  300,000 and 1,500,000 messages: the least a Python process can do (raw), Quix Streams, Kafka Streams, ours
    latency     a request through two services and back: one at a time, and 200 per second
    waiting     handlers that wait 5 ms, 1, 16 and 256 at a time, def and async def
    blocked     others at 200 per second while one handler blocks for 90 s
    batch       throughput by messages per transaction
    dialogs     throughput by number of dialogs
    parking     throughput beside parked dialogs, a retry storm, a million parked messages, a redrive
    scale       a million open dialogs
    spark       dialogs read in Spark beside a plain read: batches, streams, other ways, more dialogs

    With the standard sizes a part goes into bench/results.json, bench/pictures and docs/performance.md. With others, or
    when something failed, it is printed only, unless --out says where to keep it.

    \b
    Examples:
      python -m bench                                           everything
      python -m bench latency blocked                           two parts
      python -m bench throughput --only raw,ours_rocksdict --rounds 5
      python -m bench blocked --block-seconds 10 --json | jq .blocked.blocked.p99_ms
      python -m bench --quick                                   everything, tiny, in some minutes
      python -m bench --profile ours_rocksdict                  top functions by own time
    """
    console = Console(stderr=as_json)
    shrink = QUICK if quick else 1
    plan = Plan(rounds, messages, min(dialogs, messages), _contenders(only), block_seconds, shrink)
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
    """Measure a part on a broker of its own; what breaks it does not keep the others from being measured."""
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
        console.print("not written: not the standard sizes, or something failed (see --out)")
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
    """Entry point. Ctrl-C, or SIGTERM, ends the running contender and the broker: code 130."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app(prog_name="python -m bench")


if __name__ == "__main__":
    main()
