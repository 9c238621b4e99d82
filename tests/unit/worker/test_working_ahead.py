"""While the records of a step are on their way to the log, the worker works ahead: it begins the next step, if records come fast enough."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from bench.in_memory import ORDER, ORDERS, PARTITIONS, fill
from conversations import Dialog, Limits, PoisonPolicy, Service, WorkerSettings
from conversations.errors import Fenced, InDoubt, Interrupted, StateDamaged
from conversations.memory.broker import MemoryBroker
from conversations.memory.clock import SystemClock
from conversations.memory.connection import MemoryConnection
from conversations.ports import Produced, nothing
from conversations.protocol.envelope import Kind, decode
from conversations.protocol.topics import QUEUE, service_topic
from conversations.scheduler import Inline
from conversations.stores.memory import MemoryStores
from conversations.worker import Worker
from conversations.worker.partition import Partition
from tests.support.forms import python_form
from tests.support.waiting import step_until, until

BATCH, DIALOGS = 5, 10
ANSWERS = service_topic("conv", "asking", QUEUE)


class Observed(MemoryConnection):
    """A connection that notes the handlers that ran during its commits, and whose next commits may fail."""

    def __init__(self, broker: MemoryBroker, scene: "Scene") -> None:
        super().__init__(broker, "answering")
        self._scene = scene

    def commit(
        self, outs: Sequence[Produced], offsets: Mapping[int, int], meanwhile: Callable[[], None] = nothing
    ) -> Mapping[int, int]:
        scene, before = self._scene, self._scene.answered
        is_suspicious = any(it.work.suspicion is not None for it in scene.worker.partitions.values())
        for record in scene.worker.assignment.backlog:
            scene.passed_over += not scene.worker.partitions[record.partition()].input.is_behind
        meanwhile()
        if is_suspicious and self._scene.worker.context.connection is self:
            scene.under_suspicion.append(scene.answered - before)
        answers = sum(out[0] == ANSWERS for out in outs)
        if answers or scene.answered > before:
            scene.commits.append((answers, scene.answered - before))
        if answers and scene.refusals:
            raise scene.refusals.pop(0)
        return super().commit(outs, offsets)


class Scene:
    """A service that answers each message, and a worker of it that is stepped by hand."""

    def __init__(self, batch: int = BATCH, failures: int = 0, step_bytes: int = Limits.step_bytes) -> None:
        """Make the scene. A step has ``batch`` records and ``step_bytes`` bytes, and the first ``failures`` calls of the handler fail."""
        self._batch, self._failures, self._limits = batch, failures, Limits(step_bytes=step_bytes)
        self.broker = MemoryBroker(SystemClock())
        for name in ("asking", "answering"):
            self.broker.create_service(name, PARTITIONS)
        self.answered = 0
        self.commits: list[tuple[int, int]] = []
        """For each commit: the answers in it, and the handlers that ran meanwhile."""
        self.passed_over = 0
        """Records that were read and not routed before a commit, and that their partition takes for routed."""
        self.under_suspicion: list[int] = []
        """For each commit under suspicion: the handlers that ran meanwhile."""
        self.refusals: list[Exception] = []
        """Failures of the next commits with answers."""
        self.stores = MemoryStores()
        self.worker = self._worker()
        until(lambda: self.worker.step() or len(self.worker.partitions) == PARTITIONS, "all is open", pause=0)

    def _worker(self) -> Worker:
        service: Service[Any] = Service(
            "answering", accepts=[ORDERS], poison=[PoisonPolicy(delays=[timedelta(milliseconds=1)])]
        )

        @service.on(ORDER)
        def answer(body: bytes, dialog: Dialog[Any]) -> None:
            if self._failures:
                self._failures -= 1
                raise ValueError("the first time")
            self.answered += 1
            dialog.send(body)

        settings = WorkerSettings(batch=self._batch, hold=timedelta(0), revocation=timedelta(0), limits=self._limits)
        return Worker(service, lambda: Observed(self.broker, self), self.stores, settings=settings, scheduler=Inline())

    def numbers(self) -> dict[bytes, list[int]]:
        """Return the numbers of the committed answers, by dialog, in the order of the log."""
        found: dict[bytes, list[int]] = {}
        for record in (record for partition in self.broker.topics[ANSWERS] for record in partition):
            if record.visible:
                envelope = decode(record.value() or b"")
                if envelope.kind is Kind.MESSAGE:
                    found.setdefault(record.key() or b"", []).append(envelope.seq)
        return found

    def rest(self) -> None:
        """Step until nothing is left to do."""
        until(lambda: not self.worker.step() and not self.worker.busy(), "all is handled", pause=0)

    def check(self, messages: int) -> None:
        """Check that each message was answered once, in order."""
        found = self.numbers()
        assert sum(map(len, found.values())) == messages
        assert all(numbers == list(range(len(numbers))) for numbers in found.values())


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.worker.close()


def test_the_next_step_begins_while_the_records_of_this_one_are_on_their_way(scene: Scene) -> None:
    """The wait for the log is as long as a third of the work. During it, the handlers of the next step run."""
    fill(scene.broker, 4 * BATCH, DIALOGS)
    scene.rest()
    assert scene.commits == [(BATCH, BATCH), (BATCH, BATCH), (BATCH, BATCH), (BATCH, 0)]
    scene.check(4 * BATCH)


def test_what_is_read_for_the_next_step_is_not_handled_yet(scene: Scene) -> None:
    """Otherwise a partition believes that it has handled its past, and trusts a record that kills processes."""
    fill(scene.broker, 6 * BATCH, DIALOGS)
    scene.rest()
    assert scene.passed_over == 0


def test_nothing_begins_ahead_while_envelopes_are_delayed(scene: Scene) -> None:
    """If their destination refuses them again, the envelopes of two steps would change places."""
    scene.worker.context.destinations.block(ANSWERS, scene.worker.context.clock.now())
    fill(scene.broker, 3 * BATCH, DIALOGS)
    scene.worker.step()
    assert scene.answered == BATCH
    step_until(lambda: sum(map(len, scene.numbers().values())) == 3 * BATCH, scene.worker, seconds=90)
    scene.check(3 * BATCH)


def test_a_few_records_are_not_worked_on_ahead(scene: Scene) -> None:
    """A request waits for its own commit only, and not for the work of others."""
    fill(scene.broker, 4 * BATCH - 1, DIALOGS)
    scene.rest()
    assert scene.commits == [(BATCH, BATCH), (BATCH, BATCH), (BATCH, 0), (BATCH - 1, 0)]


def test_nothing_begins_ahead_of_a_transaction_with_many_bytes() -> None:
    """Two such transactions would fill the memory."""
    scene = Scene(step_bytes=3_000)
    fill(scene.broker, 2 * BATCH, DIALOGS)
    scene.rest()
    assert scene.commits == [(BATCH, 0), (BATCH, 0)]
    scene.check(2 * BATCH)
    scene.worker.close()


def test_parked_records_are_worked_on_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long queue behind a failed message is handled in slices. Nothing has to be read for them."""
    monkeypatch.setattr("conversations.worker.turns.SLICE", 3)
    scene = Scene(batch=1_000, failures=1)
    fill(scene.broker, 3 * BATCH, 1)
    step_until(lambda: scene.numbers() and not scene.worker.busy(), scene.worker, seconds=90)
    assert scene.commits == [(3, 3)] * 4 + [(3, 0)]
    scene.check(3 * BATCH)
    scene.worker.close()


