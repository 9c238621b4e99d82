"""A record that kills the process that decodes it, takes it or commits it is found, and set aside, while all others are handled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from conversations import WorkerSettings
from conversations.headers import read_headers
from conversations.memory.connection import MemoryConnection
from conversations.ports import Out, Produced, Record
from conversations.protocol.command import Settle, encode_command, to_partition
from conversations.protocol.envelope import Envelope, Kind, decode, encode
from conversations.protocol.rows import ERROR
from conversations.protocol.topics import COMMANDS, QUEUE, events_topic, service_topic
from conversations.testing.reading import dead_letters, visible
from conversations.worker import Worker, dispatch, inbound, intake, rollbacks
from conversations.worker.active import Item
from conversations.worker.announcements import name_of
from conversations.worker.suspicion import TOGETHER
from tests.crashes.support.mortal_workers import Job, MortalService, die, until
from tests.support.forms import python_form

pytestmark = python_form

MOST = WorkerSettings().deaths + 2
"""Deaths: one that nobody expected, one among others, and those a record is charged with."""


class _Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def mortal(monkeypatch: pytest.MonkeyPatch) -> Iterator[MortalService]:
    monkeypatch.setattr(rollbacks, "count", lambda *_: None)  # a process that is killed counts nothing
    made = MortalService()
    yield made
    made.let_go.set()


def send_many(mortal: MortalService, jobs: int, first: int = 0) -> None:
    for number in range(first, first + jobs):
        mortal.send(Job(n=number))


def forge(mortal: MortalService, kind: Kind, at: int = 0) -> bytes:
    """Append an envelope of a kind to the dialog of a record, as its peer would have written it."""
    first = decode(mortal.broker.queue("slow")[0][at].value() or b"")
    numbered = kind in {Kind.MESSAGE, Kind.END, Kind.ERROR}
    plain = Envelope(first.prefix, kind, 1 if numbered else -1, -1, sent_at=first.sent_at)
    if kind is Kind.MESSAGE:
        plain = replace(first, seq=1)
    elif kind is Kind.ERROR:
        plain = replace(plain, code=7, description="enough")
    value = encode(plain)
    key = mortal.broker.queue("slow")[0][at].key() or b""
    mortal.broker.append(Out(service_topic(mortal.broker.namespace, "slow", QUEUE), 0, key, value))
    return value


class Deadly:
    """Ends the process at one point whenever it is at work on one record."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, value: bytes) -> None:
        self.value, self._patch = value, monkeypatch
        self._taken = False

    def when_decoded(self) -> None:
        self._wrap(intake, "read_headers", lambda record: record.value() == self.value)
        self._wrap(intake, "decode_command", lambda value: value == self.value)

    def when_received(self) -> None:
        self._wrap(inbound, "receive", lambda _, item, *__: item.value == self.value)

    def when_committed(self) -> None:
        """The step in which it was taken cannot be committed by any process that lives."""
        take, commit = intake.take, MemoryConnection.commit

        def noticing(partition: Any, record: Any) -> None:
            self._taken = self._taken or record.value() == self.value
            take(partition, record)

        def killing(
            connection: MemoryConnection,
            outs: Sequence[Produced],
            offsets: Mapping[int, int],
            meanwhile: Callable[[], None],
        ) -> Mapping[int, int]:
            if self._taken and connection.service == "slow":
                self._taken = False
                raise _Killed
            return commit(connection, outs, offsets, meanwhile)

        self._patch.setattr(intake, "take", noticing)
        self._patch.setattr(MemoryConnection, "commit", killing)

    def _wrap(self, module: Any, function: str, when: Callable[..., bool]) -> None:
        real = getattr(module, function)

        def killing(*arguments: Any) -> Any:
            if when(*arguments):
                raise _Killed
            return real(*arguments)

        self._patch.setattr(module, function, killing)


def live_and_die(mortal: MortalService, settled: Callable[[], Any], *, batch: int = 100) -> tuple[int, Worker]:
    """Run workers until one lives to see all settled; return how many died, and that one."""
    for deaths in range(20):
        worker = mortal.worker(batch=batch)
        try:
            until(settled, worker)
        except _Killed:
            die(worker)
            continue
        return deaths, worker
    raise AssertionError("it dies on and on")


