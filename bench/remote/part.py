"""The part of the benchmark that measures dialogs between two clusters."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import quiet, topics
from bench.children import RunFailed
from bench.ground import Ground
from bench.part import Found, Part, Sheet
from bench.remote import runs
from bench.remote.ground import Brokers, Sizes
from bench.screen import Screen
from bench.unavailable import Unavailable
from conversations_ops.broker import EmbeddedBroker

TITLES = {
    "near": "a dialog on one cluster",
    "remote": "a dialog between two clusters",
    "sealed": "the same with seals",
    "mirror": "MirrorMaker 2, from a plain producer to a plain consumer",
}


def measured_part(ground: Ground) -> Found:
    """Measure with the standard sizes, or with smaller ones."""
    plan, sizes = ground.plan, Sizes()
    chosen = Sizes(
        plan.rounds, plan.count(sizes.messages), plan.count(sizes.dialogs), sizes.rate, plan.count(sizes.timed), plan.count(sizes.waiting)
    )  # fmt: skip
    return measure(ground.bootstrap, chosen, ground.screen, ground.patience)


def measure(bootstrap: str, sizes: Sizes, screen: Screen, patience: float, profile: str = "") -> Found:
    """Measure all rounds, on a broker that runs and another one."""
    found: Found = {
        "rounds": 0,
        "samples": [],
        "failures": [],
        "disturbed": False,
        "sizes": vars(sizes),
        "not_measured": {},
    }
    screen.expect(6 * sizes.rounds)
    with tempfile.TemporaryDirectory(prefix="bench-") as name, EmbeddedBroker() as other:
        brokers = Brokers(bootstrap, other.bootstrap, Path(name))
        for number in range(1, sizes.rounds + 1):
            found["disturbed"] |= quiet.settle(patience) > quiet.QUIET
            try:
                found["samples"].append(_round(brokers, sizes, screen, number, found, profile))
                found["rounds"] += 1
            except RunFailed as error:
                found["failures"].append(str(error))
    return found


def _round(brokers: Brokers, sizes: Sizes, screen: Screen, number: int, found: Found, profile: str) -> dict[str, Any]:
    steps: dict[str, Callable[[str], dict[str, Any]]] = {
        "near": lambda space: runs.services(brokers, sizes, space, remote=False),
        "remote": lambda space: runs.services(brokers, sizes, space, remote=True),
        "sealed": lambda space: runs.services(brokers, sizes, space, remote=True, sealed=True),
        "large": lambda space: runs.large(brokers, sizes, space),
        "caught_up": lambda space: runs.catching_up(brokers, sizes.waiting, space, profile),
        "mirror": lambda space: runs.mirror(brokers, sizes, space),
    }
    sample: dict[str, Any] = {}
    for name, step in steps.items():
        screen.tell(f"round {number} of {sizes.rounds}: {name}")
        space = f"{name.replace('_', '-')}-{number}"
        try:
            sample[name] = step(space)
        except Unavailable as error:
            found["not_measured"][TITLES[name]] = str(error)
        finally:
            for bootstrap in (brokers.here, brokers.there):
                topics.drop(bootstrap, space)
        screen.advance()
    sample["remote"] |= sample.pop("caught_up")
    return sample


def sheets(found: Found) -> list[Sheet]:
    """Return a table of the ways, and one of the catching up."""
    samples = found["samples"]
    if not samples:
        return []
    ways = [name for name in TITLES if all(name in it for it in samples)]
    rows = [
        (
            TITLES[name], f"{_median(samples, name, 'per_second'):,.0f}", _ratio(samples, name, "near"),
            f"{statistics.median(it[name]['latency']['p50_ms'] for it in samples):.1f}",
            f"{statistics.median(it[name]['latency']['p99_ms'] for it in samples):.1f}",
            f"{_median(samples, name, 'forwarder_cpu_us'):.0f}" if name != "near" else "",
        )
        for name in ways
    ]  # fmt: skip
    sizes = found["sizes"]
    note = (
        f"{sizes['messages']:,} messages of about 150 bytes on {sizes['dialogs']:,} dialogs, one way, as fast as possible; then {sizes['timed']:,} at "
        f"{sizes['rate']} per second, from the append of the producer to the handler or consumer. The last column is the CPU time of both forwarders, or of MirrorMaker, for a "
        f"message. MirrorMaker delivers at least once, and knows nothing of dialogs. Medians of {found['rounds']} rounds; in brackets: the lowest and highest "
        "ratio of a round."
    )
    catching = [
        (
            "one forwarder" if name == "remote" else "MirrorMaker 2",
            f"{_median(samples, name, 'caught_up_per_second'):,.0f}",
            _ratio(samples, name, "mirror", "caught_up_per_second") if "mirror" in ways else "",
        )
        for name in ways
        if name not in ("near", "sealed")
    ]
    after = (
        f"{sizes['waiting']:,} messages wait when it starts. The time is that from the first to the last append on the other cluster. The forwarder needs "
        f"{_median(samples, 'remote', 'caught_up_cpu_us'):.0f} us of CPU time for a message, its start included."
    )
    return [
        Sheet(("way", "messages/s", "to one cluster", "p50 ms", "p99 ms", "CPU us/message between"), rows, [note]),
        Sheet(("catches up", "records/s", "to MirrorMaker 2"), catching, [after]),
        *_large(found),
    ]


def _large(found: Found) -> list[Sheet]:
    """Return a table of small messages alone and beside large ones."""
    samples, sizes = [it["large"] for it in found["samples"] if "large" in it], found["sizes"]
    if not samples:
        return []
    size = f"messages of {sizes['large'] // 1_000_000} MB"
    rows = []
    for name, title in (("alone", "nothing else"), ("beside", size)):
        figures = [f"{statistics.median(it[name][key] for it in samples):.1f}" for key in ("p50_ms", "p99_ms")]
        to_alone = [it[name]["p99_ms"] / it["alone"]["p99_ms"] for it in samples]
        memory = [f"{statistics.median(it[name][key] for it in samples):.0f}" for key in ("source_mb", "sink_mb")]
        rows.append(
            (title, *figures, f"{statistics.median(to_alone):.2f} ({min(to_alone):.2f}-{max(to_alone):.2f})", *memory)
        )
    took = [seconds for it in samples for seconds in it["beside"]["large"]]
    arrived = f"{len(took)} of them arrived meanwhile, after {statistics.median(took):.1f} s (median). " if took else ""
    note = (
        f"{sizes['timed']:,} small messages at {sizes['rate']} per second on {sizes['small_dialogs']:,} dialogs between two clusters. A client sends the {size} one after the "
        f"other, each on its own dialog and as soon as the one before was handled. {arrived}The memory is the most that the process of each worker has used. Medians of {found['rounds']} rounds."
    )
    return [
        Sheet(
            ("small messages beside", "p50 ms", "p99 ms", "p99 to alone", "MB of the sender", "MB of the receiver"),
            rows,
            [note],
        )
    ]


def _median(samples: Sequence[dict[str, Any]], name: str, key: str) -> float:
    return float(statistics.median(it[name][key] for it in samples))


def _ratio(samples: Sequence[dict[str, Any]], name: str, to: str, key: str = "per_second") -> str:
    if name == to:
        return "1"
    ratios = [it[name][key] / it[to][key] for it in samples]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


PART = Part("remote", "Dialogs between two clusters", minutes=14, measure=measured_part, sheets=sheets)
