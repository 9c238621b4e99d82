"""The part of the benchmark that measures requests through two services and back: one at a time, and at a rate."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Any

from bench import bars, quiet, topics, verify
from bench.children import Child, RunFailed
from bench.ground import Ground
from bench.latencies import curve, summary
from bench.latency.services import ASKING, BACK, FRONT, QUESTIONS, Answer, back, front
from bench.part import Found, Part, Sheet
from bench.serving import difference
from bench.workload import PARTITIONS, Job, Workload
from conversations import Kafka, Service
from conversations.kafka.admin import apply

IDLE, WARM = 300, 100
RATE, SECONDS = 200, 30
WARM_SECONDS = 60
"""Seconds at the full rate before anything counts, because a new broker answers at half its speed for about a minute."""
PER_REQUEST = 1.0
"""Seconds that a request may take on average before the run counts as stuck."""
TITLES = {"idle": "one at a time", "loaded": f"{RATE} per second"}


def measure(ground: Ground) -> Found:
    """Measure every round in the same processes."""
    failures: list[str] = []
    rounds: list[dict[str, Any]] = []
    busy, asked = 0.0, 0
    space = ground.space()
    ground.screen.expect(2 * ground.plan.rounds)
    try:
        with ExitStack() as stack:
            children = _children(stack, ground, space)
            asked += _warm_up(ground, children)
            for number in range(ground.plan.rounds):
                busy = max(busy, quiet.settle(ground.patience))
                rounds.append({})
                for kind, title in TITLES.items():
                    ground.screen.tell(f"round {number + 1} of {ground.plan.rounds}, {title}")
                    rounds[-1][kind] = _one(ground, children, kind)
                    asked += rounds[-1][kind]["asked"]
                    failures += rounds[-1][kind].pop("wrong")
                    ground.screen.advance()
        failures += _verified(ground, space, asked)
    except RunFailed as error:
        failures.append(str(error))
    finally:
        topics.drop(ground.bootstrap, space)
    return {
        "rounds": len(rounds),
        "samples": rounds,
        "disturbed": busy > quiet.QUIET,
        "failures": failures[:20],
        **{kind: _merged([found[kind] for found in rounds if kind in found]) for kind in TITLES},
    }


def _children(stack: ExitStack, ground: Ground, space: str) -> dict[str, Child]:
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
    kafka = Kafka(ground.bootstrap, namespace=space)
    asking: Service[Any] = Service(ASKING, initiates=[QUESTIONS], ignores=[Answer])
    declarations = [asking.declaration(), front().declaration(), back().declaration()]
    apply(kafka, declarations, partitions=PARTITIONS, replication=1)
    modules = {BACK: "bench.latency.services", FRONT: "bench.latency.services", ASKING: "bench.latency.asker"}
    children = {
        name: stack.enter_context(Child(module, Job(name, ground.bootstrap, space, directory, Workload()).to_json()))
        for name, module in modules.items()
    }
    for child in children.values():
        child.await_start()
    return children


def _warm_up(ground: Ground, children: dict[str, Child]) -> int:
    ground.screen.tell("warming up")
    count = ground.plan.count(WARM, 5)
    children[ASKING].ask("idle", limit=60 + count * PER_REQUEST, count=count)
    loaded = ground.plan.count(WARM_SECONDS * RATE, 5)
    children[ASKING].ask("loaded", limit=60 + loaded * PER_REQUEST, rate=RATE, count=loaded)
    return count + loaded


def _one(ground: Ground, children: dict[str, Child], kind: str) -> dict[str, Any]:
    count = ground.plan.count(IDLE if kind == "idle" else RATE * SECONDS, 10)
    arguments = {"count": count} if kind == "idle" else {"rate": RATE, "count": count}
    before = {name: child.ask("figures") for name, child in children.items()}
    told = children[ASKING].ask(kind, limit=60 + count * PER_REQUEST, **arguments)
    after = {name: child.ask("figures") for name, child in children.items()}
    used = {name: difference(after[name], before[name]) for name in children}
    took: list[float] = told["took"]
    if len(took) < count:
        told["wrong"].append(f"{count - len(took)} of {count} requests were not answered")
    ground.screen.say(f"{TITLES[kind]}: {_said(summary(took))}")
    return {
        "asked": count,
        "took": took,
        "wrong": told["wrong"],
        "sent_late": told.get("late", 0),
        "cpu_us_per_request": {name: round(1e6 * it["cpu_seconds"] / count) for name, it in used.items()},
        "commits_per_request": {name: round(it["commits"] / count, 2) for name, it in used.items() if "commits" in it},
        **summary(took),
    }


def _said(it: dict[str, Any]) -> str:
    return f"p50 {it.get('p50_ms')} ms, p99 {it.get('p99_ms')} ms, {it['count']} answers"


def _verified(ground: Ground, space: str, asked: int) -> list[str]:
    """Count the answers in the client's queue, as a reader of committed records sees them."""
    verdict = verify.dialogs(ground.bootstrap, space, ASKING, asked)
    return [] if verdict.good else [f"the answers are wrong: {verdict}"]


def _merged(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the percentiles over the requests of all rounds."""
    if not found:
        return {"count": 0}
    took = [seconds for it in found for seconds in it.pop("took")]  # kept as a curve
    names = found[0]["cpu_us_per_request"]
    cpu = {name: round(sum(it["cpu_us_per_request"][name] for it in found) / len(found)) for name in names}
    late = sum(it["sent_late"] for it in found)
    return {**summary(took), "curve_ms": curve(took), "cpu_us_per_request": cpu, "sent_late": late}


def sheets(found: Found) -> list[Sheet]:
    """Return a table with a row for each way of asking."""
    rows = []
    for kind, title in TITLES.items():
        it = found[kind]
        if it["count"]:
            cpu = it["cpu_us_per_request"]
            rows.append((
                title, f"{it['count']:,}", *(f"{it[name]:.1f}" for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms")),
                f"{sum(cpu.values()):,}", f"{cpu[ASKING]:,}", f"{cpu[FRONT]:,}", f"{cpu[BACK]:,}", str(it["sent_late"]),
            ))  # fmt: skip
    headings = (
        "requests", "answers", "p50 ms", "p90 ms", "p99 ms", "longest ms", "CPU us/request", "client", "front", "back", "sent late",
    )  # fmt: skip
    note = (
        "Three processes. An answer takes five transactions, one after the other, and counts when the last of them is committed. "
        f"The figures are of all requests of {found['rounds']} rounds. Requests at a rate are timed from when they were due, so a stall "
        "counts for every request that had to wait. Sent late: the number of requests sent more than 5 ms after they were due."
    )
    return [Sheet(headings, rows, [note])]


def draw(found: Found, figure: Any) -> None:
    """Draw the share of requests that are answered within a time."""
    figure.set_size_inches(8, 4)
    colours = dict(zip(TITLES, (bars.OURS_LIGHT, bars.OURS), strict=True))
    lines = [(title, colours[kind], found[kind]["curve_ms"]) for kind, title in TITLES.items() if found[kind]["count"]]
    bars.distributions(figure.subplots(), lines, "Request through two services and back")


PART = Part("latency", "A request through two services and back", minutes=3, measure=measure, sheets=sheets, draw=draw)
