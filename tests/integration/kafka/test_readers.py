"""Readers, many dialogs in one call, and skipped messages on a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Producer
from pydantic import BaseModel

from conversations import (
    Client,
    Contract,
    Dialog,
    Kafka,
    PoisonPolicy,
    Reader,
    RequestTimeout,
    Service,
    Status,
    Then,
    local,
)
from conversations.kafka.group_states import StateTables
from conversations.protocol import rows
from conversations.protocol.identifiers import Handle
from conversations.protocol.topics import partition_of, service_topic
from tests.support.waiting import SLOWER, until

pytestmark = pytest.mark.kafka

LONG = timedelta(seconds=60 * SLOWER)


class Ask(BaseModel):
    text: str = ""


class Answer(BaseModel):
    text: str = ""


class Noted(BaseModel):
    answers: int = 0
    skipped: list[int] = []


SALES = Contract("Sales", sent_by_initiator=[Ask], sent_by_target=[Answer])


def shop() -> Service[dict[str, Any]]:
    service = Service("shop", accepts=[SALES], poison=[PoisonPolicy(delays=[], then=Then.SKIP)])

    @service.on(Ask)
    def asked(body: Ask, dialog: Dialog) -> None:
        if body.text == "bad":
            raise ValueError(body.text)
        if body.text == "silent":
            return
        dialog.send(Answer(text=body.text))

    return service


def web() -> Service[Noted]:
    service = Service("web", initiates=[SALES], state=Noted)

    @service.on(Answer)
    def answered(body: Answer, dialog: Dialog[Noted]) -> None:
        dialog.group.state.answers += 1
        dialog.end()

    @service.on_skipped()
    def skipped(numbers: tuple[int, ...], dialog: Dialog[Noted]) -> None:
        dialog.group.state.skipped.extend(numbers)

    return service


class Desk:
    """Both services at work, a client of the first, and a reader of each."""

    def __init__(self, kafka: Kafka, client: Client) -> None:
        self.web, self.shop = web(), shop()
        self.kafka, self.client = kafka, client
        self.reader, self.there = Reader(self.web, kafka), Reader(self.shop, kafka)


@pytest.fixture
def desk(kafka: Kafka) -> Iterator[Desk]:
    with local(web(), shop(), kafka=kafka), Client(web(), kafka) as client:
        # The client declares the same contract object as the service, so it may begin dialogs.
        yield Desk(kafka, client)


def test_a_reader_tells_the_life_of_a_dialog(desk: Desk) -> None:
    with desk.client.begin_dialog("shop", SALES) as dialog:
        dialog.send(Ask(text="silent"))
    seen = desk.reader.wait(dialog.id, timeout=LONG, until=lambda view: view.sent.acknowledged == 1).result()
    assert (seen.status, seen.contract, seen.peer, seen.sent) == (Status.OPEN, "Sales", "shop", (1, 0, 0, 1))
    handle = f"{dialog.id}:target"
    there = desk.there.wait(handle, timeout=LONG, until=lambda view: view.received.handled == 1).result()
    assert (there.status, there.received) == (Status.OPEN, (1, 1, 0, 0))
    with Client(desk.shop, desk.kafka) as hook, hook.dialog(handle) as mine:
        mine.send(Answer(text="by a web hook"))
    ended = desk.reader.wait(dialog.id, timeout=LONG).result()
    assert (ended.status, ended.state.answers) == (Status.ENDED, 1)
    assert desk.there.wait(handle, timeout=LONG).result().status is Status.ENDED


def test_a_refused_command_is_told_to_readers_that_began_before_and_after(desk: Desk) -> None:
    unknown = Client.new_id()
    assert desk.reader.dialog(unknown).refused == ()
    with desk.client.dialog(unknown) as dialog:
        dialog.send(Ask())
    for reader in (desk.reader, Reader(desk.web, desk.kafka)):
        view = reader.wait(unknown, timeout=LONG, until=lambda view: bool(view.refused)).result()
        assert (view.status, [it.code for it in view.refused]) == (Status.NOT_SEEN_YET, [8426])
    with pytest.raises(RequestTimeout, match=r"not seen yet: .*command refused: no such dialog") as late:
        desk.reader.wait(unknown, timeout=timedelta(0)).result()
    assert late.value.acknowledged is False


def test_the_sender_of_a_skipped_message_learns_its_number(desk: Desk) -> None:
    with desk.client.begin_dialog("shop", SALES) as dialog:
        dialog.send(Ask(text="silent"))
        dialog.send(Ask(text="bad"))
    view = desk.reader.wait(dialog.id, timeout=LONG, until=lambda view: bool(view.state.skipped)).result()
    assert view.state.skipped == [1]


def test_many_dialogs_begin_in_one_call_and_a_repetition_is_harmless(desk: Desk) -> None:
    openings = [(Client.new_id(), Ask(text=str(n))) for n in range(300)]
    for _ in range(2):
        assert [it.error for it in desk.client.begin_dialogs("shop", SALES, openings)] == [None] * 300
    views = [desk.reader.wait(id_, timeout=LONG).result() for id_, _ in openings]
    assert {(view.status, view.state.answers) for view in views} == {(Status.ENDED, 1)}
    until(lambda: desk.there.dialog(f"{openings[-1][0]}:target").is_over, "the other side has ended too")


def test_rows_of_an_open_or_aborted_transaction_are_not_in_a_view(desk: Desk) -> None:
    """A view shows what is committed: not the end of the dialog that a transaction would bring."""
    with desk.client.begin_dialog("shop", SALES) as dialog:
        dialog.send(Ask(text="silent"))
    desk.reader.wait(dialog.id, timeout=LONG, until=lambda view: view.sent.acknowledged == 1).result()
    own = rows.identity(Handle(bytes.fromhex(dialog.id.replace("-", "")), dialog.id).conversation, True)
    producer = Producer({"bootstrap.servers": desk.kafka.bootstrap, "transactional.id": f"{desk.kafka.namespace}-rows"})
    producer.init_transactions(20)
    producer.begin_transaction()
    number = partition_of(dialog.id.encode(), partitions(desk))
    producer.produce(service_topic(desk.kafka.namespace, "web", "state"), None, rows.ENDPOINT + own, number)
    assert producer.flush(20) == 0
    producer.abort_transaction(20)
    assert desk.reader.dialog(dialog.id).status is Status.OPEN
    assert Reader(desk.web, desk.kafka).dialog(dialog.id).status is Status.OPEN


def partitions(desk: Desk) -> int:
    tables = desk.reader._reader()
    assert isinstance(tables, StateTables)
    count = tables._catalog.partitions("web")
    assert count is not None
    return count
