"""A record that kills the process that decodes it, takes it or commits it is found, and set aside, while all others are handled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from conversations import WorkerSettings
from conversations.headers import read_headers
from conversations.memory.log import MemoryLog
from conversations.ports import Out, Produced, Record
from conversations.protocol.command import Settle, encode_command, to_partition
from conversations.protocol.envelope import HEADER_NAME, Envelope, Kind, decode, encode, header_of, tail_start
from conversations.protocol.rows import ERROR
from conversations.protocol.topics import COMMANDS, QUEUE, events_topic, service_topic
from conversations.testing.reading import dead_letters, visible
from conversations.worker import Worker, dispatch, inbound, intake, rollbacks
from conversations.worker.active import Item
from conversations.worker.suspicion import TOGETHER
from conversations.worker.taking import name_of
from tests.crashes.support.mortal_workers import House, Job, die, until

MOST = WorkerSettings().deaths + 2
"""Deaths: one that nobody expected, one among others, and those a record is charged with."""


class _Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(rollbacks, "count", lambda *_: None)  # a process that is killed counts nothing
    made = House()
    yield made
    made.let_go.set()


def send_many(house: House, jobs: int, first: int = 0) -> None:
    for number in range(first, first + jobs):
        house.send(Job(n=number))


def forge(house: House, kind: Kind, at: int = 0) -> bytes:
    """Append an envelope of a kind to the dialog of a record, as its peer would have written it."""
    first = decode(house.broker.queue("slow")[0][at].value() or b"")
    numbered = kind in {Kind.MESSAGE, Kind.END, Kind.ERROR}
    plain = Envelope(first.prefix, kind, 1 if numbered else -1, -1, sent_at=first.sent_at)
    if kind is Kind.MESSAGE:
        plain = replace(first, seq=1)
    elif kind is Kind.ERROR:
        plain = replace(plain, code=7, description="enough")
    value = encode(plain)
    key = house.broker.queue("slow")[0][at].key() or b""
    headers = [(HEADER_NAME, header_of(value, tail_start(value)))]
    house.broker.append(Out(service_topic(house.broker.namespace, "slow", QUEUE), 0, key, value, headers))
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
        take, commit = intake.take, MemoryLog.commit

        def noticing(partition: Any, record: Any) -> None:
            self._taken = self._taken or record.value() == self.value
            take(partition, record)

        def killing(log: MemoryLog, outs: Sequence[Produced], offsets: Mapping[int, int]) -> Mapping[int, int]:
            if self._taken and log.service == "slow":
                self._taken = False
                raise _Killed
            return commit(log, outs, offsets)

        self._patch.setattr(intake, "take", noticing)
        self._patch.setattr(MemoryLog, "commit", killing)

    def _wrap(self, module: Any, function: str, when: Callable[..., bool]) -> None:
        real = getattr(module, function)

        def killing(*arguments: Any) -> Any:
            if when(*arguments):
                raise _Killed
            return real(*arguments)

        self._patch.setattr(module, function, killing)


def live_and_die(house: House, settled: Callable[[], Any], *, batch: int = 100) -> tuple[int, Worker]:
    """Run workers until one lives to see all settled; return how many died, and that one."""
    for deaths in range(20):
        worker = house.worker(batch=batch)
        try:
            until(settled, worker)
        except _Killed:
            die(worker)
            continue
        return deaths, worker
    raise AssertionError("it dies on and on")


def is_trusted(house: House) -> bool:
    return house.row().unclean_starts == 0 and not house.row().deaths


def goes_on(house: House, worker: Worker) -> None:
    """The same worker trusts the partition again, and handles what comes then."""
    until(lambda: is_trusted(house), worker)
    house.send(Job(n=999))
    until(lambda: 999 in house.handled, worker)
    worker.close()


@pytest.mark.parametrize("place", ["when_decoded", "when_committed"])
@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.name)
def test_a_record_that_kills_before_it_is_in_a_lane_is_set_aside_with_its_bytes(
    house: House, monkeypatch: pytest.MonkeyPatch, kind: Kind, place: str
) -> None:
    send_many(house, 5)
    value = forge(house, kind)
    send_many(house, 10, 5)
    getattr(Deadly(monkeypatch, value), place)()
    deaths, worker = live_and_die(house, lambda: dead_letters(house.broker, "slow") and len(set(house.handled)) == 15)
    assert deaths == MOST
    goes_on(house, worker)
    (letter,) = dead_letters(house.broker, "slow")
    assert (letter.reason, letter.value) == ("set-aside", value)
    assert "3 processes died while it was taken" in letter.message
    assert sorted(set(house.handled)) == [*range(15), 999]


@pytest.mark.parametrize(
    "kind", [Kind.MESSAGE, Kind.END, Kind.ERROR, Kind.ACK, Kind.RESEND], ids=lambda kind: kind.name
)
def test_an_envelope_that_kills_before_its_handler_is_set_aside(
    house: House, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Where it has one, giving up on it as its policy says costs one death more: that looks into it as well."""
    send_many(house, 5)
    value = forge(house, kind)
    send_many(house, 10, 5)
    Deadly(monkeypatch, value).when_received()
    deaths, worker = live_and_die(house, lambda: dead_letters(house.broker, "slow") and len(set(house.handled)) == 15)
    assert deaths == MOST + (kind in {Kind.MESSAGE, Kind.END, Kind.ERROR})
    goes_on(house, worker)
    (letter,) = dead_letters(house.broker, "slow")
    assert (letter.reason, letter.value, letter.exception) == (
        "set-aside", value, "conversations.errors.ProcessDied",
    )  # fmt: skip


