"""Pools under attack: forged commands, breaks at the wrong moment, limits, operators."""

import uuid
from datetime import timedelta

import pytest

from conversations import Dialog, PeerError, Service
from conversations.config import Limits, WorkerSettings
from conversations.protocol import rows
from conversations.protocol.command import (
    Cleanup,
    Command,
    End,
    Operation,
    Report,
    Reuse,
    Send,
    encode_command,
    pool_id,
    topic_for,
)
from conversations.protocol.contract import END_OF_STREAM
from conversations.protocol.identifiers import uuid_text
from conversations.protocol.succession import decode_succession
from conversations.testing import Simulation
from conversations.testing.reading import state_of
from conversations_ops.cli.one_dialog import described, plain
from conversations_ops.operate.dialogs import sides_in
from tests.simulation.support import records
from tests.simulation.test_pools import HELD, MINUTE, Seen, World, numbers

SEND = Send("Push", "application/json", b'{"text": "0"}')


def forge(world: World, key: str, *operations: Operation, conversation: bytes = b"") -> None:
    """Append a command that no client of this library writes."""
    group = world.pool.group(key)
    name = world.sim.chance.random.randbytes(16)
    command = Command(
        name, conversation or pool_id(group), True, group, "", "alerts", world.sim.clock.now(), operations
    )
    world.sim.broker.append_keyed("alerts", topic_for(command), group.encode(), encode_command(command))


@pytest.mark.parametrize(
    "reuse",
    [
        Reuse("gateway", "Pushes", -1),
        Reuse("gateway", "Pushes", 0),
        Reuse("gateway", "Pushes", -(1 << 63)),
        Reuse("gateway", "Pushes", 1, -1),
        Reuse("gateway", "Other", 1),
        Reuse("no such name", "Pushes", 1),
        Reuse("gateway", "Pushes", 1, 0, "x" * 10_000),
    ],
    ids=str,
)
def test_a_command_with_impossible_numbers_or_names_is_refused(reuse: Reuse) -> None:
    """It becomes a dead letter, and the key can be used afterwards."""
    world = World(raise_failures=False)
    with world.sim as sim:
        forge(world, "a", reuse, SEND)
        sim.advance(MINUTE)
        assert len(sim.dead_letters("alerts")) == 1
        assert world.rows("alerts", rows.SUCCESSION) == []
        world.push("a", "1")
        sim.advance(MINUTE)
        assert world.of("a") == (["1"], 1)
        sim.check_invariants()


def test_a_command_may_name_the_longest_age() -> None:
    world = World()
    with world.sim as sim:
        forge(world, "a", Reuse("gateway", "Pushes", (1 << 63) - 1, (1 << 63) - 1), SEND)
        sim.run()
        world.push("a", "1")
        sim.run()
        assert world.of("a") == (["0", "1"], 1)
        sim.check_invariants()


@pytest.mark.parametrize("when", ["message", "age"])
def test_a_dialog_that_is_replaced_while_it_is_broken_is_ended_too(when: str) -> None:
    """It is sent again by hand, after the next dialog began or its age passed. The dialog that carries on must not stay open."""
    world = World(lifetime=timedelta(days=100), resend="by-hand", raise_failures=False)
    alerts = Service("alerts", initiates=[world.pushes], ignores=[Seen], poison=[HELD])
    fails = ["once"]

    @alerts.on_error()
    def broken(error: PeerError, dialog: Dialog) -> None:
        if fails:
            raise ValueError(fails.pop())
        dialog.resend()

    world.sim = Simulation(world.gateway.service, alerts, raise_failures=False)
    with world.sim as sim:
        world.push("a", "0", "1")
        sim.run()
        first = world.gateway.dialogs[world.pool.group("a")][0].partition(":")[0]
        command = Command(
            bytes(16),
            uuid.UUID(first).bytes,
            False,
            world.pool.group("a"),
            "",
            "ada",
            sim.clock.now(),
            (Cleanup(), Report()),
        )
        sim.broker.append_keyed("gateway", topic_for(command), command.key.encode(), encode_command(command))
        sim.run()
        world.push("a", "2")
        sim.run()
        assert fails == []
        if when == "message":
            world.push("a", "3")
        sim.advance(MINUTE if when == "message" else 11 * MINUTE)
        world.push("a", "4")
        sim.run()
        (failed,) = sim.parked("alerts")
        sim.decide(failed, "retry")
        sim.advance(2 * MINUTE)
        assert world.of("a") == (["0", "1", "2", *["3"] * (when == "message"), "4"], 3)
        sim.check_invariants()


@pytest.mark.parametrize("hours", [1, 5])
@pytest.mark.parametrize("seed", range(3))
def test_a_target_whose_queue_is_off_gets_all_later(hours: int, seed: int) -> None:
    """Its dialogs are replaced meanwhile."""
    world = World(max_messages=2, lifetime=timedelta(hours=2), raise_failures=False, workers=2)
    with world.sim as sim:
        world.push("a", "0")
        sim.run()
        sim.turn_queue("gateway", on=False)
        for at in range(1, 8):
            world.push("a", str(at))
            sim.advance(hours * timedelta(minutes=60) / 7)
        sim.turn_queue("gateway", on=True)
        sim.advance(MINUTE)
        sim.advance(MINUTE)
        handled = world.of("a")[0]
        assert handled == sorted(handled)
        if hours == 1:
            assert handled == numbers(0, 8)
        sim.check_invariants()


