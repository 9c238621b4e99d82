"""The rights that ``conversations acl`` prints for each role but the worker: enough on a Kafka that checks rights, over TLS, and each one needed."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from conversations import Client, Kafka, Reader, Service
from conversations.errors import ConversationError, KafkaUnreachable, LogError
from conversations.kafka.admin import apply, create_metrics_topic
from conversations.kafka.commands import CommandProducer
from conversations.kafka.follow import Follower
from conversations.protocol import codes
from conversations.protocol.command import EndWithError, Switch, encode_command, to_partition
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import catalog_topic, events_topic, retry_topic
from conversations.worker import Worker
from conversations_ops.operate.dialog_ends import finish
from conversations_ops.operate.dialogs import sides_of
from conversations_ops.operate.notes import About, note
from conversations_ops.operate.open_letters import Request
from conversations_ops.operate.queues import queues, turn
from conversations_ops.operate.rights import ROLES, rights_of
from conversations_ops.read_model.projector import current
from conversations_ops.why.collected import facts_of
from tests.rights.support.authorizing_kafka import Right
from tests.rights.support.restricted_service import RestrictedService
from tests.rules.support.stepped_service import ASKING, Ask, Asking, Tally, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]

USER = "stranger"
PATIENCE = 10.0
"""Most seconds that an operator waits for the answer of a worker."""
ASKER: Service[Tally] = Service("asker", initiates=[ASKING], state=Tally)
RETRYING = ServiceDeclaration(
    "clerk", accepts={ASKING.name: {"initiator": ["Ask"], "target": ["Answer"]}}, retries=["5s"]
)
TESTED_ELSEWHERE = {"worker": "test_printed_rights.py", "spark": "tests/spark/test_least_rights.py",
    "forwarder": "test_forwarder_rights.py", "forwarder-there": "test_forwarder_rights.py",
}  # fmt: skip


def printed(namespace: str, role: str, *services: ServiceDeclaration) -> list[Right]:
    """Return the rights that the command prints for a role on some services."""
    found = [it for service in services for it in rights_of(role, namespace, service)]
    return [(it.operation, it.resource.upper(), it.name) for it in dict.fromkeys(found)]


def check_each(restricted: RestrictedService, use: Callable[[Right | None], None], rights: list[Right]) -> None:
    """Check that a role works with its rights, and that it does not without any one of them. The user has no other right."""
    broker = restricted.broker
    broker.grant(USER, rights)
    use(None)
    for right in rights:
        broker.take_away(USER, [right])
        with pytest.raises((ConversationError, LogError)):
            use(right)
        broker.grant(USER, [right])
    broker.take_away(USER, rights)


def test_every_role_has_a_test() -> None:
    assert set(ROLES) == {"client", "reader", "operator", "console", "apply", *TESTED_ELSEWHERE}


def test_a_client_needs_its_rights(restricted: RestrictedService) -> None:
    def use(_lost: Right | None) -> None:
        with (
            Client(ASKER, restricted.secured(USER), timeout=timedelta(seconds=5)) as client,
            client.begin_dialog("clerk", ASKING) as dialog,
        ):
            dialog.send(Ask(n=1))

    check_each(restricted, use, printed(restricted.kafka.namespace, "client", ASKER.declaration()))


@pytest.mark.parametrize("place", [0, 1])
def test_a_client_names_the_right_that_is_missing(restricted: RestrictedService, place: int) -> None:
    rights = printed(restricted.kafka.namespace, "client", ASKER.declaration())
    operation, _, topic = rights.pop(place)
    restricted.broker.grant(USER, rights)
    with (
        Client(ASKER, restricted.secured(USER), timeout=timedelta(seconds=5)) as client,
        pytest.raises(ConversationError, match=f"{operation} on topic {topic} is missing"),
        client.begin_dialog("clerk", ASKING) as dialog,
    ):
        dialog.send(Ask(n=1))
    restricted.broker.take_away(USER, rights)


def test_a_client_that_does_not_know_the_certificate_is_not_connected(restricted: RestrictedService) -> None:
    """So the other tests of this file do use TLS."""
    trusting = restricted.secured(USER)
    unknown = {name: value for name, value in trusting.settings.items() if name != "ssl.ca.location"}
    with (
        Reader(ASKER, Kafka(trusting.bootstrap, namespace=trusting.namespace, settings=unknown)) as reader,
        pytest.raises(KafkaUnreachable),
    ):
        reader.dialog(Client.new_id())


def test_a_reader_needs_its_rights(restricted: RestrictedService) -> None:
    def use(_lost: Right | None) -> None:
        with Reader(ASKER, restricted.secured(USER)) as reader:
            reader.dialog(Client.new_id())

    check_each(restricted, use, printed(restricted.kafka.namespace, "reader", ASKER.declaration()))


@contextmanager
def stepping(worker: Worker) -> Iterator[None]:
    """Step a new worker on another thread, so that it answers commands."""
    stopped = threading.Event()

    def run() -> None:
        while not stopped.is_set():
            worker.step(0.05)
        worker.close()  # only the thread that joined the group may leave it

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(60)
    assert not thread.is_alive()


@dataclass
class Operating:
    """An operator at work: finds out why a dialog does not go on, notes it, and ends it."""

    restricted: RestrictedService
    asked: list[int] = field(default_factory=list)

    def __call__(self, _lost: Right | None) -> None:
        dialog, number = Asking(self.restricted), len(self.asked)
        self.asked.append(number)
        dialog.ask(number)
        until(lambda: number in self.restricted.answers(end=False))
        kafka = self.restricted.secured(USER)
        with TemporaryDirectory() as model, current(kafka, lambda done, total: None, Path(model)) as file:
            facts_of(kafka, file, dialog.id)
        note(kafka, About("clerk", "KeyError", "Question"), "test", "a test")
        (side,) = sides_of(kafka, dialog.id, "clerk")
        finish(kafka, side, EndWithError(1, "ended by the test"), Request("test", "a test", PATIENCE))


def test_an_operator_needs_its_rights(restricted: RestrictedService) -> None:
    """Commands that look at all services need the rights on all of them; the rights on one service are taken away."""
    namespace, clerk = restricted.kafka.namespace, restricted.service().declaration()
    others = printed(namespace, "operator", ServiceDeclaration("asker"), ServiceDeclaration("other"))
    rights = printed(namespace, "operator", clerk)
    alone = [it for it in others if it not in rights]
    create_metrics_topic(restricted.kafka, 1)
    restricted.broker.grant(USER, alone)
    with stepping(restricted.guarded_worker()):
        check_each(restricted, Operating(restricted), rights)
    restricted.broker.take_away(USER, alone)


def test_who_may_write_commands_may_not_decide(restricted: RestrictedService) -> None:
    """A client with its printed rights, which may also read events, cannot turn a queue off. An operator can."""
    kafka, namespace, clerk = restricted.secured(USER), restricted.kafka.namespace, restricted.service().declaration()
    decisions, commands = restricted.topic("decisions"), restricted.topic("commands")
    client = [*printed(namespace, "client", clerk), ("READ", "TOPIC", events_topic(namespace))]
    operator = printed(namespace, "operator", clerk)
    assert ("WRITE", "TOPIC", commands) not in operator
    assert not any(name == decisions and operation == "WRITE" for operation, _, name in restricted.rights)
    off = Switch(on=False, reason="a stranger")
    restricted.broker.grant(USER, client)
    with stepping(restricted.guarded_worker()):
        with pytest.raises(LogError, match=f"WRITE on topic {decisions} is missing"):
            turn(kafka, "clerk", off, "somebody else", PATIENCE)
        forged = to_partition((0, 1), off, "somebody else", os.urandom(16), time.time_ns() // 1_000)
        producer = CommandProducer(kafka, "clerk")
        producer.append(forged.key.encode(), encode_command(forged))
        producer.close()
        (refused,) = until(lambda: restricted.events("COMMAND_REFUSED"))
        assert refused["code"] == codes.COMMAND_MISPLACED.number
        assert f"decisions come through {decisions}, and this one came through {commands}" in refused["why"]
        assert [it.off for it in queues(restricted.kafka, "clerk")] == [""]
        restricted.broker.take_away(USER, client)
        restricted.broker.grant(USER, operator)
        turn(kafka, "clerk", off, "an operator", PATIENCE)
        assert [(it.off, it.by) for it in queues(restricted.kafka, "clerk")] == [("operator", "an operator")]
    restricted.broker.take_away(USER, operator)


def test_a_console_needs_what_an_operator_and_a_reader_need_and_reads_retries(restricted: RestrictedService) -> None:
    namespace = restricted.kafka.namespace
    apply(restricted.kafka, [RETRYING], 1, 1)
    rights = printed(namespace, "console", RETRYING)
    known = {*printed(namespace, "operator", RETRYING), *printed(namespace, "reader", RETRYING)}
    own = [it for it in rights if it not in known]
    assert known <= set(rights)
    assert own == [("READ", "TOPIC", retry_topic(namespace, "clerk", "5s"))]

    def use(_lost: Right | None) -> None:
        with Follower(restricted.secured(USER), [topic for _, _, topic in own]) as follower:
            follower.to_the_end(PATIENCE)

    check_each(restricted, use, own)


def test_apply_needs_its_rights(restricted: RestrictedService) -> None:
    """Each right is missed when it is used: a topic is missing, a setting is wrong, or the service has changed."""
    namespace = restricted.kafka.namespace
    contracts = iter(range(1, 1000))
    catalog = catalog_topic(namespace)

    def use(lost: Right | None) -> None:
        operation, _, topic = lost or ("", "", "")
        apply(restricted.kafka, [RETRYING], 1, 1, replace=True)
        if operation == "CREATE":
            restricted.delete(topic)
        elif operation == "ALTER_CONFIGS":
            restricted.spoil(topic)
        changed = {f"Asking{next(contracts)}": {"initiator": ["Ask"], "target": ["Answer"]}}
        service = ServiceDeclaration("clerk", accepts=changed, retries=["5s"])
        apply(restricted.secured(USER), [service], 1, 1, replace=True)

    rights = printed(namespace, "apply", RETRYING)
    # Without its catalog, the rest of the namespace is lost. So the right to create the catalog is taken away last.
    rights.sort(key=lambda it: it[0] == "CREATE" and it[2] == catalog)
    check_each(restricted, use, rights)
