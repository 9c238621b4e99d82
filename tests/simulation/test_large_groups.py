"""Groups whose state is large, or that have many dialogs: they are not kept in memory for as many dialogs as small ones are."""

from datetime import timedelta
from typing import Any

from conversations import Dialog, Service
from conversations.config import WorkerSettings
from conversations.testing import Simulation, bounds
from conversations.worker import groups
from tests.simulation.support.services import ECHO, Say

SETTINGS = WorkerSettings(patience=timedelta(0), revocation=timedelta(0), deaths=1_000_000)


def collector(size: int) -> Service[dict[str, Any]]:
    """Remembers what each of its groups was told, with some ballast, and says how often that was."""
    service: Service[dict[str, Any]] = Service("collector", accepts=[ECHO])

    @service.on(Say)
    def say(body: Say, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.group.state["said"] = [*dialog.group.state.get("said", []), body.text]
        dialog.group.state["ballast"] = "x" * size
        dialog.send(Say(text=" ".join(dialog.group.state["said"])))

    return service


def test_large_states_leave_memory_when_their_dialogs_have_nothing_to_do() -> None:
    """Fifty of a megabyte are not fifty megabytes of memory, and none is forgotten."""
    with Simulation(collector(900_000), partitions=1, settings=SETTINGS) as sim:
        dialogs = [sim.peer("web").begin_dialog("collector", ECHO) for _ in range(20)]
        for text in ("a", "b", "c"):
            for dialog in dialogs:
                dialog.send(Say(text=text))
            sim.run()
            (partition,) = sim.worker("collector").partitions.values()
            kept = [lane.group for lane in partition.work.lanes.values() if lane.group is not None]
            assert sum(len(group.state) for group in kept) <= len(dialogs) * groups.LARGE
            assert not partition.groups._large
        assert {it.text for dialog in dialogs for it in dialog.received()[-1:] if isinstance(it, Say)} == {"a b c"}
        sim.check_invariants()
        bounds.check_at_rest(sim.worker("collector"))


def test_small_states_stay_with_their_dialogs() -> None:
    with Simulation(collector(10), partitions=1, settings=SETTINGS) as sim:
        dialogs = [sim.peer("web").begin_dialog("collector", ECHO) for _ in range(20)]
        for dialog in dialogs:
            dialog.send(Say(text="a"))
        sim.run()
        (partition,) = sim.worker("collector").partitions.values()
        assert sum(lane.group is not None for lane in partition.work.lanes.values()) >= len(dialogs)
