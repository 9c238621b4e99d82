"""`python -m tests.chaos.resend`: the command line of the chaos run of resends."""

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

from conversations.config import Kafka
from conversations.errors import LogError
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.demo.screen import Screen
from conversations_ops.host.foreground import logged_to
from tests.chaos.proof import audit, said
from tests.chaos.resend.plan import Plan
from tests.chaos.resend.run import Options, Run
from tests.chaos.resend.services import LENGTH, TOPICS
from tests.chaos.run import Stalled
from tests.chaos.verdict import Verdict

PARTITIONS = 8
LONGEST_REPORT = 25
"""Faults of the audit that are shown."""

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def resend(
    dialogs: Annotated[int, typer.Option(min=1, help="Dialogs.")] = 10_000,
    length: Annotated[int, typer.Option(min=4, help="Items of each dialog.")] = 10,
    kill_every: Annotated[float, typer.Option(min=0.2, help="Seconds between two SIGKILLs of a random worker.")] = 2.0,
    workers: Annotated[int, typer.Option(min=2, help="Worker processes of each of the two services.")] = 2,
    seed: Annotated[int, typer.Option(help="Decides what is broken; drawn if left out.")] = -1,
    with_audit: Annotated[
        bool, typer.Option("--audit", help="Let Spark's delivery audit read all topics too.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep Kafka's data and the records, however it ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Break every dialog once to four times, and prove that each item is handled once, in order, or is one dead letter.

    Starts a Kafka broker of its own and two services in real worker processes. resend-source says the items of each dialog, one after the
    other, and resend-sink handles them. Both publish what they do, in the transaction in which they do it.

    \b
    Meanwhile
      dialogs     break with -8489, -8462, -9719 and -28052: their lifetime ends, an operator cleans their target up, or
                  both sides are told of an error whose cause does not exist yet. So new dialogs carry on, up to three
      every 2 s   a random worker process is killed (SIGKILL) and started again at once
      every 12 s  a queue of the sink is off for 4 s
      always      some handlers are slow, some fail and are tried again later, some reply

    At the end a checker that shares no code with the services compares the items that were sent, the items that were handled and
    the dead letters. An item is undecided if its letter says so, or if it was handled and is a letter as well.

    \b
    Examples:
      python -m tests.chaos.resend --audit
      python -m tests.chaos.resend --dialogs 300 --kill-every 5 --json | jq .line

    Exit codes: 0 clean, 1 not clean (the folder with Kafka's data stays), 2 wrong usage, 3 no broker, 130 Ctrl-C.
    """  # noqa: D301 - \b keeps Typer from re-wrapping a paragraph
    number = secrets.randbelow(1_000_000) if seed < 0 else seed
    options = Options(kill_every=kill_every, workers=workers, partitions=PARTITIONS, seed=number)
    screen = Screen(Console(stderr=as_json))
    directory = Path(tempfile.mkdtemp(prefix=f"conversations-resend-{number}-"))
    os.environ.update({LENGTH: str(length), TOPICS: f"resend{number}"})
    verdict = Verdict(number, directory, "workers.log, driver.log, plan.json, kafka/", keep, as_json, screen)
    verdict.tell(lambda: _carry_out(Plan(number, dialogs, length), directory, options, screen, with_audit=with_audit))


def _carry_out(plan: Plan, directory: Path, options: Options, screen: Screen, *, with_audit: bool) -> dict[str, Any]:
    screen.say(f"Seed {options.seed}. Starting Kafka ...")
    with logged_to(directory / "driver.log"), EmbeddedBroker(directory / "kafka") as broker:
        kafka = Kafka(broker.bootstrap, namespace=f"chaos{options.seed}")
        plan.write(directory, kafka.namespace)
        run = Run(kafka, plan, directory, options, screen)
        started, wrong = time.monotonic(), list[str]()
        try:
            run.run()
        except (Stalled, LogError, ExceptionGroup) as error:
            wrong.append(repr(error))
        seconds = time.monotonic() - started
        screen.say(f"{seconds:.0f} s · " + " · ".join(f"{what} {count:,}" for what, count in run.counts.items()))
        if with_audit:
            screen.say("Auditing with Spark ...")
        audited = audit(kafka) if with_audit else None
        where = ["--bootstrap", kafka.bootstrap]
        checker = [sys.executable, "-m", "tests.chaos.checker.resends", *where, "--records", str(directory), "--json"]
        found, _, trouble = said("the checker", checker)
    told = [] if audited is None else [*audited.wrong[:LONGEST_REPORT], audited.line]
    lines = [*wrong, *filter(None, told), trouble or (found or {})["line"]]
    clean = found is not None and found["clean"] and not wrong and (audited is None or audited.clean)
    return {
        "clean": clean, "line": lines[-1], "lines": lines, "seconds": round(seconds, 1), "counts": run.counts,
        "ends": dict(run.fleet.ends), "found": found, "audit": None if audited is None else audited.facts,
    }  # fmt: skip


if __name__ == "__main__":
    # Worker processes import this package, and the code beside it, from wherever they are started.
    root = Path(__file__).resolve().parents[3]
    os.chdir(root)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    app()
