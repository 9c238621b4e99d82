"""Queues that take no records: what waits for them keeps its place, also with an owner that waits for other queues."""

from datetime import timedelta

from conversations.protocol import rows
from conversations.protocol.topics import partition_of
from conversations.testing import Faults, PeerDialog, Simulation
from conversations.testing.reading import state_of
from tests.simulation.support import services
from tests.simulation.support.services import COUNTING, Add, Total


def dialog_in(sim: Simulation, peer: str, partition: int) -> PeerDialog:
    """Begin a dialog whose key is of this partition."""
    while True:
        dialog = sim.peer(peer).begin_dialog("counter", COUNTING)
        if partition_of(dialog.id.encode(), 2) == partition:
            return dialog
        dialog.send(Add(amount=0))


def test_an_owner_that_waits_for_one_queue_does_not_overtake_what_waits_for_another() -> None:
    """It took up a partition whose rows are for a queue that is well, while another queue is not."""
    with Simulation(services.counter(), workers=2, partitions=2) as sim:
        web, app = dialog_in(sim, "web", 0), dialog_in(sim, "app", 1)
        sim.run()
        owners = {number: at for at in (0, 1) for number in sim.worker("counter", at).partitions}
        queues = {name: sim.broker.topics.pop(f"conv.{name}.queue") for name in ("web", "app")}
        for dialog in (web, app):
            dialog.send(Add(amount=1))
        sim.run()
        assert all([key for key in table if key.startswith(rows.DELAYED)] for table in state_of(sim.broker, "counter"))
        sim.broker.topics["conv.web.queue"] = queues["web"]
        gone = sim._runners["counter"].pop(owners[0])
        gone.connection.vanish()
        sim.run()
        assert sim.worker("counter").partitions.keys() == {0, 1}
        web.send(Add(amount=10))
        sim.run()
        sim.broker.topics["conv.app.queue"] = queues["app"]
        sim.advance(timedelta(minutes=2))
        assert web.received() == [Total(total=1), Total(total=11)]
        assert app.received() == [Total(total=1)]
        sim.check_invariants()


def test_what_one_partition_learns_of_a_queue_does_not_reorder_the_dialogs_of_another() -> None:
    """It is given back alone; what handlers of the other one said before is not committed yet."""
    with Simulation(services.counter(), partitions=2, faults=Faults(seed=1, slow=1.0)) as sim:
        sim.chance.active = False
        dialogs = [dialog_in(sim, "web", number) for number in (0, 1)]
        sim.run()
        heard = [len(dialog.received()) for dialog in dialogs]
        runner = sim._runners["counter"][0]
        sim.chance.active = True
        for dialog in dialogs:
            dialog.send(Add(amount=1))
        for _ in range(3):
            sim._round()
        sim.chance.active = False
        while any(call is not None for _, call in runner.lanes._open):
            runner.lanes.go_on()
        dialogs[1].send(Add(amount=10))
        sim._runners["web"][0].step()
        queue = sim.broker.topics.pop("conv.web.queue")
        runner.connection._give_up([0])
        sim.run()
        sim.broker.topics["conv.web.queue"] = queue
        sim.advance(timedelta(minutes=2))
        assert [dialog.received()[n:] for dialog, n in zip(dialogs, heard, strict=True)] == [
            [Total(total=1)],
            [Total(total=1), Total(total=11)],
        ]
        sim.check_invariants()


def test_what_a_queue_refuses_is_kept_by_the_transaction_that_would_have_sent_it() -> None:
    """The process dies right after the first commit that succeeds."""
    with Simulation(services.counter(), partitions=1) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        sim.run()
        dialog.send(Add(amount=1))
        sim._runners["web"][0].step()
        queue = sim.broker.topics.pop("conv.web.queue")
        sim._runners["counter"][0].step()
        sim.crash("counter")
        sim.broker.topics["conv.web.queue"] = queue
        sim.advance(timedelta(minutes=2))
        assert dialog.received() == [Total(total=1)]
        sim.check_invariants()
