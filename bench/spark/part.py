"""The part of the benchmark that compares reading dialogs in Spark with a plain read, also with more dialogs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from bench import bars
from bench.children import RunFailed
from bench.ground import Ground
from bench.part import Found, Part, Sheet
from bench.quiet import QUIET
from bench.spark import rounds
from bench.spark.subject import AUDIT, CORES, MOST, REPEATED
from bench.workload import Workload

PLAIN, PLAIN_STREAM = "plain", "plain_stream"
TITLES = {
    PLAIN: "plain read, `from_avro`, no checks",
    "decoded": "read and decoded, with headers",
    "judged": "messages, duplicates included",
    "read_dialogs": "`read_dialogs`: each message once",
    "with_aggregate": "`dropDuplicates`, with a shuffle",
    "in_place": "Arrow, each task for itself, without a shuffle",
    "typed": "`read_dialogs`, bodies as structs",
    "in_order": "`in_order`: a row per dialog and direction",
    "archive": "`archive`, into an empty directory",
    "audit": "`delivery-audit`",
}
STREAMS = {
    PLAIN_STREAM: "plain read, `from_avro`, no checks",
    "judged_stream": "messages, duplicates included",
    "stream": "`stream_dialogs`: each message once, remembered for a day",
    "stream_forever": "`dropDuplicates`, remembered for ever",
    "with_arrow": "`foreachBatch` and Arrow, identities in files",
    "with_state": "`transformWithState` in Python",
}
MULTIPLE = 2
"""Factor of the number of messages of ``throughput``: a stream needs several micro-batches."""
GROWN = ("decoded", "read_dialogs", "stream", "with_arrow")
GROWTH = (100, 10, 1)
"""Messages in each dialog. The number of all messages is always the same."""
GROWN_MULTIPLE = 10 / 3
GROWN_ROUNDS = 1


def measure(ground: Ground) -> Found:
    """Measure all queries over one queue in rounds, and then some of them over queues with more dialogs."""
    plan = ground.plan
    load = plan.scaled(Workload(MULTIPLE * plan.messages, plan.dialogs))
    names = [name for name in (*TITLES, *STREAMS) if name != "audit" or find_spec(AUDIT)]
    most = plan.count(round(GROWN_MULTIPLE * plan.messages), GROWTH[0])
    ground.screen.expect((1 + plan.rounds) * len(names) + len(GROWTH) * (1 + GROWN_ROUNDS) * len(GROWN))
    found: Found = {"rounds": 0, "failures": [], "versions": _versions()}
    try:
        runs = rounds.measure(ground, names, load, plan.rounds)
        grown = [rounds.measure(ground, GROWN, Workload(most, max(1, most // each)), GROWN_ROUNDS) for each in GROWTH]
    except RunFailed as error:
        return {**found, "failures": [str(error)]}
    every = [runs, *grown]
    return {
        **found,
        "rounds": plan.rounds,
        "disturbed": any(busy > QUIET for it in every for busy in it.busy),
        "failures": [f"{name}: {why}" for it in every for name, why in it.failures.items()],
        "batches": runs.to_dict(PLAIN),
        "streams": runs.to_dict(PLAIN_STREAM),
        "growth": [it.to_dict("decoded") for it in grown],
    }


def _versions() -> dict[str, str]:
    try:
        return {"pyspark": version("pyspark")}
    except PackageNotFoundError:  # the session will not start, and reports what is missing
        return {}


def sheets(found: Found) -> list[Sheet]:
    """Return the tables of the batches, of the streams, and of more dialogs."""
    return [_batches(found), _streams(found), _growth(found)]


def _batches(found: Found) -> Sheet:
    it = found["batches"]
    rows = [(title, *_figures(it["cases"][name])) for name, title in TITLES.items() if name in it["cases"]]
    note = (
        f"{it['records']:,} records of {it['dialogs']:,} dialogs, read with `local[{CORES}]`. 1 message in {REPEATED} is in the queue "
        f"twice. The session was warm. Medians; rounds: {found['rounds']}. In brackets: the lowest and highest ratio of a round."
    )
    return Sheet(("query, as a batch", "records/s", "us/record", "ratio to the plain read"), rows, [note])


def _streams(found: Found) -> Sheet:
    it = found["streams"]
    rows = [
        (title, *_figures(it["cases"][name]), f"{it['cases'][name]['state_mb']:.0f}")
        for name, title in STREAMS.items()
        if name in it["cases"]
    ]
    note = (
        f"The same records, in micro-batches of {MOST:,}. The first micro-batch is not counted, because the code and the state are made "
        "in it. State: the size of the state in the checkpoint, or of the files with identities, at the end."
    )
    return Sheet(("query, as a stream", "records/s", "us/record", "ratio to the plain read", "state MB"), rows, [note])


def _figures(case: dict[str, Any]) -> tuple[str, str, str]:
    speed, ratio = case["median_records_per_second"], case["ratio"]
    beside = f"{ratio[1]:.2f} ({ratio[0]:.2f}-{ratio[2]:.2f})" if ratio else ""
    return f"{speed:,}", f"{1e6 / speed:.1f}", beside


def _growth(found: Found) -> Sheet:
    rows = []
    for it in found["growth"]:
        cases = [it["cases"].get(name) for name in GROWN]
        speeds = [f"{case['median_records_per_second']:,}" if case else "" for case in cases]
        ratio = f"{cases[1]['ratio'][1]:.2f}" if cases[1] and cases[1]["ratio"] else ""
        state = f"{cases[2]['state_mb']:.0f}" if cases[2] else ""
        rows.append((f"{it['dialogs']:,}", *speeds[:2], ratio, speeds[2], state, speeds[3]))
    headings = (
        "dialogs", "read and decoded, records/s", "`read_dialogs`", "ratio", "`stream_dialogs`", "state MB",
        "`foreachBatch` and Arrow",
    )  # fmt: skip
    note = f"{found['growth'][0]['records']:,} records in each row: a dialog has about 100, 10, or 1." if rows else ""
    return Sheet(headings, rows, [note] if note else [])


def draw(found: Found, figure: Any) -> None:
    """Draw bars: the batches above the streams."""
    figure.set_size_inches(10.5, 6)
    above, below = figure.subplots(2, 1, height_ratios=(len(TITLES), len(STREAMS)))
    for axes, kind, titles, title in (
        (above, "batches", TITLES, "Batches: records per second"),
        (below, "streams", STREAMS, "Streams: records per second"),
    ):
        cases = found[kind]["cases"]
        rows = [
            bars.Bar(
                titles[name].replace("`", ""), cases[name]["median_records_per_second"], cases[name]["samples"],
                bars.RAW if name in {PLAIN, PLAIN_STREAM} else bars.OURS,
            )
            for name in reversed(titles)
            if name in cases
        ]  # fmt: skip
        bars.horizontal(axes, rows, title)


PART = Part("spark", "Dialogs read in Spark", minutes=20, measure=measure, sheets=sheets, draw=draw)
