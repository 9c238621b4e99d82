"""A process that makes a fresh read model of a namespace: ``python -m bench.console.catching_up BOOTSTRAP NAMESPACE DIRECTORY``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bench import memory
from bench.stopwatch import MARK
from conversations import Kafka
from conversations_ops.read_model.file import path_of
from conversations_ops.read_model.projector import current


def run(kafka: Kafka, directory: Path) -> None:
    """Bring the file up to date, and report what it took."""
    totals = [0]
    began = time.perf_counter()
    with current(kafka, lambda _, total: totals.append(total), directory):
        seconds = time.perf_counter() - began
    used = time.process_time()
    began = time.perf_counter()
    with current(kafka, lambda _, __: None, directory):
        again = time.perf_counter() - began
    told = {
        "records": max(totals),
        "seconds": seconds,
        "again_seconds": again,
        "cpu_seconds": used,
        "peak_mb": memory.peak_mb(),
        "file_mb": sum(it.stat().st_size for it in directory.glob(f"{path_of(kafka, directory).name}*")) / 2**20,
    }
    sys.stdout.write(f"\n{MARK}{json.dumps(told)}\n")


if __name__ == "__main__":
    run(Kafka(sys.argv[1], namespace=sys.argv[2]), Path(sys.argv[3]))
