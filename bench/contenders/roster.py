"""The contenders: how each is started, how its topics are filled, and how its replies are judged."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from bench import fill, verify
from bench.contenders import initiating_loop, parked_loop, quix_environment
from bench.kafka_streams import program
from bench.workload import Job

Command = Callable[[Job], list[str]]


@dataclass(frozen=True)
class Contender:
    """One way to do the work."""

    name: str
    label: str
    command: Command
    """Returns its command line. Raises ``Unavailable`` if the contender cannot be run on this machine."""
    fill: Callable[[Job], None]
    verify: Callable[[Job], verify.Verdict]


def python(module: str) -> Command:
    """Return the command that runs a module in this Python."""
    return lambda job: [sys.executable, "-m", f"bench.contenders.{module}", job.to_json()]


def _quix(job: Job) -> list[str]:
    return [str(quix_environment.python()), "-m", "bench.contenders.quix_loop", job.to_json()]


def _plain(name: str, label: str, command: Command) -> Contender:
    return Contender(name, label, command, fill.plain, verify.plain)


def _ours(name: str, label: str, module: str = "our_loop") -> Contender:
    return Contender(name, label, python(module), fill.queue, verify.queue)


RAW = _plain("raw", "bare loop, no state store", python("raw_loop"))
RAW_TYPED = _plain("raw_pydantic", "bare loop, Pydantic bodies", python("raw_loop"))
QUIX = _plain("quix", "Quix Streams, exactly-once", _quix)
STREAMS = _plain("streams", "Kafka Streams (Java), exactly-once", program.command)
OURS = _ours("ours_rocksdict", "ours, state in RocksDB")
CONTENDERS = {
    contender.name: contender
    for contender in (
        RAW,
        QUIX,
        STREAMS,
        _ours("ours_memory", "ours, state in memory"),
        OURS,
        _ours("ours_rocksdict_pure", "ours, RocksDB, the Python form", "our_pure_loop"),
        RAW_TYPED,
        _ours("ours_memory_pydantic", "ours, memory, Pydantic bodies"),
        _ours("ours_rocksdict_pydantic", "ours, RocksDB, Pydantic bodies"),
    )
}
"""The contenders in the order of a round."""


def parked(name: str) -> Contender:
    """Return our contender with some dialogs parked; ``parked_loop`` finds their number in the name."""
    return Contender(name, name, python("parked_loop"), fill.queue, parked_loop.verdict)


def waiting(kind: str) -> Contender:
    """Return our contender with handlers that wait 5 ms, ``def`` or ``async``."""
    return _ours(kind, f"{kind} handlers of 5 ms", "waiting_loop")


def initiating(name: str) -> Contender:
    """Return an initiator that keeps its messages, ``kept``, or keeps nothing, ``off``."""
    return Contender(name, name, python("initiating_loop"), initiating_loop.fill, initiating_loop.verdict)
