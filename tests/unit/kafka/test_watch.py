from conversations.errors import InputLost
from conversations.kafka.clients import Topic
from conversations.kafka.watch import differences

BEFORE = {"conv.orders.queue": Topic("id1", 4), "conv.orders.state": Topic("id2", 4)}


def test_the_same_topics_are_no_news() -> None:
    assert differences(BEFORE, dict(BEFORE), [0, 1]) == []


def test_a_grown_topic_stops_the_worker_and_says_so() -> None:
    (error,) = differences(BEFORE, {**BEFORE, "conv.orders.queue": Topic("id1", 8)}, [0, 1])
    assert not isinstance(error, InputLost)
    assert "conv.orders.queue had 4 partitions and now has 8" in str(error)


def test_a_recreated_or_deleted_topic_loses_every_open_input() -> None:
    for now in (Topic("other", 4), None):
        errors = differences(BEFORE, {**BEFORE, "conv.orders.queue": now}, [1, 0])
        assert [error.partition for error in errors if isinstance(error, InputLost)] == [0, 1]
