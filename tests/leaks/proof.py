"""The proof: after a horizon nothing of the dialogs is left, and a copy of every record begins nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta

from conversations.protocol import rows
from conversations.testing.reading import endpoints
from tests.leaks.patterns import PATTERNS
from tests.leaks.world import SERVICES, World
from tests.simulation.support import records

LETTERS = timedelta(days=91)
"""Longer than a letter is open."""
TOMBSTONES = timedelta(hours=8)
"""Longer than ``start_within``, ``grace`` and some ticks."""
COMMANDS = timedelta(days=1, hours=2)
"""Longer than a worker remembers a command."""


@dataclass
class Found:
    """What some batches came to."""

    dialogs: int = 0
    handled: int = 0
    repeated: int = 0
    """Records that were appended once more."""
    written: Counter[str] = field(default_factory=Counter)
    """By the letter of their kind: rows that were in the state tables at some time."""
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Add what another batch came to."""
        self.dialogs += other.dialogs
        self.handled += other.handled
        self.repeated += other.repeated
        self.written += other.written
        self.wrong += other.wrong

    def facts(self) -> dict[str, object]:
        """Return all of it for JSON."""
        return {**asdict(self), "written": dict(sorted(self.written.items()))}


def judged(seed: int, dialogs: int) -> Found:
    """Run a batch; a failed assertion of a pattern or of an invariant is a finding too. Each finding names its batch."""
    try:
        found = batch(seed, dialogs)
    except AssertionError as error:
        found = Found(dialogs, wrong=[str(error)])
    found.wrong = [f"{text} (again: python -m tests.leaks --seed {seed} --dialogs {dialogs})" for text in found.wrong]
    return found


def batch(seed: int, dialogs: int, names: Sequence[str] = tuple(PATTERNS)) -> Found:
    """Let dialogs of these patterns end one pattern after the other in one simulation, and prove that nothing of them is left."""
    found = Found()
    with World(seed) as world:
        for at, name in enumerate(names):
            count = (dialogs + at) // len(names)  # the sum of the counts is ``dialogs``
            world.pattern = name
            if count:
                PATTERNS[name](world, count)
            found.dialogs += count
            world.crash_by_chance()
        pass_the_horizon(world)
        found.wrong += left(world)
        if not found.wrong:
            world.sim.check_invariants()
        found.written += world.kinds_written()
        found.wrong += repeated(world, found)
        found.handled += sum(world.services.calls.values())
    return found


def pass_the_horizon(world: World) -> None:
    """Let time pass until every row must be gone: on the clocks, and by ticks in the log.

    Workers tick only while tombstones wait. Without records in the queue the rows of commands and of letters wait for the next one.
    """
    for span in (TOMBSTONES, COMMANDS, LETTERS):
        world.sim.advance(span)
        world.tick()


def left(world: World) -> list[str]:
    """Describe what is left in the state tables and in the memory of the workers."""
    found = world.left()
    if not found:
        try:
            world.sim.check_forgotten()
        except AssertionError as error:
            found.append(str(error))
    return found


def repeated(world: World, found: Found) -> list[str]:
    """Append every record of both queues once more. No endpoint may begin, no handler may run, and later nothing is left again."""
    # The simulation would check its invariants meanwhile. They say that a message has one outcome, and a copy of a message of a
    # forgotten dialog is a dead letter, although the message was handled.
    world.sim.chance.active = False
    before = world.services.calls.copy()
    for service in SERVICES:
        found.repeated += len(records.queued(world.sim, service))
        records.replay(world.sim, service)
    world.sim.run()
    wrong = [f"after a copy of every record {text}" for text in begun(world, before)]
    pass_the_horizon(world)
    return wrong + [f"after a copy of every record, and another horizon: {text}" for text in left(world)]


def begun(world: World, before: Counter[str]) -> list[str]:
    """Describe the endpoints that are open, and the handlers that ran since ``before``."""
    ran = world.services.calls - before
    found = [f"{name} ran {number} times" for name, number in sorted(ran.items())]
    for service in SERVICES:
        for identity, end in endpoints(world.sim.broker, service).items():
            if not isinstance(end, rows.Tombstone):
                found.append(f"{service} has an endpoint of {world.name_of(identity[:16])} in state {end.state.name}")
    return found
