"""Measures how healthy dialogs are affected while every message of a tenth of the dialogs fails four times."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from bench import quiet, topics
from bench.blocked.children import start
from bench.blocked.services import ANSWERING, ASKING
from bench.children import RunFailed
from bench.ground import Ground
from bench.latencies import curve, summary

RATE, DIALOGS, SICK = 200, 500, 50
SECONDS = 40
LEAST = 6
PATIENCE = 60.0
WARM_UP = 15
"""Seconds of the same load that are not counted: a broker that has just started is slower."""
TITLES = {"calm": "nothing fails", "storm": "a tenth of the dialogs fails"}


def measure(ground: Ground) -> dict[str, Any]:
    """Measure the same load without failures, and then with failures.

    Raises:
        RunFailed: a healthy message was not answered, or answered twice.
    """
    space, seconds = ground.space(), ground.plan.count(SECONDS, LEAST)
    found: dict[str, Any] = {"seconds": seconds}
    try:
        with ExitStack() as stack:
            children = start(stack, ground, space, seconds)
            asker, answering = children[ASKING], children[ANSWERING]
            asker.ask("begin", limit=PATIENCE, dialogs=DIALOGS)
            found["busy_before"] = quiet.settle(ground.patience)
            warm_up = RATE * ground.plan.count(WARM_UP, LEAST)
            asker.ask("steady", limit=WARM_UP + PATIENCE, rate=RATE, count=warm_up)
            for kind, sick in (("calm", 0), ("storm", SICK)):
                ground.screen.tell(f"{TITLES[kind]}: {seconds} s")
                before = answering.ask("figures")
                told = asker.ask("steady", limit=seconds + PATIENCE, rate=RATE, count=RATE * seconds, sick=sick)
                after = answering.ask("figures")
                if told["unanswered"] or told["twice"] or told["refused"]:
                    raise RunFailed(
                        f"{kind}: {told['unanswered']} not answered, {told['twice']} twice, {told['refused'][:3]}"
                    )
                found[kind] = {
                    **summary(told["took"]), "curve_ms": curve(told["took"]), "sent_late": told["late"],
                    "failures": after["failures"] - before["failures"],
                    "dead_letters": after["dead_letters"] - before["dead_letters"],
                }  # fmt: skip
                it = found[kind]
                ground.screen.say(
                    f"{TITLES[kind]}: p50 {it['p50_ms']} ms, p99 {it['p99_ms']} ms, {it['failures']} failures"
                )
    finally:
        topics.drop(ground.bootstrap, space)
    return found