def is_trusted(mortal: MortalService) -> bool:
    return mortal.row().unclean_starts == 0 and not mortal.row().deaths


def goes_on(mortal: MortalService, worker: Worker) -> None:
    """The same worker trusts the partition again, and handles what comes then."""
    until(lambda: is_trusted(mortal), worker)
    mortal.send(Job(n=999))
    until(lambda: 999 in mortal.handled, worker)
    worker.close()


@pytest.mark.parametrize("place", ["when_decoded", "when_committed"])
@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.name)
def test_a_record_that_kills_before_it_is_in_a_lane_is_set_aside_with_its_bytes(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch, kind: Kind, place: str
) -> None:
    send_many(mortal, 5)
    value = forge(mortal, kind)
    send_many(mortal, 10, 5)
    getattr(Deadly(monkeypatch, value), place)()
    deaths, worker = live_and_die(
        mortal, lambda: dead_letters(mortal.broker, "slow") and len(set(mortal.handled)) == 15
    )
    assert deaths == MOST
    goes_on(mortal, worker)
    (letter,) = dead_letters(mortal.broker, "slow")
    assert (letter.reason, letter.value) == ("set-aside", value)
    assert "3 processes died while it was taken" in letter.message
    assert sorted(set(mortal.handled)) == [*range(15), 999]


