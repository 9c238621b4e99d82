"""What will go wrong in a run on a cluster, when and for how long: drawn from a seed, each kind by itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from tests.chaos.cluster.nodes import NODES
from tests.chaos.cluster.proxy import CLIENTS, Effect, Trouble, Way

TWO_DAYS = 2 * 86_400.0
OFFSETS = (0.0, 1.5, 75.0, 3_700.0, 90_000.0, TWO_DAYS)
"""Seconds by which clocks are off, forwards or backwards: less than a step's worth, more than a request's patience, than an
hour's, than a day's, and as much as is promised."""


class Kind(Enum):
    """Kinds of faults; each can be left out."""

    BROKERS = "brokers"
    CUTS = "cuts"
    LATENCY = "latency"
    WORKERS = "workers"
    COPIES = "copies"
    CLOCKS = "clocks"


class What(Enum):
    """What is done."""

    KILL_BROKER = "kill broker"
    STOP_BROKER = "stop broker"
    FREEZE_BROKER = "freeze broker"
    CUT = "cut"
    LOSE = "lose"
    LOSE_AND_RESET = "lose and reset"
    SLOW = "slow"
    KILL_WORKER = "kill worker"
    FREEZE_WORKER = "freeze worker"
    DAMAGE_COPY = "damage copy"
    SET_COPY_BACK = "set copy back"
    SET_CLOCK = "set clock"


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong."""

    at: float
    """Seconds after the start."""
    what: What
    targets: tuple[str, ...]
    """Nodes, or a worker."""
    lasts: float = 0.0
    """Seconds."""
    ways: frozenset[Way] = frozenset()
    amount: float = 0.0
    """Of latency and clocks, seconds; of damage, the seed."""

    @property
    def over(self) -> float:
        """When it is over."""
        return self.at + self.lasts

    def trouble(self) -> Trouble:
        """What a fault of the network means to the proxy."""
        effect = {What.CUT: Effect.CUT, What.SLOW: Effect.SLOW}.get(self.what, Effect.LOST)
        return Trouble(self.ways, effect, latency=self.amount, resets=self.what is What.LOSE_AND_RESET)

    def __str__(self) -> str:
        """As a line of a plan."""
        where = ", ".join(f"{a} to {b}" for a, b in sorted(self.ways)) or ", ".join(self.targets)
        size = f" by {self.amount:g} s" if self.what in {What.SLOW, What.SET_CLOCK} else ""
        time = f" for {self.lasts:.1f} s" if self.lasts else ""
        return f"{self.at:6.1f} s  {self.what.value}{size}{time}: {where}"


def draw(seed: int, seconds: float, kinds: Collection[Kind], workers: Sequence[str]) -> list[Fault]:
    """Draw all faults of a run, by time; all are over within ``seconds``. A kind that is left out changes no other."""
    found = [
        fault
        for kind in Kind
        if kind in kinds
        for fault in _DRAWN[kind](Random(f"{kind.value} {seed}"), seconds, workers)
    ]
    return sorted(found, key=lambda fault: fault.at)


def _times(random: Random, seconds: float, every: float, longest: float) -> Iterator[tuple[float, float]]:
    """Times of faults that come one after the other, and how long each may last."""
    at = random.uniform(0.2, 1.0) * every
    while True:
        lasts = min(random.uniform(0.2, 1.0) * longest, seconds - at)
        if lasts < 1.0:
            return
        yield at, lasts
        at += lasts + random.uniform(0.5, 1.5) * every


def _brokers(random: Random, seconds: float, workers: Sequence[str]) -> Iterator[Fault]:
    """One broker after the other, now and then two at a time; each has time to come back."""
    whats = [What.KILL_BROKER] * 5 + [What.STOP_BROKER, What.FREEZE_BROKER, What.FREEZE_BROKER]
    for at, lasts in _times(random, seconds, 14.0, 8.0):
        number = 2 if random.random() < 0.15 else 1
        yield Fault(at, random.choice(whats), tuple(random.sample(NODES, number)), lasts)


def _both(one: str, others: Collection[str]) -> frozenset[Way]:
    return frozenset({(one, other) for other in others} | {(other, one) for other in others})


def _cuts(random: Random, seconds: float, workers: Sequence[str]) -> Iterator[Fault]:
    """Mostly a broker that is cut off from the others while clients still reach it."""
    whats = [What.CUT, What.LOSE, What.LOSE_AND_RESET]
    for at, lasts in _times(random, seconds, 9.0, 15.0):
        node, other = random.sample(NODES, 2)
        others = [name for name in NODES if name != node]
        ways = random.choice((
            _both(node, others), _both(node, others), _both(node, [*others, CLIENTS]), _both(node, [other]),
            _both(node, [CLIENTS]), frozenset({(node, other)}), frozenset({(node, name) for name in others}),
            frozenset({(name, node) for name in others}), frozenset({(CLIENTS, node)}), frozenset({(node, CLIENTS)}),
        ))  # fmt: skip
        whole = {(b, a) for a, b in ways} == ways
        yield Fault(at, random.choice(whats if whole else whats[1:]), (), lasts, ways)


def _latency(random: Random, seconds: float, workers: Sequence[str]) -> Iterator[Fault]:
    for at, lasts in _times(random, seconds, 10.0, 15.0):
        node = random.choice(NODES)
        ways = random.choice((
            _both(node, [name for name in NODES if name != node]), _both(node, [CLIENTS]),
            frozenset({(node, CLIENTS)}), frozenset(way for name in NODES for way in _both(name, [CLIENTS])),
        ))  # fmt: skip
        yield Fault(at, What.SLOW, (), lasts, ways, round(random.choice((0.02, 0.1, 0.4)) * random.uniform(0.5, 1), 3))


def _workers(random: Random, seconds: float, workers: Sequence[str]) -> Iterator[Fault]:
    for at, lasts in _times(random, seconds, 5.0, 9.0):
        if random.random() < 0.75:
            yield Fault(at, What.KILL_WORKER, (random.choice(workers),))
        else:
            yield Fault(at, What.FREEZE_WORKER, (random.choice(workers),), lasts)


def _copies(random: Random, seconds: float, workers: Sequence[str]) -> Iterator[Fault]:
    for at, _ in _times(random, seconds, 8.0, 8.0):
        yield Fault(at, What.DAMAGE_COPY, (random.choice(workers),), amount=random.randrange(1 << 30))
    for at, lasts in _times(random, seconds, 4.0, 25.0):
        yield Fault(at, What.SET_COPY_BACK, (random.choice(workers),), lasts)


def _clocks(random: Random, seconds: float, workers: Sequence[str]) -> Iterator[Fault]:
    """Every worker's clock is off from the start, and set to something else now and then, as the worker starts again."""
    for worker in workers:
        yield Fault(0.0, What.SET_CLOCK, (worker,), amount=_offset(random))
    for at, _ in _times(random, seconds, 12.0, 8.0):
        yield Fault(at, What.SET_CLOCK, (random.choice(workers),), amount=_offset(random))


def _offset(random: Random) -> float:
    return random.choice(OFFSETS) * random.choice((-1.0, 1.0)) + 0.0


_DRAWN: dict[Kind, Callable[[Random, float, Sequence[str]], Iterator[Fault]]] = {
    Kind.BROKERS: _brokers, Kind.CUTS: _cuts, Kind.LATENCY: _latency, Kind.WORKERS: _workers, Kind.COPIES: _copies,
    Kind.CLOCKS: _clocks,
}  # fmt: skip