def test_a_command_that_kills_when_it_is_decoded_is_set_aside(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    command = to_partition((0, 1), Settle((), "done"), "operator", bytes(16), house.broker.clock.now())
    value = encode_command(command)
    send_many(house, 3)
    topic = service_topic(house.broker.namespace, "slow", COMMANDS)
    house.broker.append(Out(topic, 0, command.key.encode(), value, None))
    Deadly(monkeypatch, value).when_decoded()
    deaths, worker = live_and_die(house, lambda: dead_letters(house.broker, "slow") and len(set(house.handled)) == 3)
    assert deaths == MOST
    goes_on(house, worker)
    (letter,) = dead_letters(house.broker, "slow")
    assert (letter.reason, letter.value) == ("set-aside", value)


def test_commands_that_wait_are_no_more_than_a_step_reads(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others stay in Kafka, and the worker does not ask for them again and again."""
    topic = service_topic(house.broker.namespace, "slow", COMMANDS)
    for _ in range(400):
        command = to_partition((0, 1), Settle((), "done"), "operator", bytes(16), house.broker.clock.now())
        house.broker.append(Out(topic, 0, command.key.encode(), encode_command(command), None))
    die(house.opened(batch=1))
    poll, take = MemoryLog.poll, intake.take_command
    at_hand, most, spins = 0, 0, 0

    def polling(log: MemoryLog, timeout: float, limit: int, *size: int) -> Sequence[Record]:
        nonlocal at_hand, most, spins
        records = poll(log, timeout, limit, *size)
        at_hand += len(records)
        most = max(most, at_hand)
        spins += limit == 1
        return records

    def taking(partition: Any, record: Record) -> None:
        nonlocal at_hand
        at_hand -= 1
        take(partition, record)

    monkeypatch.setattr(MemoryLog, "poll", polling)
    monkeypatch.setattr(intake, "take_command", taking)
    worker = house.worker(batch=100)
    until(lambda: worker.partitions and house.row().commands == 400, worker)
    assert (at_hand, most, spins) == (0, 100, 0)
    goes_on(house, worker)


@pytest.mark.parametrize("batch", [1, 7, 100, 1_000])
def test_the_one_record_is_found_among_many_and_the_order_is_kept(
    house: House, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    house.send(*(Job(n=number) for number in range(40)))
    value = forge(house, Kind.RESEND)
    house.send(*(Job(n=number) for number in range(40, 80)))
    Deadly(monkeypatch, value).when_decoded()
    deaths, worker = live_and_die(
        house, lambda: dead_letters(house.broker, "slow") and len(set(house.handled)) == 80, batch=batch
    )
    assert deaths <= MOST
    goes_on(house, worker)
    assert [letter.value for letter in dead_letters(house.broker, "slow")] == [value]
    for first in (0, 40):  # each dialog by itself
        assert list(dict.fromkeys(n for n in house.handled if first <= n < first + 40)) == [*range(first, first + 40)]


def test_two_records_that_kill_are_both_found(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    send_many(house, 5)
    values = [forge(house, Kind.RESEND), forge(house, Kind.ACK)]
    send_many(house, 5, 5)
    for value in values:
        Deadly(monkeypatch, value).when_decoded()
    deaths, worker = live_and_die(
        house, lambda: len(dead_letters(house.broker, "slow")) == 2 and len(set(house.handled)) == 10
    )
    assert deaths <= 2 + 2 * WorkerSettings().deaths
    goes_on(house, worker)
    assert [letter.value for letter in dead_letters(house.broker, "slow")] == values


def break_all(house: House, dialogs: int) -> set[str]:
    """Have the peer break so many dialogs, whose errors are read after an unclean start; return those heard of."""
    heard: set[str] = set()
    house.slow.on_error()(lambda _, dialog: heard.add(dialog.id))
    send_many(house, dialogs)
    worker = house.worker()
    until(lambda: len(house.handled) == dialogs, worker)
    worker.close()
    for at in [at for at, record in enumerate(house.broker.queue("slow")[0]) if record.visible]:
        forge(house, Kind.ERROR, at)
    die(house.opened(batch=1))
    return heard


def test_more_errors_than_are_announced_together_are_all_heard_of(house: House) -> None:
    """What is announced as a record is announced again as the work of its dialog: it has its turn already."""
    heard = break_all(house, TOGETHER + 6)
    worker = house.worker()
    until(lambda: len(heard) == TOGETHER + 6, worker)
    goes_on(house, worker)


def test_errors_among_which_a_process_died_are_heard_of(house: House) -> None:
    """Each alone, first as a record and then as the work of its dialog."""
    heard = break_all(house, 5)
    worker = house.worker()
    until(lambda: len(house.row().announced) == 5, worker)
    die(worker)
    worker = house.worker()
    until(lambda: len(heard) == 5, worker)
    goes_on(house, worker)


def test_an_error_whose_handler_kills_is_given_up_on(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is charged with its own deaths, also where its record was announced first."""
    heard = break_all(house, 5)
    killer: list[bytes] = []

    def kills(item: Item, *_: Any) -> bool:
        if item.handler == ERROR and item.active is not None:
            killer.append(item.active.identity)
        return bool(item.handler) and killer[-1] == killer[0]

    Deadly(monkeypatch, b"")._wrap(dispatch, "_call", kills)
    events = events_topic(house.broker.namespace)
    deaths, worker = live_and_die(
        house,
        lambda: any(b"GAVE_UP" in (it.value() or b"") for it in visible(house.broker, events)),
    )
    until(lambda: len(heard) == 4, worker)
    assert deaths <= MOST
    goes_on(house, worker)


def died_among_others(house: House) -> None:
    """A process dies while some records are announced together."""
    die(house.opened(batch=1))
    worker = house.worker()
    until(lambda: len(house.row().announced) > 1, worker)
    die(worker)


def test_the_backlog_waits_for_what_must_run_alone(house: House) -> None:
    send_many(house, 3 * TOGETHER)
    died_among_others(house)
    worker = house.worker()
    until(lambda: house.handled, worker)
    assert house.row().queue <= 4, "it is not taken first"
    until(lambda: len(house.handled) == 3 * TOGETHER, worker)
    goes_on(house, worker)


@pytest.mark.parametrize("kills", [True, False])
def test_what_was_set_aside_is_remembered_as_no_suspect_any_more(
    house: House, monkeypatch: pytest.MonkeyPatch, kills: bool
) -> None:
    """Also while its partition has other suspects, which may be for long."""
    send_many(house, 1)
    if kills:
        Deadly(monkeypatch, forge(house, Kind.ACK)).when_decoded()
    else:
        house.broker.append(Out(service_topic(house.broker.namespace, "slow", QUEUE), 0, b"key", b"no envelope", None))
    house.send(Job(n=1, stuck=True))
    if not kills:
        died_among_others(house)
        house.begun.clear()
    _, worker = live_and_die(house, house.begun.is_set)
    (*_, stuck) = (record for record in house.broker.queue("slow")[0] if record.visible)
    assert house.rows_seen[-1].deaths.keys() <= {name_of(stuck)}
    house.let_go.set()
    until(lambda: 1 in house.handled, worker)
    goes_on(house, worker)


def test_nothing_is_decoded_before_it_is_announced_and_committed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    send_many(house, 200)
    seen = []

    def looking(record: Any) -> Any:
        seen.append((name_of(record), set(house.row().announced)))
        return read_headers(record)

    die(house.opened(batch=1))
    monkeypatch.setattr("conversations.worker.intake.read_headers", looking)
    worker = house.worker()
    until(lambda: len(house.handled) == 200 and is_trusted(house), worker)
    assert len(seen) == 200
    assert all(name in announced for name, announced in seen)
    commits, handled = worker.counts.commits, len(house.handled)
    seen.clear()
    send_many(house, 50)
    until(lambda: len(house.handled) == handled + 50, worker)
    assert all(not announced for _, announced in seen), "a partition that is trusted announces nothing"
    assert worker.counts.commits - commits < 50, "and takes as many as there are"
    worker.close()


def test_a_healthy_partition_of_the_same_worker_goes_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits to be taken holds its own queue back, and nobody else's."""
    house = House(2)
    while min(len(records) for records in house.broker.queue("slow")) < 80:
        house.send(Job(n=1))
    die(house.opened(batch=1))
    worker = house.worker(batch=30)
    until(lambda: len(worker.partitions) == 2, worker)
    held: list[int] = []
    pause = MemoryLog.pause

    def pausing(log: MemoryLog, partition: int, *, commands: bool = False) -> None:
        held.append(partition)
        pause(log, partition, commands=commands)

    monkeypatch.setattr(MemoryLog, "pause", pausing)
    total = house.waiting_in_queue()
    until(lambda: len(house.handled) >= total and all(house.row(n).unclean_starts == 0 for n in (0, 1)), worker)
    assert set(held) == {0, 1}
    house.send(Job(n=2))
    until(lambda: 2 in house.handled, worker)
    worker.close()
