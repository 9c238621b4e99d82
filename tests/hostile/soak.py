"""Honest dialogs beside a peer that may write one queue and nothing else: are they right, at what price, within which limits.

Two worlds on one broker have the same two services each, ``web`` which asks and ``shop`` which answers, every worker in a
process of its own. In the calm one nobody attacks. In the other one an attacker, with a login that may write the queue of the shop
and nothing else, sends as many records as there are honest messages. A round measures four windows, in an order that
alternates; a window ends when all its work is settled, and what counts is the CPU of a process, as the machine's speed and
others at work on it must not:

* **calm**: honest work in the calm world, at a steady pace as in all of them;
* **attack**: the attacker alone;
* **both**: the same honest work and as much of an attack, at once;
* **after**: the same honest work, when the attack is over, with all that this one and those of earlier rounds left behind.

What an attacker's own records cost is its own: a bound on how many records somebody may send is the broker's (quotas). The product's
promise is that it makes the work of others no dearer. So the figures that are judged are

* **under attack** = (both - attack) / calm: what honest work costs while hostile records lie between its own;
* **after it** = after / calm: what it costs with what the attack left, for as long as that stays.

Each is at most 4/3, in the median of five rounds, for the worker that is attacked and for its peer, whom answers reach.
Printed beside them, and not judged: CPU **per step** with everything charged, as a step under attack carries hostile records too;
honest messages with **all charged**; what is spent **standing** by, on nothing but what the attack left (it is no part of *after
it*); and the price of one hostile record in honest messages.

An attack that is alone pays for steps that it would share with honest work, so that *under attack* can be below 1. It is also the
difference of two larger figures: on a machine that others use it wants a median of several rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conversations.protocol.topics import COMMANDS
from conversations.worker.residents import most_of
from tests.hostile.support.attacker import Attacker, Draws
from tests.hostile.support.figures import Round, medians
from tests.hostile.support.two_workers import Pace, Stopped, Window, World
from tests.hostile.support.worker_process import LIMITS
from tests.rights.support.authorizing_kafka import GuardedBroker

USER = "stranger"
MOST = 4 / 3
JUDGED = ("under attack", "after it")
IDLE = 3.0
"""Seconds in which an idle worker is measured."""
RECORD = 1_000_000
"""Bytes that the last thing taken on may add to what is kept."""
CLIENT = 120_000_000
"""Bytes that Kafka's client may have fetched ahead: 64 MiB in its queue, and the answer on its way."""
ROW = 2_000
"""Bytes of rows that one record may leave, besides what is limited in bytes."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run is to be like."""

    rounds: int
    dialogs: int
    """Honest ones of a window."""
    orders: int
    """Of each of them."""
    hostile: int
    """Records of a window, about."""
    seed: int
    pace: Pace


@dataclass
class Outcome:
    """What a run came to."""

    rounds: list[Round] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    """What was sent by the attacker."""
    sent: int = 0
    refused: int = 0
    """Records that the broker did not take."""
    kept: dict[str, Any] = field(default_factory=dict)
    """Of the attacked worker, at the end."""
    wrong: list[str] = field(default_factory=list)
    """What must not be; ``dear`` is not in it."""

    def medians(self, process: str) -> dict[str, float]:
        """The medians of all ratios."""
        return medians(self.rounds, process)

    def dear(self) -> list[str]:
        """Judged figures that are above what they may be."""
        return [
            f"{process} {name}: {ratio:.2f}, more than {MOST:.2f}"
            for process in ("shop", "web")
            for name, ratio in self.medians(process).items()
            if name in JUDGED and ratio > MOST
        ]


