"""The part of the benchmark in which an absent peer comes back, while other dialogs of the same worker go on."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from bench import bars, quiet, topics, verify
from bench.blocked.children import declare, start
from bench.blocked.services import ASKING, ORDERS
from bench.children import Child, RunFailed
from bench.ground import Ground
from bench.latencies import curve, summary
from bench.part import Found, Part, Sheet
from bench.release.rows import ABSENT, PER_DIALOG, delayed_rows
from bench.scale import subject
from bench.workload import PARTITIONS
from conversations import Kafka, Service
from conversations.kafka.admin import apply
from conversations.kafka.offsets import ends_of
from conversations.protocol.topics import QUEUE, service_topic

RATE, DIALOGS = 200, 500
BEFORE, LEAST = 30, 8
"""Seconds of the same load while the peer is absent, and the shortest such time."""
CHUNK = 4
"""Seconds of the load between two looks at the release."""
PATIENCE = 60.0
LONGEST = 1_800.0
"""Seconds that a release may take, with the pause of the destination before it."""
TITLES = {"idle": "the peer is absent", "release": "its messages are released"}
Times = list[tuple[float, float]]
"""When each order was due, and how long its answer took, in seconds."""


def measure(ground: Ground) -> Found:
    """Measure the load while the peer is absent, and then until all its messages are released."""
    space = ground.space()
    kafka = Kafka(ground.bootstrap, namespace=space)
    count = ground.plan.count(ground.plan.rows) // PER_DIALOG * PER_DIALOG
    found: Found = {"rounds": 1, "rows": count, "failures": [], "disturbed": False}
    ground.screen.expect(3)
    try:
        ground.screen.tell(f"making {count:,} delayed rows")
        declare(kafka)
        topics.fill(ground.bootstrap, subject.partition_rows(kafka, PARTITIONS, ASKING))
        topics.fill(ground.bootstrap, delayed_rows(kafka, count))
        ground.screen.advance()
        with ExitStack() as stack:
            children = start(stack, ground, space, 0)
            asker = children[ASKING]
            found["failures"] += _unanswered(asker.ask("begin", limit=PATIENCE, dialogs=DIALOGS))
            found["disturbed"] = quiet.settle(ground.patience) > quiet.QUIET
            times = _load(asker, found, ground.plan.count(BEFORE, LEAST))
            ground.screen.advance()
            times += _released(ground, kafka, asker, found, count)
        _judge(ground, kafka, found, times, count)
    except RunFailed as error:
        found["failures"].append(str(error))
    finally:
        topics.drop(ground.bootstrap, space)
    return found


def _load(asker: Child, found: Found, seconds: int) -> Times:
    told = asker.ask("steady", limit=seconds + 2 * PATIENCE, rate=RATE, count=RATE * seconds)
    found["failures"] += _unanswered(told) + told["refused"][:5]
    if told["twice"]:
        found["failures"].append(f"{told['twice']} orders were answered twice")
    return list(zip(told["due"], told["took"], strict=True))


def _released(ground: Ground, kafka: Kafka, asker: Child, found: Found, count: int) -> Times:
    """Let the peer come back, and go on with the load until its queue grows no more.

    Raises:
        RunFailed: the release takes too long.
    """
    ground.screen.tell(f"the peer is back: {count:,} messages")
    peer: Service[Any] = Service(ABSENT, accepts=[ORDERS], ignores=["Order", "Block"])
    apply(kafka, [peer.declaration()], partitions=PARTITIONS, replication=1)
    places = [(service_topic(kafka.namespace, ABSENT, QUEUE), number) for number in range(PARTITIONS)]
    times, deadline, before = Times(), time.monotonic() + LONGEST, -1
    while True:
        times += _load(asker, found, CHUNK)
        length = sum(ends_of(kafka, places).values())
        if length >= count and length == before:
            ground.screen.advance()
            return times
        if time.monotonic() > deadline:
            raise RunFailed(f"{length:,} of {count:,} messages were released in {LONGEST:g} s")
        before = length


def _judge(ground: Ground, kafka: Kafka, found: Found, times: Times, count: int) -> None:
    """Tell the orders that were due during the release from those before it, by the dates of the broker."""
    verdict = verify.numbered(ground.bootstrap, kafka.namespace, ABSENT, count)
    found["failures"] += [] if verdict.good else [f"what was released is wrong: {verdict}"]
    topic = service_topic(kafka.namespace, ABSENT, QUEUE)
    dates = [message.timestamp()[1] / 1e3 for message in topics.read(ground.bootstrap, topic, PARTITIONS)]
    began, ended = min(dates), max(dates)
    spans = {"idle": (0.0, began - CHUNK), "release": (began, ended)}
    for kind, (first, last) in spans.items():
        took = [seconds for due, seconds in times if first <= due <= last]
        found[kind] = {**summary(took), "curve_ms": curve(took)}
    found["seconds"] = round(ended - began, 2)
    idle, release = found["idle"], found["release"]
    if not (idle["count"] and release["count"]):
        found["failures"].append("nothing was measured during the release: it took too short a time")
        return
    found["ratio"] = {name: round(release[name] / idle[name], 2) for name in ("p50_ms", "p99_ms")}
    ground.screen.say(
        f"{count:,} rows in {found['seconds']} s: p50 {idle['p50_ms']} -> {release['p50_ms']} ms, p99 {idle['p99_ms']} -> "
        f"{release['p99_ms']} ms, ratios {found['ratio']['p50_ms']} and {found['ratio']['p99_ms']}"
    )


def _unanswered(told: dict[str, Any]) -> list[str]:
    return [f"{told['unanswered']} orders were not answered in time"] if told["unanswered"] else []


def sheets(found: Found) -> list[Sheet]:
    """Return a table with two rows: without the release, and during it."""
    rows = []
    for kind, title in TITLES.items():
        if (it := found.get(kind)) and it["count"]:
            ratio = found["ratio"] if kind == "release" else {"p50_ms": 1, "p99_ms": 1}
            rows.append((
                title, f"{it['count']:,}", *(f"{it[name]:.1f}" for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms")),
                *(f"{ratio[name]:.2f}" if kind == "release" else "1" for name in ("p50_ms", "p99_ms")),
            ))  # fmt: skip
    headings = ("the others while", "answers", "p50 ms", "p90 ms", "p99 ms", "longest ms", "p50 ratio", "p99 ratio")
    note = (
        f"{RATE} messages per second on {DIALOGS} dialogs. The same worker of the initiator has {found['rows']:,} delayed messages of "
        f"{found['rows'] // PER_DIALOG:,} other dialogs, whose peer is not there. Then the peer comes back, and all of them are released in "
        f"{found.get('seconds', 0):g} s."
    )
    return [Sheet(headings, rows, [note])]


def draw(found: Found, figure: Any) -> None:
    """Draw the share of messages that are answered within a time, without and with the release."""
    figure.set_size_inches(8, 4)
    colours = {"idle": bars.RAW, "release": bars.OURS}
    lines = [
        (TITLES[kind], colours[kind], found[kind]["curve_ms"]) for kind in TITLES if found.get(kind, {}).get("count")
    ]
    bars.distributions(figure.subplots(), lines, f"Replies to others while {found['rows']:,} messages are released")


PART = Part(
    "release", "Others while the messages of a peer are released", minutes=8, measure=measure, sheets=sheets, draw=draw
)