def test_a_step_that_is_begun_and_not_committed_is_unfinished_work(scene: Scene) -> None:
    fill(scene.broker, 2 * BATCH, DIALOGS)
    scene.worker.step()
    assert (scene.answered, sum(map(len, scene.numbers().values()))) == (2 * BATCH, BATCH)
    assert scene.worker.busy()
    scene.rest()
    assert not scene.worker.busy()


def test_a_commit_that_is_repeated_has_nothing_of_the_next_step(scene: Scene) -> None:
    fill(scene.broker, 3 * BATCH, DIALOGS)
    scene.refusals = [Interrupted("for a moment"), Fenced("its epoch is old")]
    scene.rest()
    assert scene.commits[:3] == [(BATCH, BATCH), (BATCH, 0), (BATCH, 0)]
    scene.check(3 * BATCH)


def test_after_a_commit_in_doubt_the_next_step_is_forgotten_too(scene: Scene) -> None:
    """Everything in memory is forgotten, and the worker begins again from its committed rows."""
    fill(scene.broker, 3 * BATCH, DIALOGS)
    scene.refusals = [InDoubt("the answer was lost")]
    step_until(lambda: sum(map(len, scene.numbers().values())) == 3 * BATCH, scene.worker, seconds=90)
    assert scene.answered == 5 * BATCH  # ten of them were never committed
    scene.check(3 * BATCH)


def test_a_worker_that_stops_begins_nothing_ahead(scene: Scene) -> None:
    fill(scene.broker, 3 * BATCH, DIALOGS)
    scene.worker.stop()
    scene.worker.step()
    assert scene.commits == [(BATCH, 0)]


def test_a_worker_that_closes_commits_what_it_began(scene: Scene) -> None:
    fill(scene.broker, 2 * BATCH, DIALOGS)
    scene.worker.step()
    assert scene.answered == 2 * BATCH
    scene.worker.close()
    scene.check(2 * BATCH)


def test_under_suspicion_nothing_is_worked_on_ahead(scene: Scene) -> None:
    """A record that may have killed a process is announced by a commit before it is decoded."""
    fill(scene.broker, 3 * BATCH, DIALOGS)
    scene.broker.groups["answering"].release(scene.worker.context.connection)  # type: ignore[arg-type]
    scene.worker = scene._worker()
    until(lambda: scene.worker.step() or len(scene.worker.partitions) == PARTITIONS, "it owns all", pause=0)
    fill(scene.broker, 8 * BATCH, 8 * BATCH)  # these are not suspect, and come while the suspects are announced
    scene.rest()
    assert scene.under_suspicion
    assert not any(scene.under_suspicion)
    scene.check(11 * BATCH)


@python_form
@pytest.mark.parametrize(("where", "count"), [("find", 1), ("find", 2), ("wake", 1)])
def test_damaged_rows_are_reported_after_the_commit(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, where: str, count: int
) -> None:
    """Setting a partition aside writes an event in a transaction of its own, which cannot begin in the middle of another."""
    fill(scene.broker, 2 * BATCH, DIALOGS)
    real, found = getattr(Partition, where), set[int]()

    def damaged(partition: Partition, *arguments: Any) -> Any:
        if scene.answered == BATCH and len(found) < count and partition.number not in found:
            found.add(partition.number)
            assert scene.numbers() == {}  # nothing is committed when it is found
            raise StateDamaged(partition.number, "a row cannot be understood")
        return real(partition, *arguments)

    monkeypatch.setattr(Partition, where, damaged)
    scene.worker.step()
    assert len(found) == count
    assert scene.worker.assignment.aside == dict.fromkeys(found, "a row cannot be understood")
    assert sum(map(len, scene.numbers().values())) == BATCH
