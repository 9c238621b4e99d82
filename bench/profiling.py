"""Shows where one of our contenders spends its time."""

from __future__ import annotations

import sys
import tempfile

import typer

from bench import topics
from bench.cases import Case
from bench.children import RunFailed, work
from bench.contenders.roster import CONTENDERS
from bench.plan import Plan
from bench.workload import Workload
from conversations_ops.broker import EmbeddedBroker

SPACE = "bench-profile"


def show_profile(name: str, plan: Plan) -> None:
    """Run one of our contenders once under the profiler and print the profile."""
    contender = CONTENDERS[name]
    case = Case(name, contender, plan.scaled(Workload(plan.messages, plan.dialogs)))
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory(prefix="bench-") as directory:
        job = case.job(broker.bootstrap, SPACE, directory, profile=True)
        contender.fill(job)
        try:
            print(work(contender.command(job), case.limit).rsplit("\n", 2)[0])
        except RunFailed as error:
            print(error, file=sys.stderr)
            raise typer.Exit(1) from error
        finally:
            topics.drop(job.bootstrap, job.space)
