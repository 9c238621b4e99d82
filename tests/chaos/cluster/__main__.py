"""`python -m tests.chaos.cluster`: the command line of the chaos run on a cluster."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from conversations.errors import LogError
from conversations_ops.broker import BrokerError
from conversations_ops.console.exit_codes import Exit
from conversations_ops.demo.screen import Screen
from conversations_ops.host.foreground import ended_by_sigterm, logged_to
from tests.chaos.cluster.faults import Kind
from tests.chaos.cluster.nodes import Nodes
from tests.chaos.cluster.proxy import Proxy
from tests.chaos.cluster.run import ClusterRun, Options
from tests.chaos.plan import Injected
from tests.chaos.proof import Proof, prove
from tests.chaos.run import Result

PARTITIONS = 4
LONGEST_REPORT = 25
"""Lines about what is wrong that are shown; the rest is in the folder."""
ALL = ",".join(kind.value for kind in Kind)

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


def _kinds(text: str) -> tuple[Kind, ...]:
    try:
        return tuple(Kind(name) for name in text.split(",") if name)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: kinds of faults are {ALL}") from None


@app.command()
def cluster(
    faults: Annotated[str, typer.Option(help="Kinds of faults, with commas between them.")] = ALL,
    seconds: Annotated[float, typer.Option(min=5, help="How long things go wrong.")] = 150.0,
    messages: Annotated[int, typer.Option(min=100, help="Entries and receipts together.")] = 6_000,
    dialogs: Annotated[int, typer.Option(min=1, help="Dialogs that share them, unevenly.")] = 300,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes of each of the two services.")] = 2,
    seed: Annotated[int, typer.Option(help="Decides what is said and what goes wrong; drawn if left out.")] = -1,
    within: Annotated[float, typer.Option(help="Seconds after the last fault within which all must be done.")] = 60.0,
    spark: Annotated[bool, typer.Option(help="A Spark stream and the archive read beside it.")] = True,
    plan: Annotated[bool, typer.Option("--plan", help="Print the faults, and do nothing.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep Kafka's data and the records, however it ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Break a cluster and the network in it, and prove that nothing was lost, repeated, swapped or stuck.

    Starts three Kafka nodes (three copies of everything, two of which must confirm) behind a proxy that all connections go
    through, and the services of `python -m tests.chaos` in real worker processes.

    \b
    Meanwhile, after a plan drawn from the seed,
      brokers   are killed, stopped, frozen, now and then two at a time
      cuts      brokers are cut from each other, from their clients, from both; bytes are lost in one direction
      latency   bytes come late
      workers   are killed and frozen
      copies    local copies of state are damaged, and set back to old ones
      clocks    of workers are off by up to two days
    and a Spark stream and the archive read all dialogs.

    When the last fault is over, everything must be done within 60 seconds (--within). Then the workers are stopped in order, and the
    checker that shares no code with what it judges reads all topics, the archive and what the stream wrote.

    What the seed cannot decide is time: so a seed that failed may pass; run it again and again.

    \b
    Examples:
      python -m tests.chaos.cluster                            # about five minutes on two cores
      python -m tests.chaos.cluster --seed 7 --plan            # what will go wrong
      python -m tests.chaos.cluster --faults cuts,workers --seconds 60 --no-spark
      python -m tests.chaos.cluster --seed 7 --json | jq .line

    Exit codes: 0 clean, 1 not clean (the folder with everything stays), 2 wrong usage, 3 no brokers, 130 Ctrl-C.
    """  # noqa: D301 - \b keeps Typer from re-wrapping a paragraph
    if messages < 2 * dialogs:
        raise typer.BadParameter("every dialog has an entry and a receipt: --messages must be at least twice --dialogs")
    options = Options(
        messages=messages, dialogs=dialogs, seconds=seconds, kinds=_kinds(faults), workers=workers, within=within,
        partitions=PARTITIONS, seed=secrets.randbelow(1_000_000) if seed < 0 else seed, spark=spark,
    )  # fmt: skip
    screen = Screen(Console(stderr=as_json))
    directory = Path(tempfile.mkdtemp(prefix=f"conversations-cluster-{options.seed}-"))
    clean = False
    try:
        with ended_by_sigterm():
            proof = _carry_out(options, directory, screen, only_plan=plan)
        clean = proof is None or proof.clean
        if proof is not None:
            _tell(proof, options, screen, as_json=as_json)
    except BrokerError as error:
        screen.say(f"error: {error}")
        raise typer.Exit(Exit.UNREACHABLE) from error
    except KeyboardInterrupt:
        screen.say("Stopped; nothing is left running.")
        clean = True  # nothing was found out
        raise typer.Exit(130) from None
    finally:
        if clean and not keep:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            _say_how_to_look(directory, options, screen)
    if not clean:
        raise typer.Exit(Exit.HUMAN)


def _carry_out(options: Options, directory: Path, screen: Screen, *, only_plan: bool) -> Proof | None:
    nodes = Nodes(directory / "kafka")
    with logged_to(directory / "driver.log"), Proxy(nodes.routes()) as proxy:
        run = ClusterRun(options, nodes, proxy, directory, screen)
        screen.say(f"Seed {options.seed}. What will go wrong:")
        for fault in run.faults:
            screen.say(f"  {fault}")
        if only_plan:
            return None
        screen.say("Starting three brokers ...")
        try:
            nodes.start_all()
            try:
                result = run.run()
            except (LogError, ExceptionGroup) as error:
                result = Result(
                    run.harm.elapsed, dict(run.fleet.counts), Injected(), [repr(error)], dict(run.fleet.ends)
                )
            screen.say(f"{_told(run, result)}\nReading all topics ...")
            return prove(run.kafka, run.records, result, run.beside.outputs)
        finally:
            nodes.close()


def _told(run: ClusterRun, result: Result) -> str:
    line = f"{result.seconds:.0f} s · " + " · ".join(
        f"{what} {count:,}" for what, count in result.counts.items() if count
    )
    ends = [f"  a worker ended by itself, {count} times: {text:.300}" for text, count in result.ends.items()]
    done = f"All was done {run.finished_after:.0f} s after the last fault." if run.finished_after is not None else ""
    return "\n".join(filter(None, [line, *ends, done]))


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
            "figures": proof.figures,
        }
        typer.echo(json.dumps(facts))
    screen.say(proof.line)
    for line in proof.wrong[:LONGEST_REPORT]:
        screen.say(f"  {line}")
    screen.say("Clean." if proof.clean else f"NOT CLEAN (seed {options.seed}).")


def _say_how_to_look(directory: Path, options: Options, screen: Screen) -> None:
    kinds = ",".join(kind.value for kind in options.kinds)
    screen.say(
        f"Everything is kept in {directory}: faults.log, workers.log, spark.log, driver.log, records/, archive/, stream/, kafka/. "
        f"Again:\n  python -m tests.chaos.cluster --seed {options.seed} --faults {kinds} --seconds {options.seconds:g} "
        f"--messages {options.messages} --dialogs {options.dialogs} --workers {options.workers} --within {options.within:g}"
        f"{'' if options.spark else ' --no-spark'}"
    )


if __name__ == "__main__":
    # Worker processes import this package, and the code beside it, from wherever they are started.
    root = Path(__file__).resolve().parents[3]
    os.chdir(root)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    app()
