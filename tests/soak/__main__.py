"""`python -m tests.soak`: time compressed."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from conversations.config import Kafka
from conversations_ops.broker import BrokerError, EmbeddedBroker
from conversations_ops.broker.sockets import free_ports
from conversations_ops.console.exit_codes import Exit
from conversations_ops.demo.screen import Screen
from conversations_ops.host.foreground import ended_by_sigterm, logged_to
from conversations_ops.settings.given import DIVIDED_BY as VARIABLE
from tests.soak.broker import settings
from tests.soak.figures import thirds
from tests.soak.run import Options, Outcome, Soak

SHOWN = 25

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def soak(
    minutes: Annotated[float, typer.Option(min=0.5, help="How long bursts and silences alternate.")] = 30.0,
    factor: Annotated[
        float, typer.Option(min=1, help="All periods are so many times shorter; 720: a day in 2 min.")
    ] = 720.0,
    seed: Annotated[int, typer.Option(help="Decides what is said and who is restarted; drawn if left out.")] = -1,
    messages: Annotated[int, typer.Option(min=100, help="Of one burst, entries and receipts.")] = 1_000,
    dialogs: Annotated[int, typer.Option(min=1, help="That share them.")] = 60,
    others: Annotated[int, typer.Option(min=0, help="Dialogs of other kinds in one burst.")] = 40,
    kill_every: Annotated[float, typer.Option(min=1, help="Seconds between two restarts in a burst.")] = 6.0,
    audit: Annotated[bool, typer.Option(help="Let Spark's delivery audit read the topics at the end.")] = True,
    keep: Annotated[bool, typer.Option("--keep", help="Keep everything, however it ends.")] = False,
) -> None:
    """Live through weeks in minutes: every period of the product, and of its broker, shortened in one proportion.

    Bursts of dialogs of all kinds (short and long, with messages that fail and are retried, skipped, held and decided about,
    errors, timers, lifetimes that end, contracts that are refused) alternate with silences in which queues tick and forget.
    Workers are restarted by SIGTERM and SIGKILL in both. Nothing may die by itself, nothing may grow, the independent checker
    of the chaos runs and the delivery audit must find nothing.

    \b
    Examples:
      python -m tests.soak                              # half an hour, two weeks
      python -m tests.soak --minutes 10 --factor 240    # on a slow machine

    The memory of a closed dialog must outlive a restart: 70 minutes divided by the factor. A machine that takes longer to restart a worker
    needs a smaller factor.

    Exit codes: 0 clean, 1 not clean (everything is kept), 3 no broker, 130 Ctrl-C.
    """  # noqa: D301 - \b keeps Typer from re-wrapping a paragraph
    number = secrets.randbelow(1_000_000) if seed < 0 else seed
    options = Options(
        seconds=minutes * 60, factor=factor, seed=number, messages=messages, dialogs=dialogs, others=others,
        partitions=3, kill_every=kill_every, audit=audit,
    )  # fmt: skip
    screen = Screen(Console())
    directory = Path(tempfile.mkdtemp(prefix=f"conversations-soak-{number}-"))
    clean = False
    try:
        with ended_by_sigterm():
            outcome = carry_out(options, directory, screen)
        clean = not outcome.wrong
        _tell(outcome, options, screen)
    except BrokerError as error:
        screen.say(f"error: {error}")
        raise typer.Exit(Exit.UNREACHABLE) from error
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        if clean and not keep:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            screen.say(
                f"Everything is kept in {directory}. Again: python -m tests.soak --seed {number} --factor {factor:g}"
            )
    if not clean:
        raise typer.Exit(Exit.HUMAN)


def carry_out(options: Options, directory: Path, screen: Screen) -> Outcome:
    """Soak on a broker of its own."""
    screen.say(f"Seed {options.seed}, periods divided by {options.factor:g}. Starting Kafka ...")
    os.environ[VARIABLE] = f"{options.factor:g}"
    (port,) = free_ports(1)
    broker = EmbeddedBroker(directory / "kafka", port, settings=settings(options.factor))
    with logged_to(directory / "driver.log"), contextlib.closing(_Started(broker)):
        return Soak(options, Kafka(broker.bootstrap, namespace=f"soak{options.seed}"), directory, screen).run()


class _Started:
    """A broker that was started, at the second try if the machine was too busy for the first."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker
        try:
            broker.start()
        except BrokerError:
            broker.start()

    def close(self) -> None:
        """Stop it."""
        self._broker.stop()


def _tell(outcome: Outcome, options: Options, screen: Screen) -> None:
    days = outcome.seconds * options.factor / 86_400
    done = " · ".join(f"{what} {count:,}" for what, count in sorted(outcome.counts.items()))
    screen.say(f"{outcome.seconds:.0f} s, {days:.1f} days of the product, {outcome.bursts} bursts · {done}")
    for name, (first, last) in thirds(outcome.samples).items():
        screen.say(f"  {name}: first third {first:.0f}, last third {last:.0f}")
    screen.say(outcome.line)
    for line in outcome.wrong[:SHOWN]:
        screen.say(f"  {line}")
    screen.say("Clean." if not outcome.wrong else f"NOT CLEAN, {len(outcome.wrong)} things (seed {options.seed}).")


if __name__ == "__main__":
    # Worker processes import this package, and the code beside it, from wherever they are started.
    root = Path(__file__).resolve().parents[2]
    os.chdir(root)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    app()
