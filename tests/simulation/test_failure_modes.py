"""How retry topics and dead letters of others lose order or messages, each by its name: none of it happens here.

The list is that of what was found in libraries and reports; the docstring of a test says what went wrong there. What only
a real Kafka can get wrong has its test in ``tests/rules``, and is named in ``ELSEWHERE``.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conversations import Brake, Dialog, Limits, PoisonPolicy, Service, Then, WorkerSettings, local
from conversations.config import Periods
from conversations.durations import milliseconds
from conversations.kafka.topic_settings import SETTINGS, wanted
from conversations.protocol import rows
from conversations.protocol.command import Action
from conversations.protocol.topics import DEAD_LETTER, RETRY
from conversations.testing import Faults, Simulation, reading
from conversations.testing.reading import visible
from conversations_ops.operate.redrive.plan import Care, freeze
from conversations_ops.operate.redrive.selection import Selector
from tests.simulation.support.services import ECHO, Say
from tests.simulation.test_brake import Deployed, talk
from tests.simulation.test_decisions import by_hand
from tests.simulation.test_parking import SECOND, SLOW, Moody, texts

ROOT = Path(__file__).resolve().parents[2]
HOLD = PoisonPolicy(delays=[])
PERIODS = Periods()
ELSEWHERE = {
    "state is rebuilt for some seconds, not to its end": "tests/rules/test_restoring.py::"
    "test_a_restore_waits_for_the_rows_of_an_open_transaction",
    "a cold start takes minutes": "bench/parking/backlog.py::restore",
    "a mass retry has no canary, and hangs": "tests/acceptance/test_redrive.py::"
    "test_a_redrive_tries_a_few_first_and_leaves_later_letters_alone",
}
"""Failure modes whose proof is not in this file, and where it is."""


def waiting(keys: list[bytes], kind: bytes) -> set[bytes]:
    """Endpoints that have rows of a kind."""
    return {key[1:18] for key in keys if key[:1] == kind}


def parked_keys(sim: Simulation) -> list[bytes]:
    """Keys of all rows that keep something parked, as compaction will leave them."""
    kinds = (rows.PARK, rows.PARKED, rows.RETRY)
    return [key for table in reading.state_of(sim.broker, "moody") for key in table if key[:1] in kinds]


def say(dialog: Any, *said: str) -> None:
    for text in said:
        dialog.send(Say(text=text))


def test_a_second_failure_does_not_reorder() -> None:
    """The failing head goes to the end of the retry topic, behind what waited for it."""
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        say(dialog, "a 2", "b 1", "c")
        sim.advance(5 * SECOND)
        say(dialog, "d")
        sim.advance(70 * SECOND)
        assert moody.handled == texts(dialog) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_parked_and_that_it_is_parked_are_written_together(seed: int) -> None:
    """Lock and payload are two writes: a lock without a message, or a message that nothing waits behind."""
    moody = Moody(PoisonPolicy(delays=[4 * SECOND]))
    faults = Faults(seed=seed, crash=0.2, abort=0.2)
    with Simulation(moody.service, raise_failures=False, faults=faults) as sim:
        dialogs = [sim.peer("web").begin_dialog("moody", ECHO) for _ in range(4)]
        for dialog in dialogs:
            say(dialog, "a", "b 1", "c")
        sim.run()
        assert len(waiting(parked_keys(sim), rows.PARK)) == 4
        for _ in range(10):
            keys = parked_keys(sim)
            assert waiting(keys, rows.PARK) == waiting(keys, rows.PARKED)
            sim.advance(SECOND)
        assert parked_keys(sim) == []
        assert [texts(dialog) for dialog in dialogs] == [["a", "b", "c"]] * 4
        sim.check_invariants()


def test_nothing_is_left_of_a_wait_that_is_over() -> None:
    """The key of the lock's tombstone is another than the lock's: it is found again after a restart."""
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        say(dialog, "a 1", "b")
        sim.run()
        assert len(parked_keys(sim)) == 3
        sim.advance(5 * SECOND)
        assert parked_keys(sim) == []
        sim.crash("moody")
        say(dialog, "c")
        sim.run()
        assert texts(dialog) == ["a", "b", "c"]


def test_whoever_owns_the_partition_knows_what_waits() -> None:
    """Locks are a map in one process, and what unlocks goes to another one of the group."""
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False, partitions=2, workers=2) as sim:
        dialogs = [sim.peer("web").begin_dialog("moody", ECHO) for _ in range(6)]
        for dialog in dialogs:
            say(dialog, "a 1", "b")
        sim.run()
        sim.crash("moody")
        for dialog in dialogs:
            say(dialog, "c")
        sim.run()
        assert moody.handled == []
        sim.advance(5 * SECOND)
        assert [texts(dialog) for dialog in dialogs] == [["a", "b", "c"]] * 6


def test_what_arrives_in_the_moment_of_unlocking_overtakes_nobody() -> None:
    """The head succeeds while followers are still on their way: what is new runs first."""
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        say(dialog, "a 1", *"bcdefgh")
        sim.advance(4 * SECOND)
        say(dialog, "i")  # is read by the step in which the head is tried again
        sim.advance(SECOND)
        assert texts(dialog) == list("abcdefghi")


def let_expire(sim: Simulation) -> None:
    """Take away what Kafka deletes when its time is over: what topics hold that are not only compacted."""
    for name, partitions in sim.broker.topics.items():
        kind = RETRY if f".{RETRY}." in name else name.rpartition(".")[2]
        if "delete" in str(SETTINGS[kind]["cleanup.policy"]):
            for record in (record for records in partitions for record in records):
                record.visible = False


def test_what_is_parked_does_not_expire() -> None:
    """Retry topics keep an hour; what waits longer is gone."""
    moody = Moody(PoisonPolicy(delays=[timedelta(days=100)]))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO, lifetime=timedelta(days=365))
        say(dialog, "a", "b 1", "c")
        sim.run()
        let_expire(sim)
        sim.crash("moody")
        say(dialog, "d")
        sim.advance(timedelta(days=99))
        assert moody.handled == ["a"]
        sim.advance(timedelta(days=1))
        assert texts(dialog) == moody.handled == ["a", "b", "c", "d"]


def test_a_letter_is_not_open_longer_than_its_bytes_are_there() -> None:
    """An operator decides about a letter, and what it was is gone."""
    assert int(wanted(DEAD_LETTER, periods=PERIODS)["retention.ms"]) == milliseconds(PERIODS.letter_life)


@pytest.mark.parametrize(
    ("then", "answered", "kept"),
    [(Then.HOLD, ["a"], [1]), (Then.SKIP, ["a", "c", "d"], [1]), (Then.END_DIALOG, ["a"], [1, 2, 3])],
)
def test_giving_up_leaves_no_doubt_about_what_waits_behind(then: Then, answered: list[str], kept: list[int]) -> None:
    """A dead letter leaves the key locked for ever, or the followers run over the hole and nobody is told."""
    moody = Moody(PoisonPolicy(delays=[SECOND], then=then))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        say(dialog, "a", "b 9", "c", "d")
        sim.advance(SECOND)
        assert texts(dialog) == answered
        assert [letter.sequence for letter in sim.dead_letters("moody")] == kept
        assert (len(sim.parked("moody")), bool(dialog.error)) == (then is Then.HOLD, then is Then.END_DIALOG)


def test_attempts_are_not_forgotten_in_a_restart() -> None:
    """The delivery count is in memory, so that what kills its worker, or waits long, never reaches the limit."""
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False) as sim:
        say(sim.peer("web").begin_dialog("moody", ECHO), "a 9")
        for wait in (0, 5, 60):
            sim.advance(wait * SECOND)
            sim.crash("moody")
        assert [attempt for _, attempt in moody.tried] == [1, 2, 3]
        assert len(sim.dead_letters("moody")) == 1


@pytest.mark.parametrize("restart", [False, True])
def test_a_long_delay_holds_up_no_shorter_one(restart: bool) -> None:
    """A partition of the retry topic is paused for its first record, and with it every key there."""
    moody = Moody(PoisonPolicy(delays=SLOW))
    with Simulation(moody.service, raise_failures=False, partitions=1) as sim:
        web = sim.peer("web")
        slow, fast = web.begin_dialog("moody", ECHO), web.begin_dialog("moody", ECHO)
        say(slow, "a 2")
        sim.advance(5 * SECOND)  # waits for a minute now
        say(fast, "x 1")
        sim.run()
        if restart:
            sim.crash("moody")
        sim.advance(5 * SECOND)
        assert texts(fast) == ["x"]
        assert texts(slow) == []


def test_the_key_is_kept_on_every_hop() -> None:
    """Retry and dead-letter topics get the record without its key, or in another partition."""
    moody = Moody(PoisonPolicy(delays=[5 * SECOND]))
    with Simulation(moody.service, raise_failures=False, partitions=3) as sim:
        for _ in range(5):
            say(sim.peer("web").begin_dialog("moody", ECHO), "a 9")
        sim.advance(6 * SECOND)
        named = {name: list(visible(sim.broker, name)) for name in sim.broker.topics if ".moody." in name}
        sent = sorted((it.key(), it.partition(), it.value()) for it in named["conv.moody.queue"])
        assert len(sent) == 5
        assert len({partition for _, partition, _ in sent}) > 1
        for hop in ("conv.moody.retry.5s", "conv.moody.dead-letter"):
            assert sorted((it.key(), it.partition(), it.value()) for it in named[hop]) == sent


def test_a_poisoned_dialog_takes_no_room_from_healthy_ones() -> None:
    """What waits fills the buffer of the consumer, whose intake stops for all keys."""
    moody = Moody(HOLD)
    limits = Limits(parked_bytes=200_000, waiting_bytes=1)
    settings = WorkerSettings(batch=10, patience=timedelta(0), revocation=timedelta(0), limits=limits)
    with Simulation(moody.service, raise_failures=False, partitions=1, settings=settings) as sim:
        web = sim.peer("web")
        poisoned, *large, healthy = (web.begin_dialog("moody", ECHO) for _ in range(6))
        say(poisoned, "a 9", *(f"behind {number}" for number in range(500)))
        for dialog in large:
            say(dialog, "a" * 100_000 + " 9")
        say(healthy, "x")
        sim.run()
        assert texts(healthy) == ["x"]
        assert moody.handled == ["x"]
        assert not any(dialog.error for dialog in (poisoned, *large, healthy))
        assert sum(it.size for it in sim.parked("moody")) > 2 * limits.parked_bytes


def test_what_is_given_back_does_not_interleave_with_what_is_new() -> None:
    """Redriven messages are produced to the main topic, behind what was sent since."""
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        say(dialog, "a 1", "b 1", "c")
        sim.run()
        for new in "de":
            (it,) = sim.parked("moody")
            sim.decide(it, by_hand(Action.RETRY))
            say(dialog, new)
            sim.run()
        assert texts(dialog) == list("abcde")


def test_a_mass_retry_ends_where_it_was_asked_for() -> None:
    """Letters that came after the click are retried too."""
    moody = Moody(HOLD)
    with Simulation(moody.service, raise_failures=False) as sim:
        web = sim.peer("web")
        say(web.begin_dialog("moody", ECHO), "a 9")
        sim.run()
        planned, _ = freeze(sim.parked("moody"), Selector(), Care())
        (it,) = sim.parked("moody")
        sim.decide(it, by_hand(Action.RETRY))
        say(web.begin_dialog("moody", ECHO), "b 9")
        sim.run()
        (again,) = [found for found in sim.parked("moody") if found.conversation == it.conversation]
        assert [letter.letter for letter in planned] == [it.letter], "the second came later"
        tried = len(moody.tried)
        sim.decide(it, by_hand(Action.RETRY))  # as the plan knows it: somebody has tried it since
        sim.run()
        assert (len(moody.tried), again.ticket != planned[0].ticket) == (tried, True)


def test_an_outage_does_not_flood_the_dead_letters() -> None:
    """A dependency is down for an hour, and the hour's messages are dead letters."""
    settings = replace(WorkerSettings(), patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000)
    deployed = Deployed()
    with Simulation(
        deployed.service, raise_failures=False, settings=replace(settings, brake=Brake(dialogs=5, share=0.5))
    ) as sim:
        dialogs = talk(sim, 100, "a")
        sim.advance(120 * SECOND)
        assert len(sim.dead_letters("moody")) <= 10
        deployed.broken = False
        sim.advance(10 * SECOND)
        assert sum(texts(dialog) == ["a"] for dialog in dialogs) >= 90


