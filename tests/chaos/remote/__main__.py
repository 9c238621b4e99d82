"""`python -m tests.chaos.remote`: the command line of the chaos run of two clusters."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from conversations.errors import LogError
from conversations_ops.demo.screen import Screen
from conversations_ops.host.foreground import logged_to
from tests.chaos.proof import audit, said
from tests.chaos.remote.clusters import EMEA, HOME, reroute, running
from tests.chaos.remote.forwarding import Fault
from tests.chaos.remote.planted import LOSES, REPEATS, environment
from tests.chaos.remote.run import Options, Run
from tests.chaos.remote.services import LARGE, LENGTH, PACE, TOPIC
from tests.chaos.run import Stalled
from tests.chaos.verdict import Verdict

PARTITIONS = 4
LONGEST_REPORT = 25
"""Lines about what is wrong that are shown."""
FIRST_AWAY, OVERLAP = 15.0, 0.5
"""Seconds until the first cluster is away, and the share of this time in which both are away."""

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def remote(
    messages: Annotated[int, typer.Option(min=10, help="Messages in each direction.")] = 100_000,
    dialogs: Annotated[int, typer.Option(min=2, help="Dialogs; each side begins one half of them.")] = 2_000,
    kill_every: Annotated[float, typer.Option(min=0.2, help="Seconds between two SIGKILLs of a random process.")] = 2.0,
    kill_brokers_every: Annotated[
        float, typer.Option(min=10, help="Seconds from the start of the brokers until one is killed.")
    ] = 100.0,
    away: Annotated[float, typer.Option(min=1, help="Seconds for which each cluster is away once.")] = 120.0,
    share: Annotated[float, typer.Option(min=0, max=0.5, help="Share of the envelopes that are harmed.")] = 0.01,
    flip: Annotated[bool, typer.Option(help="One of the harms is a flipped bit.")] = True,
    large: Annotated[float, typer.Option(min=0, max=0.05, help="Share of the messages that have 5 MB.")] = 0.0002,
    pace: Annotated[float, typer.Option(min=0.1, help="Seconds between two bursts of a dialog.")] = 2.0,
    at_once: Annotated[int, typer.Option(min=1, help="Dialogs of each side that may be unfinished at once.")] = 400,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes of each service.")] = 2,
    forwarders: Annotated[int, typer.Option(min=1, help="Forwarders in each direction.")] = 2,
    calm_after: Annotated[float, typer.Option(min=5, help="Seconds after which nobody is killed any more.")] = 420.0,
    within: Annotated[float, typer.Option(min=10, help="Seconds in which all must be done.")] = 480.0,
    plant: Annotated[str, typer.Option(help=f"A fault to plant: {LOSES} or {REPEATS}.")] = "",
    seed: Annotated[int, typer.Option(help="Decides what is harmed; drawn if left out.")] = -1,
    with_audit: Annotated[
        bool,
        typer.Option(
            "--audit", help="Let the delivery audit with Spark read both clusters, too. It must find no fault."
        ),
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep Kafka's data and the records, however it ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Let dialogs cross two clusters while everything between and on them fails, and prove that each message is handled once, in order.

    Starts two Kafka brokers, a service on each in real worker processes, and forwarders in both directions, which reach the other cluster
    through a network of this run. Each service begins one half of the dialogs. It says the items, and the other one replies to each of them.

    \b
    Meanwhile
      every 2 s    a random worker or forwarder is killed (SIGKILL) and started again at once
      after 100 s  a broker is killed (SIGKILL) and started again, again and again
      always       connections between the clusters are cut, hang, or are slow
      once         each cluster cannot be reached for two minutes
      1 %          of the envelopes are lost, repeated, damaged or come later on the way
      some         messages have 5 MB, and go in fragments

    At the end a checker that shares no code with the product compares what the handlers of both clusters have noted in their transactions.

    \b
    Examples:
      python -m tests.chaos.remote
      python -m tests.chaos.remote --messages 2000 --dialogs 40 --away 10 --json | jq .line

    Exit codes: 0 clean, 1 not clean (the folder with Kafka's data stays), 2 wrong usage, 3 no broker, 130 Ctrl-C.
    """  # noqa: D301 - \b keeps Typer from re-wrapping a paragraph
    if plant not in {"", LOSES, REPEATS}:
        raise typer.BadParameter(f"--plant {plant}: {LOSES} or {REPEATS}")
    number = secrets.randbelow(1_000_000) if seed < 0 else seed
    options = Options(
        length=max(1, messages // dialogs), kill_every=kill_every, kill_brokers_every=kill_brokers_every, away=away,
        away_at=(FIRST_AWAY, FIRST_AWAY + (1 - OVERLAP) * away), within=within, calm_after=calm_after, share=share, workers=workers, forwarders=forwarders,
        faults=tuple(it for it in Fault if flip or it is not Fault.FLIP), partitions=PARTITIONS, seed=number, at_once=at_once,
    )  # fmt: skip
    screen = Screen(Console(stderr=as_json))
    directory = Path(tempfile.mkdtemp(prefix=f"conversations-remote-{number}-"))
    os.environ.update(
        {
            LENGTH: str(options.length),
            TOPIC: f"remote{number}.notes",
            LARGE: str(large),
            PACE: str(pace),
            **environment(plant),
        }
    )
    verdict = Verdict(
        number, directory, "*/workers.log, forwarders.log, network.log, driver.log, kafka-*", keep, as_json, screen
    )
    verdict.tell(lambda: _carry_out(dialogs, directory, options, screen, with_audit=with_audit))


def _carry_out(dialogs: int, directory: Path, options: Options, screen: Screen, *, with_audit: bool) -> dict[str, Any]:
    screen.say(f"Seed {options.seed}. Starting two Kafkas ...")
    with logged_to(directory / "driver.log"), running(directory) as sides:
        run = Run(sides, f"chaos{options.seed}", dialogs, directory, options, screen)
        started, wrong = time.monotonic(), list[str]()
        try:
            run.run()
        except (Stalled, LogError, ExceptionGroup) as error:
            wrong.append(repr(error))
        seconds = time.monotonic() - started
        screen.say(f"{seconds:.0f} s · " + " · ".join(f"{what} {count:,}" for what, count in run.counts.items()))
        where = [option for side in sides.values() for option in ("--bootstrap", side.broker.bootstrap)]
        checker = [sys.executable, "-m", "tests.chaos.checker.remote", *where, "--records", str(directory), "--json"]
        found, _, trouble = said("the checker", checker)
        audited = None
        if with_audit:
            screen.say("Auditing with Spark ...")
            reroute(sides, f"chaos{options.seed}")
            audited = audit(sides[HOME].kafka(f"chaos{options.seed}"), EMEA)
    told = [] if audited is None else [*audited.wrong[:LONGEST_REPORT], audited.line]
    listed = [] if found is None else [f"{name}: {it}" for name, items in found["wrong"].items() for it in items]
    lines = [*wrong, *listed[:LONGEST_REPORT], *told, trouble or (found or {})["line"]]
    clean = found is not None and found["clean"] and not wrong and (audited is None or audited.clean)
    return {
        "clean": clean, "line": lines[-1], "lines": lines, "seconds": round(seconds, 1), "counts": run.counts,
        "ends": [dict(fleet.ends) for fleet in run.fleets], "found": found, "audit": None if audited is None else audited.facts,
    }  # fmt: skip


if __name__ == "__main__":
    # Worker processes import this package, and the code beside it, from wherever they are started.
    root = Path(__file__).resolve().parents[3]
    os.chdir(root)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    app()
