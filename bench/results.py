"""Medians, ratios and what they were measured on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import median
from typing import Any

import confluent_kafka

from bench import quiet
from bench.contenders import CONTENDERS, ROOT, Sample
from bench.workload import Workload
from conversations.kafka.embedded.server import KAFKA_VERSION

Results = dict[str, Any]
BASES = ("raw", "quix")
PACKAGES = ("kafka-dialogs", "confluent-kafka", "fastavro", "pydantic", "rocksdict")


def collect(workload: Workload, samples: Mapping[str, Sequence[Sample]], missing: Mapping[str, str]) -> Results:
    """Put everything a reader needs to judge the figures into one object."""
    measured = {name: _summary(name, runs) for name, runs in samples.items() if runs}
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(samples),
        "workload": asdict(workload),
        "late": _late(workload, samples),
        "disturbed": disturbed(samples),
        "rounds": max((len(runs) for runs in samples.values()), default=0),
        "contenders": measured,
        "not_measured": dict(missing),
        "ratios": {name: round(low_middle_high[1], 3) for name, low_middle_high in ratios_of(samples).items()},
        "cpu_ratios": cpu_ratios(samples),
        "ratio_ranges": {name: [round(low, 3), round(high, 3)] for name, (low, _, high) in ratios_of(samples).items()},
        "micro_us": micro(),
    }


def _late(workload: Workload, samples: Mapping[str, Sequence[Sample]]) -> dict[str, float]:
    """Share of messages that had to wait as rows because their step ran out of patience; none is the normal case."""
    most = {name: max((run.late for run in runs), default=0) / workload.messages for name, runs in samples.items()}
    return {name: round(late, 4) for name, late in most.items() if late}


def disturbed(samples: Mapping[str, Sequence[Sample]]) -> bool:
    """Whether something else used the processors before a run, and so probably during it."""
    return any(run.busy_before > quiet.QUIET for runs in samples.values() for run in runs)


def _summary(name: str, runs: Sequence[Sample]) -> dict[str, Any]:
    speed = median(run.messages_per_second for run in runs)
    return {
        "label": CONTENDERS[name].label,
        "median_messages_per_second": round(speed),
        "median_us_per_message": round(1e6 / speed, 2),
        "median_cpu_us_per_message": round(median(run.cpu_us_per_message for run in runs), 2),
        "samples": [run.to_dict() for run in runs],
    }


def ratios_of(samples: Mapping[str, Sequence[Sample]]) -> dict[str, tuple[float, float, float]]:
    """Lowest ratio of a round, ratio of the medians, highest ratio of a round."""
    ratios = {}
    for base in BASES:
        for name in samples:
            if name in {base, "raw"} or not samples[name] or not samples.get(base):
                continue
            ours, theirs = ([run.messages_per_second for run in samples[which]] for which in (name, base))
            each = [a / b for a, b in zip(ours, theirs, strict=False)]
            ratios[f"{name}/{base}"] = (min(each), median(ours) / median(theirs), max(each))
    return ratios


def cpu_ratios(samples: Mapping[str, Sequence[Sample]]) -> dict[str, float]:
    """The same by CPU per message, which other programs disturb less and the broker's speed not at all."""
    cost = {name: median(run.cpu_us_per_message for run in runs) for name, runs in samples.items() if runs}
    return {
        f"{name}/{base}": round(cost[base] / cost[name], 3)
        for base in BASES
        for name in cost
        if base in cost and name not in {base, "raw"}
    }


def machine() -> dict[str, Any]:
    """What the figures depend on most."""
    page = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(page / 2**30),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "kafka": f"{KAFKA_VERSION}, one embedded broker on the same cores",
    }


def versions(samples: Mapping[str, Sequence[Sample]]) -> dict[str, str]:
    """Versions of the packages that took part."""
    found = {name: version(name) for name in PACKAGES} | {"librdkafka": confluent_kafka.libversion()[0]}
    return found | {name: told for runs in samples.values() for run in runs for name, told in run.versions.items()}


def micro() -> dict[str, float]:
    """Microseconds of single operations, in a fresh process."""
    command = [sys.executable, "-m", "bench.micro_codec", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured
