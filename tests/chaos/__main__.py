"""`python -m tests.chaos`: the command line of the chaos run."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from conversations.config import Kafka
from conversations.errors import LogError
from conversations_ops.broker import BrokerError, EmbeddedBroker
from conversations_ops.console.exit_codes import Exit
from conversations_ops.demo.screen import Screen
from conversations_ops.host.foreground import ended_by_sigterm, logged_to
from tests.chaos.proof import Proof, audited, prove
from tests.chaos.run import Chaos, Options, Result, Stalled
from tests.support.ports import KeptPorts

PARTITIONS = 8
LONGEST_REPORT = 25
"""Lines about what is wrong that are shown; the rest is in the folder."""

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def chaos(
    messages: Annotated[int, typer.Option(min=100, help="Entries and receipts together.")] = 200_000,
    dialogs: Annotated[int, typer.Option(min=1, help="Dialogs that share them, unevenly.")] = 2_000,
    kill_every: Annotated[float, typer.Option(min=0.2, help="Seconds between two SIGKILLs of a random worker.")] = 2.0,
    workers: Annotated[int, typer.Option(min=2, help="Worker processes of each of the two services.")] = 2,
    poison: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the dialogs in which an entry fails until something is done.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Decides what is said and what is harmed; drawn if left out.")] = -1,
    audit: Annotated[
        bool, typer.Option("--audit", help="Let Spark's delivery audit read all topics too; it must find nothing.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep Kafka's data and the records, however it ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Break everything that can break, and prove that nothing was lost, repeated or swapped.

    Starts a Kafka broker of its own and two services in real worker processes: chaos-teller begins dialogs and sends
    entries, chaos-ledger answers each with a receipt. Both keep a running digest of what they handled.

    \b
    Meanwhile
      every 2 s   a random worker process is killed (SIGKILL) and started again at once
      three times a worker is stopped (SIGSTOP) for 8 s, longer than its session of 3 s: it wakes up
                  with a step in its hands, whose partitions belong to somebody else
      once        the broker is stopped in order, is away, and comes back. (Not killed, and while it goes down
                  the workers are held still: a lone broker that stops between the promise of a commit and
                  the end of it undoes what it promised; replicas are for that.)
      once        all workers are replaced by another release, one after the other: another field in
                  bodies and in state; at workers of the old release, messages wait whose state is newer
      1 %         of the records of queues and commands are put on the wire a second time: half of
                  them at once, half after their dialogs are over
      0.1 %       each are copied to a wrong partition, and spoilt: truncated, garbage,
                  key or value missing
      always      some handlers are slower than a step, and some fail at their first attempt
      --poison    in this share of the dialogs an entry fails one to six times, under a policy that allows four
                  attempts and then skips it, ends the dialog, holds it, or turns the queue off; operators
                  retry, edit, skip or end what is held, and turn queues on again

    At the end the workers are stopped in order, and a checker that shares no code with the services reads all topics;
    with --audit the product's own audit, `conversations spark delivery-audit`, does the same.

    What the seed cannot decide is time: when a process dies in relation to what it was doing. So a seed that failed
    may pass; run it again and again.

    \b
    Examples:
      python -m tests.chaos --audit                        # about ten minutes on two cores
      python -m tests.chaos --messages 20000 --dialogs 400 --kill-every 5
      python -m tests.chaos --messages 100000 --poison 0.05
      python -m tests.chaos --seed 7 --json | jq .line
      python -m tests.chaos --keep                         # and look at the topics afterwards

    Exit codes: 0 clean, 1 not clean (the folder with Kafka's data stays), 2 wrong usage, 3 no broker, 130 Ctrl-C.
    """  # noqa: D301 - \b keeps Typer from re-wrapping a paragraph
    if messages < 2 * dialogs:
        raise typer.BadParameter("every dialog has an entry and a receipt: --messages must be at least twice --dialogs")
    number = secrets.randbelow(1_000_000) if seed < 0 else seed
    options = Options(
        messages=messages, dialogs=dialogs, kill_every=kill_every, workers=workers, partitions=PARTITIONS, seed=number,
        poison=poison, audit=audit,
    )  # fmt: skip
    screen = Screen(Console(stderr=as_json))
    directory = Path(tempfile.mkdtemp(prefix=f"conversations-chaos-{number}-"))
    clean = False
    try:
        with ended_by_sigterm():
            proof = _carry_out(options, directory, screen)
        clean = proof.clean
        _tell(proof, options, screen, as_json=as_json)
    except BrokerError as error:
        screen.say(f"error: {error}")
        clean = True  # nothing was found out
        raise typer.Exit(Exit.UNREACHABLE) from error
    except KeyboardInterrupt:
        screen.say("Stopped; nothing is left running.")
        clean = True  # the same
        raise typer.Exit(130) from None
    finally:
        if clean and not keep:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            _say_how_to_look(directory, options, screen)
    if not clean:
        raise typer.Exit(Exit.HUMAN)