def carry_out(options: Options, directory: Path, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Run it on a broker of its own; whatever ends it early is told in the outcome."""
    with GuardedBroker() as broker:
        worlds = [
            World(broker.bootstrap, directory / name, f"{name} {options.seed}", options.pace)
            for name in ("calm", "hostile")
        ]
        calm, hostile = worlds
        queue = hostile.queue("shop")
        broker.grant(USER, [("WRITE", "TOPIC", queue), ("DESCRIBE", "TOPIC", queue)])
        attacker = Attacker(broker.guarded, GuardedBroker.login(USER), queue, Draws(f"attacker {options.seed}"))
        outcome = Outcome()
        with calm.running() as calm_codes, hostile.running() as codes:
            try:
                _rounds(options, (calm, hostile), attacker, outcome, say)
                _check(outcome, hostile, attacker, calm.facts())
            except Stopped as failure:
                outcome.wrong.append(str(failure))
        ended = {
            f"{name} of the {of} world": code
            for of, all_ in (("calm", calm_codes), ("hostile", codes))
            for name, code in all_.items()
        }
        outcome.wrong += [f"the worker of {name} ended with {code}" for name, code in ended.items() if code]
    return outcome


def _rounds(
    options: Options, worlds: tuple[World, World], attacker: Attacker, outcome: Outcome, say: Callable[[str], None]
) -> None:
    calm, hostile = worlds
    dialogs, orders = options.dialogs, options.orders
    idle = dict.fromkeys(("shop", "web"), 0.0)
    for world in worlds:
        world.window(dialogs, orders, 0, None, idle)  # what is done for the first time is no measure
    idle = calm.idle(IDLE)
    for number in range(options.rounds):

        def quiet() -> Window:
            return calm.window(dialogs, orders, 0, None, idle)

        def alone() -> Window:
            return hostile.window(0, orders, options.hostile, attacker, idle)

        def together() -> Window:
            return hostile.window(dialogs, orders, options.hostile, attacker, idle)

        turns = {"calm": quiet, "attack": alone, "both": together}
        names = list(turns) if number % 2 == 0 else list(reversed(turns))
        found = {name: turns[name]() for name in names}
        left = hostile.idle(IDLE)
        after = hostile.window(dialogs, orders, 0, None, left)
        standing = {name: left[name] - idle[name] for name in left}
        outcome.rounds.append(Round(**found, after=after, standing=standing))
        say(_line(number + 1, outcome.rounds[-1]))


def _line(number: int, found: Round) -> str:
    told = " · ".join(
        f"{process} calm {found.calm.cpu[process]:.2f} attack {found.attack.cpu[process]:.2f} "
        f"both {found.both.cpu[process]:.2f} after {found.after.cpu[process]:.2f}"
        for process in ("shop", "web")
    )
    return (
        f"round {number}, s of CPU: {told} · memory {found.both.peak / 1e6:.0f} MB, calm {found.calm.peak / 1e6:.0f} MB"
    )


def _check(outcome: Outcome, hostile: World, attacker: Attacker, calm: dict[str, dict[str, Any]]) -> None:
    """Honest dialogs are right, limits are kept, and the attacker could do no more than it may."""
    facts = hostile.facts()["shop"]
    rows, size = hostile.rows("shop")
    outcome.kinds, outcome.sent, outcome.refused = attacker.draws.kinds, attacker.sent, attacker.refused
    outcome.kept = {
        **facts["kept"],
        "rows": rows,
        "bytes of rows": size,
        "peak": facts["peak"],
        "calm peak": calm["shop"]["peak"],
    }
    wrong = hostile.wrong()
    for name, limit in (
        ("held", LIMITS.held_bytes), ("delayed", LIMITS.delayed_bytes), ("parked", LIMITS.parked_bytes),
        ("waiting", LIMITS.waiting_bytes),
    ):  # fmt: skip
        if facts["kept"][name] > limit + LIMITS.step_bytes + RECORD:
            wrong.append(f"{facts['kept'][name]} bytes are {name}, the limit is {limit}")
    if facts["kept"]["endpoints"] > most_of(LIMITS):
        wrong.append(f"{facts['kept']['endpoints']} endpoints in memory, the limit is {most_of(LIMITS)}")
    most = (
        2 * (LIMITS.held_bytes + LIMITS.delayed_bytes + LIMITS.parked_bytes + LIMITS.waiting_bytes)
        + ROW * attacker.sent
    )
    if size > most + ROW * len(hostile.dialogs):
        wrong.append(f"{size} bytes of rows after {attacker.sent} records, at most {most}")
    if facts["peak"] > calm["shop"]["peak"] + CLIENT + 12 * LIMITS.step_bytes:
        wrong.append(f"{facts['peak']} bytes of memory, {calm['shop']['peak']} in the calm world")
    wrong += [f"partitions {facts[name]} are {name}" for name in ("off", "paused") if facts[name]]
    if facts["braked"]:
        wrong.append("the brake is on")
    if attacker.may_write(hostile.place.topic("shop", COMMANDS)):
        wrong.append("the attacker may write commands too: its rights are not what they are to be")
    outcome.wrong += wrong
