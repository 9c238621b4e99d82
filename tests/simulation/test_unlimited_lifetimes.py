"""Dialogs of an unlimited lifetime: they stay usable for more than a year, and leave nothing when both sides have ended."""

from collections import Counter
from datetime import timedelta

import pytest

from conversations import Contract, Dialog, Service
from conversations.protocol import rows
from conversations.testing import Simulation
from conversations.testing.peer import PeerDialog
from conversations.testing.reading import state_of
from tests.simulation.support.services import Say

ENDLESS = Contract("Endless", sent_by_any=[Say], lifetime=None)
ROUND = timedelta(days=10)
ROUNDS = 40
"""400 days."""


def shop() -> Service[dict[str, int]]:
    """A service that echoes, counts in its state, and is silent for "quiet"."""
    service: Service[dict[str, int]] = Service("shop", accepts=[ENDLESS])

    @service.on(Say)
    def say(body: Say, dialog: Dialog[dict[str, int]]) -> None:
        state = dialog.group.state
        state["said"] = state.get("said", 0) + 1
        if body.text != "quiet":
            dialog.send(body)

    return service


def kept(sim: Simulation, service: str) -> Counter[str]:
    """What a service keeps: the rows of its state by kind, and the entries of its memory."""
    found = Counter(f"row {key[:1]!r}" for table in state_of(sim.broker, service) for key in table)
    for partition in sim.worker(service).partitions.values():
        schedule = partition.schedule
        found["endpoints in memory"] += len(partition.actives)
        found["lanes in memory"] += len(partition.work.lanes)
        found["deadlines"] += len(schedule.deadlines)
        found["tombstones"] += len(schedule.tombstones)
        found["commands"] += len(schedule.commands)
    return found


def said(dialog: PeerDialog, text: str) -> None:
    dialog.send(Say(text=text))


@pytest.mark.parametrize("crashes", [False, True], ids=["without crashes", "with crashes"])
def test_dialogs_of_an_unlimited_lifetime_stay_usable_for_a_year_and_leave_nothing(crashes: bool) -> None:
    """One is idle, one speaks each ten days, and others begin and end. What both services keep does not grow with time."""
    with Simulation(shop(), partitions=1) as sim:
        web = sim.peer("web")
        idle, busy, quiet = (web.begin_dialog("shop", ENDLESS) for _ in range(3))
        said(idle, "hello")
        said(quiet, "quiet")
        sizes: dict[str, list[Counter[str]]] = {"web": [], "shop": []}
        for number in range(ROUNDS):
            said(busy, f"{number}")
            brief = web.begin_dialog("shop", ENDLESS)
            said(brief, "brief")
            sim.run()
            brief.end()
            if crashes:
                sim.crash(("web", "shop")[number % 2])
            sim.advance(ROUND)
            for service, found in sizes.items():
                found.append(kept(sim, service))
        for found in sizes.values():
            assert found[-1] == found[3], "the same as after forty days"
        assert busy.received() == [Say(text=f"{number}") for number in range(ROUNDS)]
        said(idle, "still there?")
        said(quiet, "quiet")
        sim.run()
        assert idle.received() == [Say(text="hello"), Say(text="still there?")]
        assert not quiet.ended
        for dialog in (idle, busy, quiet):
            dialog.end()
        sim.advance(ROUND)
        assert sim.open_dialogs() == []
        left = {key[:1] for service in sizes for table in state_of(sim.broker, service) for key in table}
        assert left == {rows.PARTITION}, "the row that every partition has"
        for service in sizes:
            assert not any(kept(sim, service)[what] for what in ("deadlines", "tombstones", "commands"))
        sim.check_invariants()
