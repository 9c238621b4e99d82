"""A namespace that an older release applied: it has no topic of decisions. Workers and tools name what to do, and nothing makes the topic but apply."""

from collections.abc import Iterator

import pytest

from conversations import Kafka
from conversations.errors import DeclarationError, LogError
from conversations.kafka.catalog import with_topics
from conversations.kafka.clients import describe_topics
from conversations.protocol.command import Switch
from conversations_ops.operate.queues import queues, turn
from tests.rules.support.stepped_service import SteppedService
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

PATIENCE = 10.0


@pytest.fixture
def stepped(kafka: Kafka) -> Iterator[SteppedService]:
    stepped = SteppedService(kafka.bootstrap)
    yield stepped
    stepped.close()


def test_a_namespace_of_an_older_release_needs_apply_once(stepped: SteppedService) -> None:
    topic, off = stepped.topic("decisions"), Switch(on=False, reason="test")

    def is_there() -> bool:
        return describe_topics(stepped.admin, stepped.kafka, [topic])[topic] is not None

    stepped.admin.delete_topics([topic])[topic].result()
    until(lambda: not is_there())
    with pytest.raises(DeclarationError, match=f"topic {topic} is missing: run 'conversations apply' of this release"):
        turn(stepped.kafka, "clerk", off, "me", PATIENCE)
    assert not is_there()
    worker = stepped.worker()
    with pytest.raises(LogError, match=f"topics are missing: {topic}; run 'conversations apply'"):
        worker.step()
    assert with_topics(stepped.kafka, ["clerk"]) == ["clerk"], "who only reads needs no decisions"
    stepped.apply()
    worker = stepped.open(stepped.worker())
    with pytest.raises(LogError, match="Workers of an older release do not read decisions"):
        turn(stepped.kafka, "clerk", off, "me", 0.0)
    until(lambda: (worker.step(0.05), worker.partitions[0].progress.row.off)[1])
    assert [it.off for it in queues(stepped.kafka, "clerk")] == ["operator"]
