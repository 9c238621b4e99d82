"""While a handler runs: its group waits in order, everybody else goes on."""

from collections.abc import Iterator, Sequence
from functools import partial
from uuid import UUID

import pytest

from conversations import Dialog, PoisonPolicy, Then
from conversations.config import Periods
from conversations.memory.connection import MemoryConnection
from conversations.ports import ANY_SIZE, Record
from conversations.protocol.command import Command, End, encode_command, topic_for
from conversations.protocol.topics import COMMANDS, DEAD_LETTER, service_topic
from conversations.testing.reading import visible
from tests.slow_handlers.support.gated_service import Task, Waiting, Workshop, until


@pytest.fixture
def shop() -> Iterator[Workshop]:
    made = Workshop()
    yield made
    made.close()


HOUR = 3_600 * 1_000_000


def test_a_slow_handler_holds_up_its_dialog_and_nobody_else(shop: Workshop) -> None:
    """What follows it waits as rows, and comes in order when it is done."""
    boss, worker = shop.worker(shop.boss), shop.worker()
    shop.ask(Task(name="slow", stuck=True), *(Task(name="slow", n=n) for n in range(1, 20)))
    until(lambda: shop.gates.entered("slow"), boss, worker)
    for n in range(20):
        shop.ask(Task(name="quick", n=n))
        until(partial(shop.results.__contains__, ("quick", n)), boss, worker)
    until(lambda: len(shop.attempts()) == 20, boss, worker)
    assert not [name for name, _ in shop.done if name == "slow"]
    shop.gates.open("slow")
    until(lambda: len(shop.results) == 40, boss, worker)
    assert [n for name, n in shop.results if name == "slow"] == list(range(20))
    assert shop.attempts() == []


class QueueFirst(MemoryConnection):
    """A connection that returns the records of the queue before the commands. Kafka's client may return topics in any order."""

    def poll(self, timeout: float, limit: int, size: int = ANY_SIZE) -> Sequence[Record]:
        return sorted(super().poll(timeout, limit, size), key=lambda record: record.topic().endswith(COMMANDS))


def test_a_command_that_comes_before_the_dialog_does_not_meet_its_handler(shop: Workshop) -> None:
    """It is in another lane than the dialog, so it is refused. Else it would close the dialog while the handler runs, whose message would be held for ever."""
    boss = shop.worker(shop.boss)
    dialog = shop.ask(Task(name="slow", stuck=True))
    until(lambda: shop.waiting() == 1, boss)
    command = Command(b"c" * 16, UUID(dialog).bytes, False, dialog, "", "ada", shop.clock.now(), (End(),))
    shop.broker.append_keyed("shop", topic_for(command), dialog.encode(), encode_command(command))
    worker = shop.worker(connection=QueueFirst)
    until(lambda: shop.gates.entered("slow") and worker.counts.commands == 1, boss, worker)
    shop.gates.open("slow")
    until(lambda: shop.results == [("slow", 0)], boss, worker)
    letters = visible(shop.broker, service_topic(shop.broker.namespace, "shop", DEAD_LETTER))
    assert [dict(letter.headers() or ())["dl.reason"] for letter in letters] == [b"command-refused"]


def test_slow_handlers_in_every_place_do_not_hold_up_what_needs_no_handler(shop: Workshop) -> None:
    """An END, which nothing handles here, is taken and its dialog closed while the pool is full for long."""
    boss, worker = shop.worker(shop.boss), shop.worker(concurrency=4)
    dialog = shop.ask(Task(name="quick"))
    until(lambda: len(shop.results) == 1, boss, worker)
    names = [f"slow-{n}" for n in range(8)]
    for name in names:
        shop.ask(Task(name=name, stuck=True))
    until(lambda: sum(map(shop.gates.entered, names)) == 4 and len(shop.attempts()) == 8, boss, worker)
    with shop.client() as client, client.dialog(dialog) as mine:
        mine.end()
    until(lambda: boss.counts.closed == worker.counts.closed == 1, boss, worker)
    assert sum(map(shop.gates.entered, names)) == 4
    shop.gates.open(*names)
    until(lambda: len(shop.results) == 9, boss, worker)


def test_an_async_handler_that_awaits_holds_up_its_dialog_and_nobody_else(shop: Workshop) -> None:
    boss, worker = shop.worker(shop.boss), shop.worker()
    shop.ask(Waiting(name="slow", stuck=True), Waiting(name="after"))
    until(lambda: shop.gates.entered("slow"), boss, worker)
    shop.ask(Waiting(name="quick"))
    until(lambda: ("quick", 0) in shop.results, boss, worker)
    shop.gates.open("slow")
    until(lambda: len(shop.results) == 3, boss, worker)
    assert [name for name, _ in shop.results] == ["quick", "slow", "after"]