@pytest.mark.parametrize("verb", [End(), Cleanup()])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_an_operator_ends_a_dialog_of_a_key(verb: Operation, which: int) -> None:
    """The replaced dialog, the one behind it, or the last one."""
    world = World(max_messages=2, poison=[HELD], raise_failures=False)
    with world.sim as sim:
        world.gateway.fails.add("0")
        for at in numbers(0, 6):
            world.push("a", at)
        sim.run()
        own = world.sim.worker("alerts")
        (partition,) = [it for it in own.partitions.values() if it.successions._count]
        dialogs = partition.successions.of(world.pool.group("a")).dialogs
        assert len(dialogs) == 3
        forge(world, "a", verb, Report(), conversation=dialogs[which][:16])
        sim.advance(MINUTE)
        world.push("a", "6")
        sim.advance(MINUTE)
        world.gateway.fails.clear()
        (failed,) = sim.parked("gateway")
        sim.decide(failed, "retry")
        sim.advance(5 * MINUTE)
        handled = world.of("a")[0]
        lost = set(numbers(2 * which, 2)) if isinstance(verb, Cleanup) and which else set()
        assert sorted(handled) == sorted({*numbers(0, 7)} - lost)
        if not (which == 0 and isinstance(verb, Cleanup)):
            assert handled == sorted(handled)
        sim.check_invariants()


def test_dialogs_leave_memory_between_messages() -> None:
    world = World(
        max_messages=2,
        poison=[HELD],
        raise_failures=False,
        settings=WorkerSettings(limits=Limits(cached_bytes=1)),
    )
    with world.sim as sim:
        world.gateway.fails.add("1")
        for at in range(8):
            for key in "abcdefgh":
                world.push(key, str(at))
            sim.run()
            sim.crash("alerts") if at == 4 else None
        world.gateway.fails.clear()
        for it in sim.parked("gateway"):
            sim.decide(it, "retry")
        sim.advance(MINUTE)
        for key in "abcdefgh":
            assert world.of(key) == (numbers(0, 8), 4)
        sim.check_invariants()


def test_the_bytes_of_dialogs_that_are_held_back_are_limited() -> None:
    """Also if each of them is new."""
    world = World(
        max_messages=1,
        poison=[HELD],
        raise_failures=False,
        settings=WorkerSettings(limits=Limits(delayed_bytes=20_000, dialog_bytes=20_000)),
    )
    with world.sim as sim:
        world.gateway.fails.add("0")
        world.push("a", "0")
        sim.run()
        for at in range(50):
            world.push("a", "x" * 5_000 + str(at))
        sim.run()
        own = world.sim.worker("alerts")
        total = sum(it.waiting.delayed.bytes for it in own.partitions.values())
        assert total < 40_000
        assert {letter.code for letter in sim.dead_letters("alerts")} == {50008}


def test_a_dialog_that_is_held_back_tells_which_dialog_it_waits_for() -> None:
    """To the reader in the process, and to the operator."""
    world = World(max_messages=1, poison=[HELD], raise_failures=False, partitions=1)
    with world.sim as sim:
        world.gateway.fails.add("0")
        for text in numbers(0, 3):
            world.push("a", text)
        sim.run()
        (table,) = state_of(sim.broker, "alerts")
        found = {it.name: it for it in sides_in(table, (sim.broker.namespace, "alerts", 0))}
        (row,) = [row for key, row in table.items() if key[:1] == rows.SUCCESSION]
        first, second, third = (uuid_text(own[:16]) for own in decode_succession(row).dialogs)
        assert [found[it].before for it in (first, second, third)] == ["", first, second]
        assert f"waits for     the end of dialog {second}, which is before it in its pool" in described(
            [found[third]], {}, {}
        )
        assert plain(found[third])["dialog_before"] == second
        reader = sim.reader("alerts")
        group = world.pool.group("a")
        says = reader.dialog(f"{second}@{group}").waiting_for
        assert says == f"the end of dialog {first}, which is before it in its pool (2 delayed)"


def test_a_dialog_is_asked_to_end_only_once() -> None:
    """Its age passes while a message is held at the target, and then a message begins the next dialog."""
    world = World(poison=[HELD], raise_failures=False)
    with world.sim as sim:
        world.gateway.fails.add("0")
        world.push("a", "0")
        sim.advance(11 * MINUTE)
        world.push("a", "1")
        sim.run()
        assert [it.message_type for it in records.queued(sim, "gateway") if it.seq > 0] == [END_OF_STREAM]
        world.gateway.fails.clear()
        (failed,) = sim.parked("gateway")
        sim.decide(failed, "retry")
        sim.advance(MINUTE)
        assert world.of("a") == (["0", "1"], 2)
        assert [letter.message_type for letter in sim.dead_letters("gateway")] == [
            "Push"
        ]  # what the operator decided about
        sim.check_invariants()


def test_the_end_of_a_stream_behind_a_held_message_is_no_dead_letter() -> None:
    """The operator gives up on the held message and ends the dialog."""
    world = World(max_messages=2, poison=[HELD], resend="off", raise_failures=False)
    with world.sim as sim:
        world.gateway.fails.add("0")
        for text in numbers(0, 3):
            world.push("a", text)
        sim.run()
        (failed,) = sim.parked("gateway")
        sim.decide(failed, "end", code=7, description="enough")
        sim.advance(MINUTE)
        assert {letter.message_type for letter in sim.dead_letters("gateway")} == {"Push"}
        assert world.of("a") == (["2"], 1)
        sim.check_invariants()
