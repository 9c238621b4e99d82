"""Clients appending commands to a real cluster."""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event, current_thread, main_thread
from time import perf_counter
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, cimpl

from conversations.config import Kafka
from conversations.errors import DeclarationError, NotAccepted, UnknownService
from conversations.kafka.admin import apply
from conversations.kafka.commands import AT_ONCE, PACE, CommandProducer
from conversations.kafka.restore import BoundedReader
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import partition_of
from tests.integration.kafka.members import PARTITIONS, START, Member, topic
from tests.support.waiting import until

PATIENCE = 60.0

pytestmark = pytest.mark.kafka


def test_a_confirmed_command_reaches_the_owner_of_its_key(kafka: Kafka, member: Member) -> None:
    commands = CommandProducer(kafka, "orders")
    commands.append(b"some key", b"value", [("trace", b"1")])
    partition = partition_of(b"some key", PARTITIONS)
    member.connection.open(partition, START)
    member.awaits(b"value")
    (record,) = member.got
    assert (record.topic(), record.partition(), record.key()) == (topic(kafka, "commands"), partition, b"some key")
    assert record.headers() == [("trace", b"1")]
    commands.close()


def test_many_threads_share_a_producer_and_futures_end(kafka: Kafka) -> None:
    commands = CommandProducer(kafka, "orders")
    with ThreadPoolExecutor(8) as pool:
        futures = list(pool.map(lambda n: commands.append_async(b"%d" % n, [b"%d" % n]), range(500)))
    assert all(future.result(10) is None for future in futures)
    got: set[bytes | None] = set()
    for partition in range(PARTITIONS):
        end = sum(partition_of(b"%d" % n, PARTITIONS) == partition for n in range(500))
        reader = BoundedReader(kafka, topic(kafka, "commands"), partition, 0, end)
        while not reader.done:
            got |= {value for _, value in reader.read(1000)}
        reader.close()
    assert got == {b"%d" % n for n in range(500)}
    commands.close()
    commands.append(b"k", b"after close")  # connects again
    commands.close()


def test_a_large_command_lets_others_go_in_between_and_is_whole_when_its_producer_is_closed(kafka: Kafka) -> None:
    large, small = CommandProducer(kafka, "orders"), CommandProducer(kafka, "orders")
    for commands in (large, small):
        commands.append(b"k", b"connects")
    pieces = [bytes([number]) * 900_000 for number in range(12)]
    began, smalls = perf_counter(), 0
    future, later = large.append_async(b"k", pieces), large.append_async(b"k", [b"later"])
    while not future.done():
        small.append(b"k", b"small")
        smalls += 1
    assert perf_counter() - began > (sum(map(len, pieces[:-1])) - AT_ONCE) / PACE
    assert later.result(PATIENCE) is None
    closed = [large.append_async(b"k", it) for it in (pieces, [b"last"])]
    large.close()
    assert [it.result(0) for it in closed] == [None, None]
    small.close()
    reader = BoundedReader(
        kafka, topic(kafka, "commands"), partition_of(b"k", PARTITIONS), 0, 4 + smalls + 2 * len(pieces)
    )
    got: list[bytes] = []
    while not reader.done:
        got += [value or b"" for _, value in reader.read(10)]
    reader.close()
    between = got[got.index(pieces[0]) : got.index(pieces[-1])]
    assert [it for it in between if it != b"small"] == pieces[:-1]
    assert b"small" in between
    assert got.index(b"later") > got.index(pieces[-1]), "the commands of one key are in their order"
    assert got[-1] == b"last"


def test_a_command_nobody_confirms_in_time_is_not_accepted(kafka: Kafka) -> None:
    began = perf_counter()
    with pytest.raises(NotAccepted, match=r"127\.0\.0\.1:1\b"):
        CommandProducer(Kafka("127.0.0.1:1"), "orders").append(b"k", b"v", timeout=1)
    assert perf_counter() - began < 3
    unhappy = CommandProducer(kafka, "orders")
    unhappy.append(b"k", b"v")
    with pytest.raises(NotAccepted, match="did not confirm"):
        unhappy.append(b"k", b"v", timeout=0)
    with pytest.raises(NotAccepted, match="MSG_SIZE_TOO_LARGE"):
        unhappy.append(b"k", os.urandom(2_100_000))
    unhappy.close()