def test_commands_for_a_group_wait_for_its_running_handler_and_others_do_not(shop: Workshop) -> None:
    """The boss hears an answer for long; what its client sends and ends meanwhile goes out behind, in order."""
    boss, worker = shop.worker(shop.boss), shop.worker()
    dialog = shop.ask(Task(name="hold"))
    until(lambda: shop.gates.entered("hold"), boss, worker)
    with shop.client() as client, client.dialog(dialog) as mine:
        mine.send(Task(name="held", n=1))
        mine.send(Task(name="held", n=2))
        mine.end()
    shop.ask(Task(name="quick"))
    until(lambda: shop.results == [("quick", 0)] and len(shop.attempts("boss")) >= 2, boss, worker)
    assert shop.done == [("hold", 0), ("quick", 0)]
    shop.gates.open("hold")
    until(lambda: boss.counts.closed == worker.counts.closed == 1, boss, worker)
    assert shop.done == [("hold", 0), ("quick", 0), ("held", 1), ("held", 2)]


def test_an_error_of_the_peer_waits_for_the_running_handler_and_for_what_came_before_it(shop: Workshop) -> None:
    boss, worker = shop.worker(shop.boss), shop.worker()
    dialog = shop.ask(Task(name="slow", stuck=True), Task(name="behind"))
    until(lambda: shop.gates.entered("slow"), boss, worker)
    with shop.client() as client, client.dialog(dialog) as mine:
        mine.end_with_error(7, "never mind")
    until(lambda: len(shop.attempts()) == 3, boss, worker)
    assert shop.errors == []
    shop.gates.open("slow")
    until(lambda: worker.counts.closed == 1, boss, worker)
    assert shop.done == [("slow", 0), ("behind", 0)]
    assert shop.errors == [7]


def test_the_end_of_a_life_waits_for_the_running_handler(shop: Workshop) -> None:
    """The boss asks, and its side ends without an answer; the shop's when its handler is done, whose answer is too late."""
    boss, worker = shop.worker(shop.boss), shop.worker()
    shop.ask(Task(name="slow", stuck=True))
    until(lambda: shop.gates.entered("slow"), boss, worker)
    records = shop.waiting()
    shop.clock.advance(2 * HOUR)
    until(lambda: shop.waiting() > records, boss, worker)
    assert boss.counts.closed == 0
    shop.clock.advance(Periods().fence_for)
    until(lambda: boss.counts.closed == 1, boss, worker)
    other = shop.ask(Task(name="quick"))
    until(lambda: ("quick", 0) in shop.results, boss, worker)
    assert other
    assert worker.counts.closed == 0
    assert shop.errors == []
    shop.gates.open("slow")
    until(lambda: worker.counts.closed == 1, boss, worker)
    assert len(shop.errors) == 1
    assert shop.results == [("quick", 0)]


def test_rows_that_wait_survive_the_worker_and_are_handled_in_order_by_the_next(shop: Workshop) -> None:
    boss, worker = shop.worker(shop.boss), shop.worker()
    shop.ask(Task(name="slow", stuck=True), *(Task(name="slow", n=n) for n in range(1, 5)))
    until(lambda: len(shop.attempts()) == 5, boss, worker)
    worker.close()
    shop.gates.open("slow")
    successor = shop.worker()
    until(lambda: len(shop.results) == 5, boss, successor)
    assert [n for _, n in shop.results] == list(range(5))


def test_a_notice_of_a_skipped_message_is_kept_while_its_handler_runs_and_handled_by_the_next_worker(
    shop: Workshop,
) -> None:
    """The notice is accepted as soon as its handler runs. Its waiting row leads the next worker to the handler, one time."""
    told: list[tuple[int, ...]] = []

    @shop.boss.on_skipped()
    def skipped(numbers: tuple[int, ...], dialog: Dialog) -> None:
        shop.gates.pass_through("skipped")
        told.append(numbers)
        dialog.send(Task(name="after"))

    shop.shop.poison = (PoisonPolicy(delays=[], then=Then.SKIP), PoisonPolicy())
    boss, worker = shop.worker(shop.boss), shop.worker()
    shop.ask(Task(name="bad"))
    until(lambda: shop.gates.entered("skipped") and shop.attempts("boss") == [0], boss, worker)
    boss.close()
    successor = shop.worker(shop.boss)
    until(lambda: shop.gates.entries["skipped"] == 2, successor, worker)
    shop.gates.open("skipped")
    until(lambda: ("after", 0) in shop.done and shop.attempts("boss") == [], successor, worker)
    until(lambda: len(told) == 2, successor, worker)
    assert set(told) == {(0,)}
    assert shop.done == [("after", 0)], "only the second run took effect"
