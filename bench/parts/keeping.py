"""Throughput of an initiator that keeps its messages until they are acknowledged, and of one that keeps nothing."""

from __future__ import annotations

from typing import Any

from bench import bars
from bench.cases import Case
from bench.contenders.roster import initiating
from bench.ground import Ground
from bench.part import Found, Part, Sheet
from bench.rounds import Rounds, cpu_ratio, ratio
from bench.workload import Workload

LABELS = {"kept": 'rows until acknowledged, `resend="by-hand"`', "off": 'no rows, `resend="off"`'}


def measure(ground: Ground) -> Found:
    """Run all rounds."""
    load = ground.plan.scaled(Workload())
    outcome = Rounds(ground, [Case(name, initiating(name), load) for name in LABELS]).run(ground.plan.rounds)
    return {
        **outcome.to_dict(),
        "workload": load.__dict__,
        "ratio": ratio(outcome.samples, "kept", "off"),
        "cpu_ratio": cpu_ratio(outcome.samples, "kept", "off"),
    }


def sheets(found: Found) -> list[Sheet]:
    """Return a table with a row for each of the two."""
    low, middle, high = found["ratio"] or (0.0, 0.0, 0.0)
    rows = [
        (
            LABELS[name], f"{it['median_messages_per_second']:,}", f"{it['median_us_per_message']:.1f}",
            f"{it['median_cpu_us_per_message']:.1f}", f"{middle:.2f} ({low:.2f}-{high:.2f})" if name == "kept" else "1",
        )
        for name, it in found["cases"].items()
    ]  # fmt: skip
    note = (
        f"{found['workload']['messages']:,} replies on {found['workload']['dialogs']:,} dialogs, each of which acknowledges one message, and "
        f"for each of which the handler sends the next one. State in RocksDB. Medians of {found['rounds']} rounds; in brackets: the lowest "
        "and highest ratio of a round."
    )
    return [Sheet(("initiator", "messages/s", "us/message", "CPU us/message", "to no rows"), rows, [note])]


def draw(found: Found, figure: Any) -> None:
    """Draw a bar for each of the two."""
    figure.set_size_inches(10.5, 1.8)
    rows = [
        bars.Bar(
            LABELS[name].replace("`", ""), it["median_messages_per_second"],
            [sample["messages_per_second"] for sample in it["samples"]], bars.OURS if name == "kept" else bars.OURS_LIGHT,
        )
        for name, it in reversed(found["cases"].items())
    ]  # fmt: skip
    bars.horizontal(figure.subplots(), rows, "An initiator: messages per second")


PART = Part("keeping", "An initiator that keeps its messages", minutes=4, measure=measure, sheets=sheets, draw=draw)