def fail_for_good(producer: object) -> None:
    """Let librdkafka find what it finds when it cannot repeat after an outage what it had sent before, by its own test hook."""
    handle = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__)
    hook = ctypes.CDLL(cimpl.__file__).rd_kafka_test_fatal_error
    hook.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    hook(handle, KafkaError._INCONSISTENT, b"unable to reconstruct a message set")


def test_a_producer_that_failed_for_good_is_replaced_and_nobody_waits_in_vain(kafka: Kafka) -> None:
    commands = CommandProducer(kafka, "orders")
    commands.append(b"k", b"before")
    assert commands._connection is not None
    under_way = [commands.append_async(b"k", [b"%d" % n]) for n in range(100)]
    fail_for_good(commands._connection.producer)
    assert all(isinstance(future.exception(PATIENCE), NotAccepted | None) for future in under_way)
    with suppress(NotAccepted):  # it may be the one that notices
        commands.append(b"k", b"perhaps")
    commands.append(b"k", b"again")
    commands.close()


def hold_reports(commands: CommandProducer, until_set: Event) -> None:
    """Keep the thread for delivery reports in a report, until the event is set."""
    held = Event()

    def wait(_future: object) -> None:
        if current_thread() is not main_thread():  # a command that is confirmed already is reported here
            held.set()
            until_set.wait(PATIENCE)

    while not held.is_set():
        commands.append_async(b"k", [b"held"]).add_done_callback(wait)


def test_a_sender_that_meets_a_fatal_error_first_lets_the_producer_be_replaced(kafka: Kafka) -> None:
    commands, noticed = CommandProducer(kafka, "orders"), Event()
    commands.append(b"k", b"before")
    assert commands._connection is not None
    hold_reports(commands, noticed)
    fail_for_good(commands._connection.producer)
    with pytest.raises(NotAccepted, match="_FATAL"):
        commands.append(b"k", b"meets the error")
    commands.append(b"k", b"again")
    noticed.set()
    commands.close()


def test_a_service_outside_the_catalog_is_named(kafka: Kafka) -> None:
    with pytest.raises(DeclarationError, match="'nobody'"):
        CommandProducer(kafka, "nobody").append(b"k", b"v")


def test_a_command_that_needs_a_service_is_refused_until_the_catalog_names_it(kafka: Kafka) -> None:
    commands, late = CommandProducer(kafka, "orders"), f"late-{uuid4().hex}"
    commands.append_async(b"k", [b"v"], to="orders").result(PATIENCE)

    def is_refused() -> bool:
        """Return False if the command was appended, because the catalog could not be read in time."""
        try:
            commands.append_async(b"k", [b"v"], to=late).result(PATIENCE)
        except UnknownService as refusal:
            assert late in str(refusal)  # noqa: PT017 - only if it is raised
            return True
        return False

    until(is_refused, "the catalog was read, and does not name the service", PATIENCE)
    apply(kafka, [ServiceDeclaration(late)], partitions=1)
    commands.append_async(b"k", [b"v"], to=late).result(PATIENCE)
    commands.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_connects_anew(kafka: Kafka) -> None:
    commands = CommandProducer(kafka, "orders")
    commands.append(b"k", b"parent")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            commands.append(b"k", b"child")
            commands.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    commands.append(b"k", b"parent again")
    partition = partition_of(b"k", PARTITIONS)
    reader = BoundedReader(kafka, topic(kafka, "commands"), partition, 0, 3)
    values: list[bytes | None] = []
    while not reader.done:
        values += [value for _, value in reader.read(10)]
    assert values == [b"parent", b"child", b"parent again"]
    reader.close()
    commands.close()
