"""Worlds for simulations. The seed of a world decides which faults happen, how often, and how many workers each service has."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any

from conversations import Service, WorkerSettings
from conversations.config import Limits
from conversations.testing import Faults, Simulation

OLD = ("duplicate", "reorder", "crash", "abort", "revoke", "slow")
NEW = ("move", "stall", "hang", "noise")


@dataclass
class World:
    """The world of one seed. It makes simulations, and counts the messages that they handled."""

    seed: int
    faults: Faults
    workers: int = 1
    simulations: list[Simulation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def __str__(self) -> str:
        rates = {name: rate for name, rate in asdict(self.faults).items() if rate and name != "seed"}
        return f"seed {self.seed}, {self.workers} workers of each service, faults {rates}"

    def simulation(
        self, *services: Service[Any], settings: WorkerSettings | None = None, **options: Any
    ) -> AbstractContextManager[Simulation]:
        sim = Simulation(
            *services, faults=self.faults, workers=self.workers, settings=settings or self._varied(), **options
        )
        self.simulations.append(sim)
        return sim

    def _varied(self) -> WorkerSettings:
        """In every fourth world, nearly all messages go in fragments. In half of these, a step transmits about two fragments."""
        chance = Random(self.seed * 31 + 3).random()
        if chance >= 0.25:
            return self.settings()
        flow = 400 if chance < 0.125 else Limits.flow_bytes
        return self.settings(fragment_bytes=12, body_bytes=90_000, flow_bytes=flow)

    def settings(self, **limits: int) -> WorkerSettings:
        """Return the settings of a worker, with the given limits.

        In every second world, a step reads at most a few records, so that workers work ahead.
        """
        batch = Random(self.seed * 37 + 5).choice([WorkerSettings.batch] * 3 + [2, 3, 5])
        return WorkerSettings(
            batch=batch, patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000, limits=Limits(**limits)
        )

    def at_least(self, *, workers: int = 1, **rates: float) -> "World":
        """Raise some fault rates and the number of workers to at least these values, and return the world. For scenarios about these faults."""
        more: dict[str, Any] = {name: max(rate, getattr(self.faults, name)) for name, rate in rates.items()}
        self.faults = replace(self.faults, **more)
        self.workers = max(workers, self.workers)
        return self

    @property
    def handled(self) -> int:
        """Number of messages whose handlers' effects were committed."""
        return sum(len(sim.broker.ledger.handled) for sim in self.simulations)


def lonely(seed: int) -> World:
    """Return a world with one worker per service. Its records are repeated or late, its transactions fail, its handlers are slow, its process dies."""
    random = Random(seed * 7919 + 1)
    rates = {name: random.choice([0.0, 0.0, 0.1, 0.3]) for name in OLD}
    return World(seed, Faults(seed=seed, **rates))


def crowded(seed: int) -> World:
    """Return a world with the faults of ``lonely`` and up to three workers per service. Partitions move, processes stand still, transactions hang."""
    world = lonely(seed)
    random = Random(seed * 104_729 + 7)
    rates: dict[str, Any] = {name: random.choice([0.0, 0.0, 0.05, 0.2]) for name in NEW}
    rates["survive"] = random.choice([0.0, 0.5, 1.0])
    world.workers = random.choice([1, 2, 2, 3])
    world.faults = replace(world.faults, **rates)
    return world


Scenario = Callable[[World], None]


def play(scenario: Scenario, world: World) -> int:
    """Play a scenario in a world. Return the number of messages that were handled."""
    try:
        scenario(world)
    except BaseException as error:
        error.add_note(f"{scenario.__name__}, {world}; again: {again(scenario, world.seed)}")
        raise
    return world.handled


def again(scenario: Scenario, seed: int) -> str:
    """Return the command that plays one seed of a scenario again."""
    return f"python -m tests.simulation --scenario {scenario.__name__} --seed {seed}"