def _carry_out(options: Options, directory: Path, screen: Screen) -> Proof:
    screen.say(f"Seed {options.seed}. Starting Kafka ...")
    with (
        logged_to(directory / "driver.log"),
        KeptPorts(1) as ports,  # the port is the same after the restart
        EmbeddedBroker(directory / "kafka", *ports.numbers) as broker,
    ):
        kafka = Kafka(broker.bootstrap, namespace=f"chaos{options.seed}")
        run = Chaos(options, kafka, directory, broker, screen)
        started = time.monotonic()
        try:
            result = run.run()
        except (Stalled, LogError, ExceptionGroup) as error:
            seconds = time.monotonic() - started
            result = Result(seconds, dict(run.fleet.counts), run.injected, [repr(error)], dict(run.fleet.ends))
        screen.say(f"{_told(result)}\nReading all topics ...")
        proof = prove(kafka, run.records, result)
        if not options.audit:
            return proof
        screen.say("Auditing with Spark ...")
        return audited(kafka, proof)


def _told(result: Result) -> str:
    harm = {**result.counts, **{kind: result.injected.count(kind) for kind in sorted(result.injected.places)}}
    line = f"{result.seconds:.0f} s · " + " · ".join(f"{what} {count:,}" for what, count in harm.items())
    ends = [f"  a worker ended by itself, {count} times: {text:.300}" for text, count in result.ends.items()]
    return "\n".join([line, *ends])


def _tell(proof: Proof, options: Options, screen: Screen, *, as_json: bool) -> None:
    if as_json:
        facts = {
            "seed": options.seed,
            "clean": proof.clean,
            "line": proof.line,
            "wrong": proof.wrong,
            "seconds": round(proof.result.seconds, 1),
            "counts": proof.result.counts,
            "ends": proof.result.ends,
            "injected": {kind: proof.result.injected.count(kind) for kind in proof.result.injected.places},
            "figures": proof.figures,
            "audit": proof.audit,
        }
        typer.echo(json.dumps(facts))
    screen.say(proof.line)
    for line in proof.wrong[:LONGEST_REPORT]:
        screen.say(f"  {line}")
    screen.say("Clean." if proof.clean else f"NOT CLEAN (seed {options.seed}).")


def _say_how_to_look(directory: Path, options: Options, screen: Screen) -> None:
    screen.say(
        f"Everything is kept in {directory}: workers.log, driver.log, records/, kafka/. To look at it:\n"
        f"  conversations broker start --name chaos --data {directory}/kafka\n"
        f"  python -m tests.chaos.checker --bootstrap HOST:PORT --records {directory}/records\n"
        f"  conversations spark delivery-audit --bootstrap HOST:PORT --namespace chaos{options.seed}\n"
        f"and again: python -m tests.chaos --seed {options.seed} --messages {options.messages} "
        f"--dialogs {options.dialogs} --kill-every {options.kill_every:g} --workers {options.workers} "
        f"--poison {options.poison:g}{' --audit' if options.audit else ''}"
    )


if __name__ == "__main__":
    # Worker processes import this package, and the code beside it, from wherever they are started.
    root = Path(__file__).resolve().parents[2]
    os.chdir(root)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    app()