def simulated(service: Service[Any], _: threading.Event) -> None:
    with Simulation(service) as sim:
        say(sim.peer("web").begin_dialog("moody", ECHO), "a", "b")
        sim.run()


def threaded(service: Service[Any], done: threading.Event) -> None:
    """With the scheduler that workers have outside of simulations."""
    with local(service) as client:
        with client.begin_dialog("moody", ECHO) as dialog:
            say(dialog, "a", "b")
        assert done.wait(30)


@pytest.mark.parametrize("how", [simulated, threaded])
def test_an_async_handler_is_done_before_the_next_of_its_dialog_begins(
    how: Callable[[Service[Any], threading.Event], None],
) -> None:
    """Messages are delivered in order, but what their handlers do while they wait is not."""
    seen: list[str] = []
    done = threading.Event()
    service: Service[dict[str, Any]] = Service("moody", accepts=[ECHO])

    @service.on(Say)
    async def handle(body: Say, dialog: Dialog) -> None:
        seen.append(f"begin {body.text}")
        await asyncio.sleep(0.02 if body.text == "a" else 0)
        seen.append(f"end {body.text}")
        if len(seen) == 4:
            done.set()

    how(service, done)
    assert seen == ["begin a", "end a", "begin b", "end b"]


@pytest.mark.parametrize("place", ELSEWHERE.values(), ids=list(ELSEWHERE))
def test_what_is_proved_elsewhere_is_there(place: str) -> None:
    file, _, name = place.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
