"""The part of the benchmark that measures the cost of parked dialogs, of a retry storm and of a backlog of failed messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench import bars
from bench.cases import Case
from bench.children import RunFailed
from bench.contenders.roster import parked
from bench.ground import Ground
from bench.parking import backlog, storm
from bench.part import Found, Part, Sheet
from bench.quiet import QUIET
from bench.rounds import Rounds, ratio
from bench.workload import Workload

NONE, SOME = "parked_0", "parked_100"
PARKED, LETTERS = 1_000_000, 20_000


def measure(ground: Ground) -> Found:
    """Measure the throughput in rounds, and the rest once."""
    load = ground.plan.scaled(Workload())
    outcome = Rounds(ground, [Case(name, parked(name), load) for name in (NONE, SOME)]).run(ground.plan.rounds)
    found: Found = {**outcome.to_dict(), "ratio": ratio(outcome.samples, SOME, NONE)}
    ground.screen.expect(4)
    steps: dict[str, Callable[[], dict[str, Any]]] = {
        "storm": lambda: storm.measure(ground),
        "restore": lambda: backlog.restore(ground, ground.plan.count(PARKED, backlog.PER_DIALOG)),
        "drain": lambda: backlog.drain(ground, ground.plan.count(PARKED, backlog.PER_DIALOG)),
        "redrive": lambda: backlog.redrive(ground, ground.plan.count(LETTERS, 10)),
    }
    for name, step in steps.items():
        ground.screen.tell(name)
        try:
            found[name] = step()
        except RunFailed as error:
            found["failures"].append(f"{name}: {error}")
            ground.screen.warn(f"{name} failed: {error}")
        ground.screen.advance()
    found["disturbed"] |= any(found.get(name, {}).get("busy_before", 0) > QUIET for name in steps)
    return found


def sheets(found: Found) -> list[Sheet]:
    """Return a table for each measurement."""
    made = [_throughput(found)]
    if it := found.get("storm"):
        made.append(_storm(it))
    if {"restore", "drain", "redrive"} <= found.keys():
        made.append(_backlog(found["restore"], found["drain"], found["redrive"]))
    return made


def _throughput(found: Found) -> Sheet:
    titles = {NONE: "none", SOME: "1 in 100"}
    rows = [
        (
            titles[name], f"{it['median_messages_per_second']:,}", f"{it['median_cpu_us_per_message']:.1f}",
            f"{found['ratio'][1]:.2f} ({found['ratio'][0]:.2f}-{found['ratio'][2]:.2f})" if name == SOME and found["ratio"] else "1",
        )
        for name, it in found["cases"].items()
    ]  # fmt: skip
    note = (
        "The workload is that of the first table of this page. The first message of a parked dialog has failed. It waits, the later "
        "messages of its dialog wait behind it, and none of these messages is counted. "
        f"Medians of {found['rounds']} rounds; in brackets: the lowest and highest ratio of a round."
    )
    return Sheet(("dialogs parked", "messages/s", "CPU us/message", "ratio"), rows, [note])


def _storm(found: dict[str, Any]) -> Sheet:
    rows = [
        (
            title, f"{it['count']:,}", *(f"{it[name]:.1f}" for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms")),
            f"{it['failures']:,}", f"{it['dead_letters']:,}", str(it["sent_late"]),
        )
        for kind, title in storm.TITLES.items()
        if (it := found[kind])["count"]
    ]  # fmt: skip
    headings = (
        "the others while", "answers", "p50 ms", "p90 ms", "p99 ms", "longest ms", "failures", "dead letters", "sent late",
    )  # fmt: skip
    note = (
        f"{storm.RATE} messages per second on {storm.DIALOGS} dialogs for {found['seconds']} s. In {storm.SICK} of the dialogs every "
        "message fails four times within 1.2 s and becomes a dead letter; then the next message is handled. The times are those of the "
        "other dialogs."
    )
    return Sheet(headings, rows, [note])


def _backlog(restored: dict[str, Any], drained: dict[str, Any], redriven: dict[str, Any]) -> Sheet:
    rows = [
        *(
            (
                f"{it['messages']:,} parked messages of {it['dialogs']:,} dialogs, {due}", f"{what}, {it['peak_mb']:.0f} MB at most",
                f"{it['seconds']:.1f}", f"{it['messages'] / it['seconds']:,.0f}",
            )
            for it, due, what in ((restored, "not due", "taken up"), (drained, "all due", "taken up and handled"))
        ),
        (
            f"{redriven['letters']:,} held messages", "planned, by reading the state topic", f"{redriven['plan_seconds']:.1f}",
            f"{redriven['letters'] / redriven['plan_seconds']:,.0f}",
        ),
        (
            "the same messages", "given back by a redrive without a rate limit, three of them first", f"{redriven['seconds']:.1f}",
            f"{redriven['letters'] / redriven['seconds']:,.0f}",
        ),
        (
            "of these", "after the first three", f"{redriven['after_canaries_seconds']:.1f}",
            f"{(redriven['letters'] - redriven['canary']) / redriven['after_canaries_seconds']:,.0f}",
        ),
    ]  # fmt: skip
    note = "A worker with an empty directory takes up the messages. The time begins when the worker is told that it owns its 4 partitions."
    return Sheet(("messages", "work", "seconds", "messages/s"), rows, [note])


def draw(found: Found, figure: Any) -> None:
    """Draw the share of healthy messages that are answered within a time, without and with a storm."""
    figure.set_size_inches(8, 4)
    colours = {"calm": bars.RAW, "storm": bars.OURS}
    told = found.get("storm", {})
    lines = [(title, colours[kind], told[kind]["curve_ms"]) for kind, title in storm.TITLES.items() if kind in told]
    bars.distributions(figure.subplots(), lines, "Replies to healthy dialogs while a tenth of all fails")


PART = Part("parking", "What messages that fail cost the others", minutes=8, measure=measure, sheets=sheets, draw=draw)
