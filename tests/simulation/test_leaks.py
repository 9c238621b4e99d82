"""Nothing of a dialog is left after its end, whatever ended it; ``python -m tests.leaks`` proves it for many dialogs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conversations.ports import Out
from conversations.protocol import rows
from conversations.protocol.topics import STATE, service_topic
from tests.leaks import proof
from tests.leaks.patterns import PATTERNS
from tests.leaks.services import TALK
from tests.leaks.world import World
from tests.simulation.support import records

ROOT = Path(__file__).resolve().parents[2]
KINDS = (
    rows.ENDPOINT, rows.GROUP, rows.HELD, rows.DELAYED, rows.WAITING, rows.COMMAND, rows.PARK, rows.PARKED, rows.RETRY, rows.LETTER,
    rows.UNACKNOWLEDGED, rows.SUCCESSION,
)  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_nothing_is_left_of_a_dialog_and_no_copy_begins_it_again(name: str) -> None:
    """Each pattern asserts that it was reached: which handlers ran, and which rows were there."""
    found = proof.batch(seed=1, dialogs=7, names=[name])
    assert found.wrong == []
    assert found.dialogs == 7
    assert found.repeated >= 7


def test_the_patterns_together_write_every_kind_of_row() -> None:
    """The proof would say nothing of a kind of row that no dialog ever has."""
    found = proof.batch(seed=1, dialogs=190)
    assert found.wrong == []
    assert {kind.decode() for kind in KINDS} <= found.written.keys()


def row_of(kind: bytes) -> Callable[[World], None]:
    """Return a function that leaves a row of this kind."""

    def plant(world: World) -> None:
        (conversation,) = world.patterns
        topic = service_topic(world.sim.broker.namespace, "desk", STATE)
        world.sim.broker.append(Out(topic, 1, kind + rows.identity(conversation, False), b"left"))

    return plant


def memory(world: World) -> None:
    """Leave a deadline in the memory of a worker."""
    (conversation,) = world.patterns
    partition = world.sim.worker("caller").partitions[2]
    partition.schedule.deadlines.add(world.sim.clock.now() + records.HOUR, rows.identity(conversation, True))


@pytest.mark.parametrize("plant", [*map(row_of, KINDS), memory], ids=[*map(bytes.decode, KINDS), "memory"])
def test_a_planted_leak_is_found(plant: Callable[[World], None]) -> None:
    with World(seed=1) as world:
        PATTERNS["error-of-the-initiator"](world, 1)
        assert proof.left(world), "tombstones are there until their time has passed"
        proof.pass_the_horizon(world)
        assert proof.left(world) == []
        plant(world)
        (leak,) = proof.left(world)
        assert leak.startswith("desk, partition 1: row ") or "partition 2 of caller" in leak


def test_a_dialog_that_begins_again_is_found() -> None:
    with World(seed=1) as world:
        before = world.services.calls.copy()
        assert proof.begun(world, before) == []
        conversation = world.begin(TALK, world.say("quiet"))
        world.sim.run()
        first, *ends = proof.begun(world, before)
        assert first == "desk: said ran 1 times"
        assert [str(conversation) in end for end in ends] == [True, True]


def run(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.leaks", *options]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)


def test_the_program_says_what_it_has_proved() -> None:
    done = run("--dialogs", "40", "--seed", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 dialogs in " in done.stdout
    assert "Clean: no row is left." in done.stdout
    facts = json.loads(run("--dialogs", "40", "--seed", "3", "--json").stdout)
    assert (facts["dialogs"], facts["seed"], facts["wrong"]) == (40, 3, [])
    assert facts["patterns"] == list(PATTERNS)
