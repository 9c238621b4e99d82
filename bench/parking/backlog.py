"""Measures how a worker takes up and handles a million parked messages, and how a redrive gives held messages back."""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Any

from bench import quiet, topics, verify
from bench.children import Child, RunFailed, result_of, work
from bench.contenders import our_loop
from bench.ground import Ground
from bench.parking.rows import parked_rows
from bench.scale import subject
from bench.serving import difference
from bench.workload import PARTITIONS, Job, Workload
from conversations import Kafka
from conversations.protocol.command import Action
from conversations.protocol.endpoint import NEVER
from conversations.protocol.parked import Decision
from conversations_ops.operate.parked import parked_messages
from conversations_ops.operate.redrive.drive import Drive
from conversations_ops.operate.redrive.journal import History, Journal
from conversations_ops.operate.redrive.outcomes import End, Outcome
from conversations_ops.operate.redrive.plan import Care, Plan, freeze
from conversations_ops.operate.redrive.selection import Selector

PER_DIALOG = 100
LIMIT = 900.0
"""Maximum number of seconds that the worker process may take."""
FAST = 1e6
"""Letters per second of a redrive; so many that the rate is no limit."""


def restore(ground: Ground, messages: int) -> dict[str, Any]:
    """Let a worker with an empty directory take up parked messages that are not due for hours.

    Raises:
        RunFailed: the worker failed.
    """
    space, dialogs = ground.space(), max(1, messages // PER_DIALOG)
    _fill(ground, space, dialogs, PER_DIALOG, due=time.time_ns() // 1_000 + 6 * subject.HOUR)
    told = _worked(ground, space, "bench.scale.opening", dialogs)
    topics.drop(ground.bootstrap, space)
    return told


def drain(ground: Ground, messages: int) -> dict[str, Any]:
    """Let a worker with an empty directory take up parked messages, all of which are due, and handle them.

    Raises:
        RunFailed: the worker failed, or did not answer each message once.
    """
    space, dialogs = ground.space(), max(1, messages // PER_DIALOG)
    _fill(ground, space, dialogs, PER_DIALOG, due=1)
    told = _worked(ground, space, "bench.parking.draining", dialogs)
    verdict = verify.numbered(ground.bootstrap, space, our_loop.ASKING, dialogs * PER_DIALOG)
    topics.drop(ground.bootstrap, space)
    if not verdict.good:
        raise RunFailed(f"the answers to the parked messages are wrong: {verdict}")
    return told


def _worked(ground: Ground, space: str, module: str, dialogs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        job = Job("parked", ground.bootstrap, space, directory, Workload(dialogs * PER_DIALOG, dialogs))
        busy = quiet.settle(ground.patience)
        told = result_of(work([sys.executable, "-m", module, job.to_json()], LIMIT))
    return {"messages": dialogs * PER_DIALOG, "dialogs": dialogs, "busy_before": busy, **told}


def redrive(ground: Ground, letters: int) -> dict[str, Any]:
    """Give held messages back to a worker as fast as possible, three of them first.

    Raises:
        RunFailed: not all messages were handled.
    """
    space = ground.space()
    kafka = Kafka(ground.bootstrap, namespace=space)
    _fill(ground, space, letters, 1, due=NEVER)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, _worker(ground, space, directory) as worker:
        worker.await_start()
        began = time.perf_counter()
        chosen, _ = freeze(parked_messages(kafka, our_loop.ANSWERING), Selector(), Care(rate=FAST))
        planned = time.perf_counter()
        plan = Plan("rd-be", kafka.namespace, "", "bench", Selector(), Care(rate=FAST), chosen)
        decision = Decision(Action.RETRY, "bench", "to measure it")
        canaries: list[float] = []

        def tell(counts: dict[str, int]) -> None:
            if not canaries and counts[Outcome.HANDLED.value] >= plan.care.canary:
                canaries.append(time.perf_counter())

        cpu, busy = time.process_time(), worker.ask("figures")
        with Journal(kafka, History(plan.redrive), 0) as journal:
            drive = Drive(kafka, plan, journal, decision, lambda: parked_messages(kafka, our_loop.ANSWERING), tell)
            end = drive.run()
        ended = time.perf_counter()
        used = time.process_time() - cpu, difference(worker.ask("figures"), busy)["cpu_seconds"]
    topics.drop(ground.bootstrap, space)
    handled = drive.outcomes.number(Outcome.HANDLED)
    if end is not End.DONE or handled != letters:
        raise RunFailed(f"the redrive of {len(chosen)} letters ended: {end.value}, {handled} of {letters} handled")
    return {
        "letters": letters, "plan_seconds": planned - began, "seconds": ended - planned,
        "canary": plan.care.canary, "after_canaries_seconds": ended - canaries[0],
        "redrive_cpu_us": used[0] / letters * 1e6, "worker_cpu_us": used[1] / letters * 1e6,
    }  # fmt: skip


def _worker(ground: Ground, space: str, directory: str) -> Child:
    job = Job("redriven", ground.bootstrap, space, directory, Workload())
    return Child("bench.parking.worker", job.to_json())


def _fill(ground: Ground, space: str, dialogs: int, messages: int, due: int) -> None:
    kafka = Kafka(ground.bootstrap, namespace=space)
    subject.declare(kafka, PARTITIONS)
    topics.fill(ground.bootstrap, subject.partition_rows(kafka, PARTITIONS))
    topics.fill(ground.bootstrap, parked_rows(kafka, dialogs, messages, PARTITIONS, due))