@pytest.mark.parametrize(
    "kind", [Kind.MESSAGE, Kind.END, Kind.ERROR, Kind.ACK, Kind.RESEND], ids=lambda kind: kind.name
)
def test_an_envelope_that_kills_before_its_handler_is_set_aside(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Where it has one, giving up on it as its policy says costs one death more: that looks into it as well."""
    send_many(mortal, 5)
    value = forge(mortal, kind)
    send_many(mortal, 10, 5)
    Deadly(monkeypatch, value).when_received()
    deaths, worker = live_and_die(
        mortal, lambda: dead_letters(mortal.broker, "slow") and len(set(mortal.handled)) == 15
    )
    assert deaths == MOST + (kind in {Kind.MESSAGE, Kind.END, Kind.ERROR})
    goes_on(mortal, worker)
    (letter,) = dead_letters(mortal.broker, "slow")
    assert (letter.reason, letter.value, letter.exception) == (
        "set-aside", value, "conversations.errors.ProcessDied",
    )  # fmt: skip


def test_a_command_that_kills_when_it_is_decoded_is_set_aside(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = to_partition((0, 1), Settle((), "done"), "operator", bytes(16), mortal.broker.clock.now())
    value = encode_command(command)
    send_many(mortal, 3)
    topic = service_topic(mortal.broker.namespace, "slow", COMMANDS)
    mortal.broker.append(Out(topic, 0, command.key.encode(), value, None))
    Deadly(monkeypatch, value).when_decoded()
    deaths, worker = live_and_die(mortal, lambda: dead_letters(mortal.broker, "slow") and len(set(mortal.handled)) == 3)
    assert deaths == MOST
    goes_on(mortal, worker)
    (letter,) = dead_letters(mortal.broker, "slow")
    assert (letter.reason, letter.value) == ("set-aside", value)


def test_commands_that_wait_are_no_more_than_a_step_reads(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others stay in Kafka, and the worker does not ask for them again and again."""
    topic = service_topic(mortal.broker.namespace, "slow", COMMANDS)
    for _ in range(400):
        command = to_partition((0, 1), Settle((), "done"), "operator", bytes(16), mortal.broker.clock.now())
        mortal.broker.append(Out(topic, 0, command.key.encode(), encode_command(command), None))
    die(mortal.opened(batch=1))
    poll, take = MemoryConnection.poll, intake.take_command
    at_hand, most, spins = 0, 0, 0

    def polling(connection: MemoryConnection, timeout: float, limit: int, *size: int) -> Sequence[Record]:
        nonlocal at_hand, most, spins
        records = poll(connection, timeout, limit, *size)
        at_hand += len(records)
        most = max(most, at_hand)
        spins += limit == 1
        return records

    def taking(partition: Any, record: Record) -> None:
        nonlocal at_hand
        at_hand -= 1
        take(partition, record)

    monkeypatch.setattr(MemoryConnection, "poll", polling)
    monkeypatch.setattr(intake, "take_command", taking)
    worker = mortal.worker(batch=100)
    until(lambda: worker.partitions and mortal.row().commands == 400, worker)
    assert (at_hand, most, spins) == (0, 100, 0)
    goes_on(mortal, worker)


@pytest.mark.parametrize("batch", [1, 7, 100, 1_000])
def test_the_one_record_is_found_among_many_and_the_order_is_kept(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    mortal.send(*(Job(n=number) for number in range(40)))
    value = forge(mortal, Kind.RESEND)
    mortal.send(*(Job(n=number) for number in range(40, 80)))
    Deadly(monkeypatch, value).when_decoded()
    deaths, worker = live_and_die(
        mortal, lambda: dead_letters(mortal.broker, "slow") and len(set(mortal.handled)) == 80, batch=batch
    )
    assert deaths <= MOST
    goes_on(mortal, worker)
    assert [letter.value for letter in dead_letters(mortal.broker, "slow")] == [value]
    for first in (0, 40):  # each dialog by itself
        assert list(dict.fromkeys(n for n in mortal.handled if first <= n < first + 40)) == [*range(first, first + 40)]


def test_two_records_that_kill_are_both_found(mortal: MortalService, monkeypatch: pytest.MonkeyPatch) -> None:
    send_many(mortal, 5)
    values = [forge(mortal, Kind.RESEND), forge(mortal, Kind.ACK)]
    send_many(mortal, 5, 5)
    for value in values:
        Deadly(monkeypatch, value).when_decoded()
    deaths, worker = live_and_die(
        mortal, lambda: len(dead_letters(mortal.broker, "slow")) == 2 and len(set(mortal.handled)) == 10
    )
    assert deaths <= 2 + 2 * WorkerSettings().deaths
    goes_on(mortal, worker)
    assert [letter.value for letter in dead_letters(mortal.broker, "slow")] == values


def break_all(mortal: MortalService, dialogs: int) -> set[str]:
    """Have the peer break so many dialogs, whose errors are read after an unclean start; return those heard of."""
    heard: set[str] = set()
    mortal.slow.on_error()(lambda _, dialog: heard.add(dialog.id))
    send_many(mortal, dialogs)
    worker = mortal.worker()
    until(lambda: len(mortal.handled) == dialogs, worker)
    worker.close()
    for at in [at for at, record in enumerate(mortal.broker.queue("slow")[0]) if record.visible]:
        forge(mortal, Kind.ERROR, at)
    die(mortal.opened(batch=1))
    return heard


def test_more_errors_than_are_announced_together_are_all_heard_of(mortal: MortalService) -> None:
    """What is announced as a record is announced again as the work of its dialog: it has its turn already."""
    heard = break_all(mortal, TOGETHER + 6)
    worker = mortal.worker()
    until(lambda: len(heard) == TOGETHER + 6, worker)
    goes_on(mortal, worker)


def test_errors_among_which_a_process_died_are_heard_of(mortal: MortalService) -> None:
    """Each alone, first as a record and then as the work of its dialog."""
    heard = break_all(mortal, 5)
    worker = mortal.worker()
    until(lambda: len(mortal.row().announced) == 5, worker)
    die(worker)
    worker = mortal.worker()
    until(lambda: len(heard) == 5, worker)
    goes_on(mortal, worker)


def test_an_error_whose_handler_kills_is_given_up_on(mortal: MortalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is charged with its own deaths, also where its record was announced first."""
    heard = break_all(mortal, 5)
    killer: list[bytes] = []

    def kills(item: Item, *_: Any) -> bool:
        if item.handler == ERROR and item.active is not None:
            killer.append(item.active.identity)
        return bool(item.handler) and killer[-1] == killer[0]

    Deadly(monkeypatch, b"")._wrap(dispatch, "call_of", kills)
    events = events_topic(mortal.broker.namespace)
    deaths, worker = live_and_die(
        mortal,
        lambda: any(b"GAVE_UP" in (it.value() or b"") for it in visible(mortal.broker, events)),
    )
    until(lambda: len(heard) == 4, worker)
    assert deaths <= MOST
    goes_on(mortal, worker)


def died_among_others(mortal: MortalService) -> None:
    """A process dies while some records are announced together."""
    die(mortal.opened(batch=1))
    worker = mortal.worker()
    until(lambda: len(mortal.row().announced) > 1, worker)
    die(worker)


def test_the_backlog_waits_for_what_must_run_alone(mortal: MortalService) -> None:
    send_many(mortal, 3 * TOGETHER)
    died_among_others(mortal)
    worker = mortal.worker()
    until(lambda: mortal.handled, worker)
    assert mortal.row().queue <= 4, "it is not taken first"
    until(lambda: len(mortal.handled) == 3 * TOGETHER, worker)
    goes_on(mortal, worker)


@pytest.mark.parametrize("kills", [True, False])
def test_what_was_set_aside_is_remembered_as_no_suspect_any_more(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch, kills: bool
) -> None:
    """Also while its partition has other suspects, which may be for long."""
    send_many(mortal, 1)
    if kills:
        Deadly(monkeypatch, forge(mortal, Kind.ACK)).when_decoded()
    else:
        mortal.broker.append(
            Out(service_topic(mortal.broker.namespace, "slow", QUEUE), 0, b"key", b"no envelope", None)
        )
    mortal.send(Job(n=1, stuck=True))
    if not kills:
        died_among_others(mortal)
        mortal.begun.clear()
    _, worker = live_and_die(mortal, mortal.begun.is_set)
    (*_, stuck) = (record for record in mortal.broker.queue("slow")[0] if record.visible)
    assert mortal.rows_seen[-1].deaths.keys() <= {name_of(stuck)}
    mortal.let_go.set()
    until(lambda: 1 in mortal.handled, worker)
    goes_on(mortal, worker)


def test_nothing_is_decoded_before_it_is_announced_and_committed(
    mortal: MortalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_many(mortal, 200)
    seen = []

    def looking(record: Any) -> Any:
        seen.append((name_of(record), set(mortal.row().announced)))
        return read_headers(record)

    die(mortal.opened(batch=1))
    monkeypatch.setattr("conversations.worker.intake.read_headers", looking)
    worker = mortal.worker()
    until(lambda: len(mortal.handled) == 200 and is_trusted(mortal), worker)
    assert len(seen) == 200
    assert all(name in announced for name, announced in seen)
    commits, handled = worker.counts.commits, len(mortal.handled)
    seen.clear()
    send_many(mortal, 50)
    until(lambda: len(mortal.handled) == handled + 50, worker)
    assert all(not announced for _, announced in seen), "a partition that is trusted announces nothing"
    assert worker.counts.commits - commits < 50, "and takes as many as there are"
    worker.close()


def test_a_healthy_partition_of_the_same_worker_goes_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits to be taken holds its own queue back, and nobody else's."""
    mortal = MortalService(2)
    while min(len(records) for records in mortal.broker.queue("slow")) < 80:
        mortal.send(Job(n=1))
    die(mortal.opened(batch=1))
    worker = mortal.worker(batch=30)
    until(lambda: len(worker.partitions) == 2, worker)
    held: list[int] = []
    pause = MemoryConnection.pause

    def pausing(connection: MemoryConnection, partition: int, kind: str = QUEUE) -> None:
        held.append(partition)
        pause(connection, partition, kind)

    monkeypatch.setattr(MemoryConnection, "pause", pausing)
    total = mortal.waiting_in_queue()
    until(lambda: len(mortal.handled) >= total and all(mortal.row(n).unclean_starts == 0 for n in (0, 1)), worker)
    assert set(held) == {0, 1}
    mortal.send(Job(n=2))
    until(lambda: 2 in mortal.handled, worker)
    worker.close()
