"""Messages in fragments on a real Kafka: a handler sends bodies of megabytes, between small messages of other dialogs."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from conversations import Contract, Dialog, MessageType, Service
from conversations.client import Client
from conversations.config import Kafka, Limits, WorkerSettings
from conversations.crew import Crew, kafka_worker
from conversations.kafka.admin import apply
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

ASK = MessageType("Ask", "bytes")
BLOCK = MessageType("Block", "bytes")
BLOCKS = Contract("Blocks", sent_by_initiator=[ASK], sent_by_target=[BLOCK])
PUTS = Contract("Puts", sent_by_initiator=[BLOCK])
PARTITIONS = 2


def block(size: int) -> bytes:
    """Return bytes of which no two parts are equal."""
    return b"".join(hashlib.sha512(b"%d" % n).digest() for n in range(size // 64 + 1))[:size]


def store() -> Service[dict[str, Any]]:
    """Return the service that sends a block of the size that it is asked for."""
    service: Service[dict[str, Any]] = Service("store", accepts=[BLOCKS])

    @service.on(ASK)
    def asked(body: bytes, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.send(block(int(body)))
        if int(body) == 0:
            dialog.end()

    return service


class Reader:
    """The service that asks, with the blocks that it got."""

    def __init__(self) -> None:
        self.got: dict[str, list[bytes]] = {}
        self.fails = 0
        self.service: Service[dict[str, Any]] = Service("readers", initiates=[BLOCKS])

        @self.service.on(BLOCK)
        def got(body: bytes, dialog: Dialog[dict[str, Any]]) -> None:
            if len(body) > 1_000_000 and self.fails:
                self.fails -= 1
                raise ValueError("not yet")
            self.got.setdefault(dialog.id, []).append(body)


def test_bodies_of_megabytes_arrive_whole_and_in_order(kafka: Kafka) -> None:
    reader = Reader()
    settings = WorkerSettings(limits=replace(Limits(), fragment_bytes=300_000))
    services = [store(), reader.service]
    apply(kafka, [service.declaration() for service in services], PARTITIONS, 1)
    reader.fails = 2
    with Crew([kafka_worker(service, kafka, settings) for service in services], kafka) as crew:
        crew.await_ready(60)
        with Client(reader.service, kafka) as client:
            sizes = [10, 5_000_000, 700_000, 3, 0]
            with client.begin_dialog("store", BLOCKS) as large:
                for size in sizes:
                    large.send(b"%d" % size, type="Ask")
            for _ in range(20):
                with client.begin_dialog("store", BLOCKS) as small:
                    small.send(b"7", type="Ask")
        until(lambda: len(reader.got.get(large.id, ())) == len(sizes), "all blocks", 60)
        until(lambda: len(reader.got) == 21, "all dialogs")
        assert reader.got[large.id] == [block(size) for size in sizes]
        assert reader.fails == 0
        crew.stop()


def test_a_client_sends_bodies_of_megabytes(kafka: Kafka) -> None:
    got: dict[str, list[bytes]] = {}
    writer: Service[dict[str, Any]] = Service("writers", initiates=[PUTS])
    keeper: Service[dict[str, Any]] = Service("keeper", accepts=[PUTS])

    @keeper.on(BLOCK)
    def put(body: bytes, dialog: Dialog[dict[str, Any]]) -> None:
        got.setdefault(dialog.id, []).append(body)

    apply(kafka, [writer.declaration(), keeper.declaration()], PARTITIONS, 1)
    with Crew([kafka_worker(service, kafka, WorkerSettings()) for service in (writer, keeper)], kafka) as crew:
        crew.await_ready(60)
        with Client(writer, kafka) as client:
            sizes = [10, 5_000_000, 700_000, 3]
            with client.begin_dialog("keeper", PUTS) as large:
                for size in sizes:
                    large.send(block(size), type="Block")
            with client.dialog(large.id) as again:
                again.send(block(2_000_000), type="Block")
        until(lambda: len(got.get(large.id, ())) == len(sizes) + 1, "all blocks", 60)
        assert got[large.id] == [block(size) for size in (*sizes, 2_000_000)]
        crew.stop()
