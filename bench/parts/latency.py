"""The part of the benchmark that measures requests through two services and back: one at a time, and at a rate."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Any

from bench import bars, quiet, topics, verify
from bench.children import Child, RunFailed
from bench.ground import Ground
from bench.latencies import curve, summary
from bench.latency import bare_chain
from bench.latency.hops import HOPS, Spans, profile
from bench.latency.services import ASKING, BACK, FRONT, QUESTIONS, Answer, back, front
from bench.part import Found, Part, Sheet
from bench.serving import difference
from bench.workload import PARTITIONS, Job, Workload
from conversations import Kafka, Service
from conversations.kafka.admin import apply
from conversations.protocol.topics import COMMANDS, QUEUE, service_topic

IDLE, WARM = 300, 100
RATE, SECONDS = 200, 30
WARM_SECONDS = 60
"""Seconds at the full rate before anything counts, because a new broker answers at half its speed for about a minute."""
PER_REQUEST = 1.0
"""Seconds that a request may take on average before the run counts as stuck."""
TITLES = {"idle": "one at a time", "bare": "the same hops without us, one at a time", "loaded": f"{RATE} per second"}
BARE = "bare chain, "
"""Beginning of the names of the processes that are the same chain without us."""


def measure(ground: Ground) -> Found:
    """Measure every round in the same processes."""
    failures: list[str] = []
    rounds: list[dict[str, Any]] = []
    busy, asked, hops = 0.0, 0, dict[str, list[float]]()
    space = ground.space()
    ground.screen.expect(len(TITLES) * ground.plan.rounds)
    spans: dict[str, list[Any]] = {"idle": [], "bare": []}
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
                    asked += rounds[-1][kind]["asked"] if kind != "bare" else 0
                    failures += rounds[-1][kind].pop("wrong")
                    spans.get(kind, []).extend(rounds[-1][kind].pop("spans"))
                    ground.screen.advance()
        failures += _verified(ground, space, asked)
        hops = {kind: _hops(ground, space, kind, found) for kind, found in spans.items()}
    except RunFailed as error:
        failures.append(str(error))
    finally:
        topics.drop(ground.bootstrap, space)
    return {
        "rounds": len(rounds),
        "samples": rounds,
        "disturbed": busy > quiet.QUIET,
        "failures": failures[:20],
        "hops": hops,
        **{kind: _merged([found[kind] for found in rounds if kind in found]) for kind in TITLES},
    }


def _children(stack: ExitStack, ground: Ground, space: str) -> dict[str, Child]:
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
    kafka = Kafka(ground.bootstrap, namespace=space)
    asking: Service[Any] = Service(ASKING, initiates=[QUESTIONS], ignores=[Answer])
    declarations = [asking.declaration(), front().declaration(), back().declaration()]
    apply(kafka, declarations, partitions=PARTITIONS, replication=1)
    bare = [f"{space}.bare.{name}" for name in (*bare_chain.WAY, bare_chain.CHANGES)]
    topics.create(ground.bootstrap, bare, 1, {"message.timestamp.type": "LogAppendTime"})
    modules = {BACK: "bench.latency.services", FRONT: "bench.latency.services", ASKING: "bench.latency.asker"}
    children = {
        name: stack.enter_context(Child(module, Job(name, ground.bootstrap, space, directory, Workload()).to_json()))
        for name, module in modules.items()
    }
    for name in bare_chain.READS:
        job = Job(name, ground.bootstrap, f"{space}.bare", directory, Workload())
        children[f"{BARE}{name}"] = stack.enter_context(Child("bench.latency.bare_chain", job.to_json()))
    for child in children.values():
        child.await_start()
    return children


def _warm_up(ground: Ground, children: dict[str, Child]) -> int:
    ground.screen.tell("warming up")
    count = ground.plan.count(WARM, 5)
    children[ASKING].ask("idle", limit=60 + count * PER_REQUEST, count=count)
    children[f"{BARE}{ASKING}"].ask("idle", limit=60 + count * PER_REQUEST, count=count)
    loaded = ground.plan.count(WARM_SECONDS * RATE, 5)
    children[ASKING].ask("loaded", limit=60 + loaded * PER_REQUEST, rate=RATE, count=loaded)
    return count + loaded


def _one(ground: Ground, children: dict[str, Child], kind: str) -> dict[str, Any]:
    prefix = BARE if kind == "bare" else ""
    count = ground.plan.count(RATE * SECONDS if kind == "loaded" else IDLE, 10)
    arguments = {"rate": RATE, "count": count} if kind == "loaded" else {"count": count}
    asked = {name: children[f"{prefix}{name}"] for name in (ASKING, FRONT, BACK)}
    before = {name: child.ask("figures") for name, child in asked.items()}
    told = asked[ASKING].ask("loaded" if kind == "loaded" else "idle", limit=60 + count * PER_REQUEST, **arguments)
    after = {name: child.ask("figures") for name, child in asked.items()}
    used = {name: difference(after[name], before[name]) for name in asked}
    took: list[float] = told["took"]
    if len(took) < count:
        told["wrong"].append(f"{count - len(took)} of {count} requests were not answered")
    ground.screen.say(f"{TITLES[kind]}: {_said(summary(took))}")
    return {
        "asked": count,
        "took": took,
        "wrong": told["wrong"],
        "spans": told.get("spans", []),
        "sent_late": told.get("late", 0),
        "cpu_us_per_request": {name: round(1e6 * it["cpu_seconds"] / count) for name, it in used.items()},
        "commits_per_request": {name: round(it["commits"] / count, 2) for name, it in used.items() if "commits" in it},
        **summary(took),
    }


def _hops(ground: Ground, space: str, kind: str, spans: Spans) -> list[float]:
    """Return the time of each hop of the requests that were made one at a time."""
    if kind == "bare":
        return profile(ground.bootstrap, {f"{space}.bare.{name}": 1 for name in bare_chain.WAY}, spans)
    queues = [service_topic(space, name, QUEUE) for name in (ASKING, FRONT, BACK)]
    passed = [service_topic(space, ASKING, COMMANDS), *queues]
    return profile(ground.bootstrap, dict.fromkeys(passed, PARTITIONS), spans)


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
        "Three processes. A request takes an append and four transactions, one after the other. It is over when its answer is read. The same hops "
        "without us: three processes that only read a record, and write the next one, a changelog record and their position in a transaction. "
        f"The figures are of all requests of {found['rounds']} rounds. Requests at a rate are timed from when they were due, so a stall "
        "counts for every request that had to wait. Sent late: the number of requests sent more than 5 ms after they were due."
    )
    return [Sheet(headings, rows, [note]), *_profile(found.get("hops") or {})]


def _profile(hops: dict[str, list[float]]) -> list[Sheet]:
    """Return the table of hops: ours beside those of the bare chain. There is none if hops are missing."""
    ours, bare = hops.get("idle"), hops.get("bare")
    if not ours or not bare:
        return []
    rows = [
        (name, f"{mine:.1f}", f"{theirs:.1f}", f"{mine - theirs:+.1f}")
        for name, mine, theirs in zip(HOPS, ours, bare, strict=True)
    ]
    rows.append(("all", f"{sum(ours):.1f}", f"{sum(bare):.1f}", f"{sum(ours) - sum(bare):+.1f}"))
    note = "Means over the requests that were made one at a time, in milliseconds, by the log times of their records, which are whole milliseconds."
    return [Sheet(("a request, hop by hop", "ours, ms", "without us, ms", "difference"), rows, [note])]


def draw(found: Found, figure: Any) -> None:
    """Draw the share of requests that are answered within a time."""
    figure.set_size_inches(8, 4)
    colours = dict(zip(TITLES, (bars.OURS_LIGHT, bars.RAW, bars.OURS), strict=True))
    lines = [(title, colours[kind], found[kind]["curve_ms"]) for kind, title in TITLES.items() if found[kind]["count"]]
    bars.distributions(figure.subplots(), lines, "Request through two services and back")


PART = Part("latency", "A request through two services and back", minutes=3, measure=measure, sheets=sheets, draw=draw)
