"""`python -m tests.chaos.speakers`: the command line of the chaos run of speakers."""

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
from tests.chaos.proof import said
from tests.chaos.run import Stalled
from tests.chaos.speakers.run import Options, Run
from tests.chaos.speakers.services import STOP, TOPICS
from tests.chaos.verdict import Verdict

PARTITIONS = 4
LONGEST_REPORT = 25
"""Lines about what is wrong that are shown."""

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def speakers(
    seconds: Annotated[float, typer.Option(min=1, help="How long the speakers speak.")] = 240.0,
    dialogs: Annotated[int, typer.Option(min=1, help="Dialogs on which all three speak.")] = 12,
    kill_every: Annotated[float, typer.Option(min=0.2, help="Seconds between two SIGKILLs of a random worker.")] = 2.0,
    workers: Annotated[int, typer.Option(min=2, help="Worker processes of each of the two services.")] = 2,
    seed: Annotated[int, typer.Option(help="Decides what is killed; drawn if left out.")] = -1,
    keep: Annotated[bool, typer.Option("--keep", help="Keep Kafka's data and the records, however it ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Let a web hook, a terminal and a handler speak at once on the same accepted dialogs, and prove that there is one order.

    Starts a Kafka broker of its own, two services in real worker processes and a web server. speakers-desk begins the dialogs.
    speakers-shop accepts them, and speaks in its handler, by requests to the web server, and by `conversations dialogs send`. Readers of
    both services ask all the time how the dialogs stand.

    \b
    Meanwhile
      every 2 s   a random worker process is killed (SIGKILL) and started again at once
      every 10 s  the web server is killed, and requests are repeated with the same idempotency key
      a quarter   of the processes of the terminal are killed, and their commands are repeated with the same key

    At the end a checker that shares no code with the services reads all topics. What was accepted of a speaker must be heard exactly once, the
    numbers of a dialog have no holes, and each speaker's own order is kept. No view of a reader may be earlier than the committed records
    that make it true.

    \b
    Examples:
      python -m tests.chaos.speakers
      python -m tests.chaos.speakers --seconds 20 --dialogs 4 --json | jq .line

    Exit codes: 0 clean, 1 not clean (the folder with Kafka's data stays), 2 wrong usage, 3 no broker, 130 Ctrl-C.
    """  # noqa: D301 - \b keeps Typer from re-wrapping a paragraph
    number = secrets.randbelow(1_000_000) if seed < 0 else seed
    options = Options(
        seconds=seconds, dialogs=dialogs, kill_every=kill_every, workers=workers, partitions=PARTITIONS, seed=number
    )
    screen = Screen(Console(stderr=as_json))
    directory = Path(tempfile.mkdtemp(prefix=f"conversations-speakers-{number}-"))
    os.environ.update({TOPICS: f"speakers{number}", STOP: str(directory / "stop")})
    verdict = Verdict(
        number, directory, "workers.log, hook.log, driver.log, plan.json, views.jsonl, kafka/", keep, as_json, screen
    )
    verdict.tell(lambda: _carry_out(directory, options, screen))


def _carry_out(directory: Path, options: Options, screen: Screen) -> dict[str, Any]:
    screen.say(f"Seed {options.seed}. Starting Kafka ...")
    with logged_to(directory / "driver.log"), EmbeddedBroker(directory / "kafka") as broker:
        kafka = Kafka(broker.bootstrap, namespace=f"chaos{options.seed}")
        run = Run(kafka, directory, options, screen)
        started, wrong = time.monotonic(), list[str]()
        try:
            run.run()
        except (Stalled, LogError, ExceptionGroup) as error:
            wrong.append(repr(error))
        seconds = time.monotonic() - started
        screen.say(f"{seconds:.0f} s · " + " · ".join(f"{what} {count:,}" for what, count in run.counts.items()))
        where = ["--bootstrap", kafka.bootstrap]
        checker = [sys.executable, "-m", "tests.chaos.checker.speakers", *where, "--records", str(directory), "--json"]
        found, _, trouble = said("the checker", checker)
    listed = [] if found is None else [f"{name}: {it}" for name, items in found["wrong"].items() for it in items]
    lines = [*wrong, *listed[:LONGEST_REPORT], trouble or (found or {})["line"]]
    clean = found is not None and found["clean"] and not wrong
    return {
        "clean": clean, "line": lines[-1], "lines": lines, "seconds": round(seconds, 1), "counts": run.counts,
        "ends": dict(run.fleet.ends), "found": found,
    }  # fmt: skip


if __name__ == "__main__":
    # Worker processes import this package, and the code beside it, from wherever they are started.
    root = Path(__file__).resolve().parents[3]
    os.chdir(root)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    app()
