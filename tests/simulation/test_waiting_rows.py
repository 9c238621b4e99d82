"""Rows of what waits behind a slow handler: whose number is taken when, and in which order they come back."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from pydantic import BaseModel

from conversations import Contract, Dialog, Service
from conversations.ports import Out
from conversations.protocol import rows
from conversations.protocol.envelope import decode
from conversations.testing import Faults, Simulation
from conversations.testing.reading import state_of, visible
from conversations.worker import Worker
from conversations.worker.waiting_rows import FIRST_ROW
from tests.simulation.support import records
from tests.simulation.support.services import Heard
from tests.slow_handlers.support.gated_service import Task, Workshop, until


class Wake(BaseModel):
    pass


ALARM = Contract("Alarm", sent_by_initiator=[Wake, Heard])


@pytest.fixture
def shop() -> Iterator[Workshop]:
    made = Workshop()
    yield made
    made.close()


def sleeper() -> Service[dict[str, list[str]]]:
    """Sets a timer when it is woken, and notes what it hears and when the timer rang."""
    service: Service[dict[str, list[str]]] = Service("sleeper", accepts=[ALARM])

    @service.on(Wake)
    def wake(body: Wake, dialog: Dialog[dict[str, list[str]]]) -> None:
        dialog.set_timer(timedelta(milliseconds=500))

    @service.on(Heard)
    def hear(body: Heard, dialog: Dialog[dict[str, list[str]]]) -> None:
        dialog.group.state.setdefault("heard", []).append(body.text)

    @service.on_timer()
    def ring(dialog: Dialog[dict[str, list[str]]]) -> None:
        dialog.group.state.setdefault("heard", []).append("ring")

    return service


def test_what_is_held_keeps_its_number_while_what_closes_its_gap_waits() -> None:
    """A copy of it that arrives meanwhile is one, not the message itself: nothing is kept or handled twice."""
    with Simulation(sleeper(), partitions=1, faults=Faults(seed=1, slow=1.0)) as sim:
        sim.chance.active = False
        dialog = sim.peer("web").begin_dialog("sleeper", ALARM)
        dialog.send(Wake())
        sim.run()
        sim.broker.stop = records.is_to("sleeper", 1)
        dialog.send(Heard(text="1"))
        dialog.send(Heard(text="2"))
        sim.run()
        (held,) = [it for it in visible(sim.broker, "conv.sleeper.queue") if decode(it.value() or b"").seq == 2]
        # The timer's handler is at work when the missing message comes, and with it a copy of what is held.
        sim.clock.advance(500_000)
        sim.chance.active = True
        sim.chance.renew()
        for _ in range(3):
            sim._round()
        sim.broker.resume()
        for _ in range(3):
            sim._round()
        sim.broker.append(Out(held.topic(), 0, held.key(), held.value(), held.headers()))
        for _ in range(3):
            sim._round()
        sim.chance.active = False
        sim.run()
        dialog.end()
        sim.run()
        sim.check_invariants()
        assert not [key for key in state_of(sim.broker, "sleeper")[0] if key.startswith(rows.HELD)]
        assert sim.dead_letters("sleeper") == []
        assert [entry.number for entry in sim.broker.ledger.handled if entry.service == "sleeper"] == [0, 1, 2]


def _waiting(shop: Workshop) -> list[bytes]:
    return sorted(key for key in state_of(shop.broker, "shop")[0] if key.startswith(rows.WAITING))


def _ask_with_a_gap(shop: Workshop, name: str) -> list[Out]:
    """Ask for four tasks, and hide the second and the last for now."""
    before = shop.waiting()
    stuck = (Task(name=f"{name}{number}", stuck=number in {1, 2}) for number in range(4))
    shop.ask(*stuck)
    until(lambda: shop.waiting() == before + 4, shop.workers[0])
    hidden = [it for it in shop.broker.queue("shop")[0] if it.visible][-4:][1::2]
    for record in hidden:
        record.visible = False
    return [Out(it.topic(), 0, it.key(), it.value(), it.headers()) for it in hidden]


def _comes_to_the_front(shop: Workshop, worker: Worker, name: str) -> None:
    """Let the third task be held, the first gap close with the fourth behind, and the third begin and not return."""
    boss, rows_before = shop.workers[0], len(_waiting(shop))
    late = _ask_with_a_gap(shop, name)
    until(lambda: (f"{name}0", 0) in shop.done, boss, worker)
    for out in late:
        shop.broker.append(out)
    until(lambda: len(_waiting(shop)) == rows_before + 2, boss, worker)
    shop.gates.open(f"{name}1")
    until(lambda: shop.gates.entered(f"{name}2"), boss, worker)
    until(lambda: _is_in_front(shop, f"{name}2"), boss, worker)


FRONT = rows.WAITING + FIRST_ROW.to_bytes(8, "big")


def _is_in_front(shop: Workshop, name: str) -> bool:
    """Whether a task has a row before all others; it may have taken the place of another one."""
    kept = state_of(shop.broker, "shop")[0]
    return any(key.startswith(rows.WAITING) and key < FRONT and f'"{name}"'.encode() in kept[key] for key in kept)


def test_rows_in_front_of_all_others_do_not_replace_those_of_an_earlier_owner(shop: Workshop) -> None:
    """What was held comes to the front, and its row before all others; the next owner puts its own before that."""
    boss = shop.worker(shop.boss)
    for name in "ab":
        worker = shop.worker()
        _comes_to_the_front(shop, worker, name)
        worker.context.connection.vanish()  # type: ignore[attr-defined]  # the log in memory
    assert [key < FRONT for key in _waiting(shop)] == [True, True, False, False]
    worker = shop.worker()
    shop.gates.open_all()
    until(lambda: len(shop.results) == 8, boss, worker)
    assert sorted(shop.results) == [(f"{name}{number}", 0) for name in "ab" for number in range(4)]
