"""The part of the benchmark in which one handler blocks for 90 s, while 500 other dialogs of the same worker go on."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from bench import bars, quiet, topics, verify
from bench.blocked.children import start
from bench.blocked.services import ANSWERING, ASKING
from bench.children import Child, RunFailed
from bench.ground import Ground
from bench.latencies import curve, summary
from bench.part import Found, Part, Sheet
from bench.serving import difference

RATE, DIALOGS = 200, 500
BEFORE = 30
"""Seconds of the same load without a block, for comparison."""
MARGIN = 4
"""Seconds by which the load ends before the block does."""
LEAST = 6
PATIENCE = 60.0
TITLES = {"free": "nothing blocks", "blocked": "one handler blocks"}


def measure(ground: Ground) -> Found:
    """Measure the load without a block, and then during a block."""
    plan, space = ground.plan, ground.space()
    seconds = max(LEAST, plan.count(plan.block_seconds))
    found: Found = {"rounds": 1, "block_seconds": seconds, "failures": [], "disturbed": False}
    ground.screen.expect(2)
    try:
        with ExitStack() as stack:
            children = start(stack, ground, space, seconds)
            asker = children[ASKING]
            ground.screen.tell("beginning the dialogs")
            found["failures"] += _unanswered(asker.ask("begin", limit=PATIENCE, dialogs=DIALOGS))
            found["disturbed"] = quiet.settle(ground.patience) > quiet.QUIET
            sent = DIALOGS + _part(ground, children, found, "free", plan.count(BEFORE, LEAST))
            asker.ask("block", seconds=seconds)
            _await_block(children[ANSWERING])
            sent += _part(ground, children, found, "blocked", seconds - MARGIN)
            ground.screen.tell("waiting for the end of the block")
            found["failures"] += _outlasted(asker.ask("unblocked", limit=seconds + PATIENCE, seconds=seconds), found)
        verdict = verify.numbered(ground.bootstrap, space, ASKING, sent + 1)
        found["failures"] += [] if verdict.good else [f"the answers are wrong: {verdict}"]
    except RunFailed as error:
        found["failures"].append(str(error))
    finally:
        topics.drop(ground.bootstrap, space)
    return found


def _await_block(answering: Child) -> None:
    deadline = time.monotonic() + PATIENCE
    while not answering.ask("figures")["blocking"]:
        if time.monotonic() > deadline:
            raise RunFailed("the handler that should block was not called")
        time.sleep(0.01)


def _part(ground: Ground, children: dict[str, Child], found: Found, kind: str, seconds: int) -> int:
    """Send orders at ``RATE`` for ``seconds``, and keep the results in ``found``; return how many orders were sent."""
    ground.screen.tell(f"{TITLES[kind]}: {seconds} s")
    count = RATE * seconds
    before = {name: child.ask("figures") for name, child in children.items()}
    told = children[ASKING].ask("steady", limit=seconds + PATIENCE, rate=RATE, count=count)
    after = {name: child.ask("figures") for name, child in children.items()}
    used = {name: difference(after[name], before[name]) for name in children}
    found["failures"] += _unanswered(told) + told["refused"][:5]
    if told["twice"]:
        found["failures"].append(f"{told['twice']} orders were answered twice")
    found[kind] = {
        **summary(told["took"]),
        "curve_ms": curve(told["took"]),
        "sent_late": told["late"],
        "ended": told["ended"],
        "moves": sum(it["moves"] for it in used.values()),
        "fences": sum(it["fenced"] for it in used.values()),
        "handler_failures": sum(it["failures"] for it in used.values()),
        "cpu_us_per_message": {name: round(1e6 * it["cpu_seconds"] / count) for name, it in used.items()},
    }
    it = found[kind]
    ground.screen.say(
        f"{TITLES[kind]}: p50 {it['p50_ms']} ms, p99 {it['p99_ms']} ms, {it['moves']} rebalances, {it['fences']} fences"
    )
    ground.screen.advance()
    return count


def _unanswered(told: dict[str, Any]) -> list[str]:
    return [f"{told['unanswered']} orders were not answered in time"] if told["unanswered"] else []


def _outlasted(told: dict[str, Any], found: Found) -> list[str]:
    """Check that the handler blocked until the orders on other dialogs were answered, and that its own reply came."""
    block = told["block"]
    if block is None:
        return ["the handler that blocked was not answered"]
    found["blocked_for"] = round(block["ended"] - block["began"], 1)
    if block["ended"] < found["blocked"]["ended"]:
        return ["the block ended before the others were answered, so their times mean nothing"]
    return []


def sheets(found: Found) -> list[Sheet]:
    """Return a table with two rows: without the block, and during the block."""
    rows = []
    for kind, title in TITLES.items():
        if (it := found.get(kind)) and it["count"]:
            cpu = it["cpu_us_per_message"]
            rows.append((
                title, f"{it['count']:,}", *(f"{it[name]:.1f}" for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms")),
                str(it["moves"]), str(it["fences"]), f"{cpu[ANSWERING]:,}", f"{cpu[ASKING]:,}", str(it["sent_late"]),
            ))  # fmt: skip
    headings = (
        "the others while", "answers", "p50 ms", "p90 ms", "p99 ms", "longest ms", "rebalances", "fences",
        "CPU us/message", "CPU us of the asker", "sent late",
    )  # fmt: skip
    note = (
        f"{RATE} messages per second on {DIALOGS} dialogs. A time begins when a message was due, and ends when the handler of the "
        "asking service has the reply, three transactions later. "
        f"The handler of one more dialog blocks for {found['block_seconds']} s; its time limit is raised."
    )
    return [Sheet(headings, rows, [note])]


def draw(found: Found, figure: Any) -> None:
    """Draw the share of messages that are answered within a time, with and without the block."""
    figure.set_size_inches(8, 4)
    colours = {"free": bars.RAW, "blocked": bars.OURS}
    lines = [
        (TITLES[kind], colours[kind], found[kind]["curve_ms"]) for kind in TITLES if found.get(kind, {}).get("count")
    ]
    bars.distributions(
        figure.subplots(), lines, f"Replies to others while a handler blocks for {found['block_seconds']} s"
    )


PART = Part("blocked", "Others while one handler blocks", minutes=2.5, measure=measure, sheets=sheets, draw=draw)
