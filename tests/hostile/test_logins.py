"""What Kafka refuses is named: a login, or a right; it is not called a broker that is not there, nor a mistake of ours."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from conversations.config import Kafka
from conversations.errors import LogError, LoginRefused
from conversations.kafka.admin import apply
from conversations.kafka.appending import append
from conversations.kafka.catalog import read_catalog
from conversations.protocol.declarations import ServiceDeclaration
from conversations.protocol.topics import events_topic
from conversations_ops.console.exit_codes import Exit, code_of
from tests.rights.support.authorizing_kafka import GuardedBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedBroker]:
    with GuardedBroker() as broker:
        yield broker


@pytest.fixture
def namespace(guarded: GuardedBroker) -> str:
    """A namespace with a service, which a stranger may read and not write."""
    name = f"n{uuid4().hex[:10]}"
    apply(Kafka(guarded.bootstrap, namespace=name), [ServiceDeclaration("desk")], 1, 1)
    guarded.grant("stranger", [("DESCRIBE", "TOPIC", f"{name}.*"), ("READ", "TOPIC", f"{name}.*")])
    return name


def test_a_wrong_password_is_not_called_a_kafka_that_is_not_there(guarded: GuardedBroker, namespace: str) -> None:
    wrong = guarded.login("stranger") | {"sasl.password": "hunter-2"}
    kafka = Kafka(guarded.guarded, namespace=namespace, settings=wrong)
    with pytest.raises(LoginRefused, match=r"refuses the login: .*sasl\.password") as caught:
        read_catalog(kafka)
    assert "hunter-2" not in str(caught.value)
    assert code_of(caught.value) is Exit.HUMAN
    with pytest.raises(LoginRefused, match="refuses the login"):
        append(kafka, events_topic(namespace), [(b"k", b"v")])


@pytest.mark.parametrize("count", [1, 2])
def test_a_right_to_write_that_is_missing_is_named(guarded: GuardedBroker, namespace: str, count: int) -> None:
    kafka = Kafka(guarded.guarded, namespace=namespace, settings=guarded.login("stranger"))
    topic = events_topic(namespace)
    with pytest.raises(LogError, match=f"the right WRITE on topic {topic} is missing"):
        append(kafka, topic, [(b"k", b"v")] * count)


def test_no_login_is_blamed_where_no_broker_is() -> None:
    settings = GuardedBroker.login("stranger")
    with pytest.raises(LogError) as caught:
        read_catalog(Kafka("127.0.0.1:1", settings=settings))
    assert not isinstance(caught.value, LoginRefused)
    assert code_of(caught.value) is Exit.UNREACHABLE
