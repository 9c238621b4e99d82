"""Where records belong: a key has one partition, and a topic that fails delays only what goes there."""

from secrets import token_bytes

import pytest
from confluent_kafka.cimpl import NewPartitions

from conversations.bodies import codec_of
from conversations.errors import LogError
from conversations.kafka.clients import describe_topics
from conversations.ports import Headers
from conversations.protocol.command import Command, Send, encode_command
from tests.rules.support.stepped_service import ASKING, SECOND, AheadClock, Answer, Asking, SteppedService, until

pytestmark = pytest.mark.kafka


def command_to_answer(dialog: Asking, n: int) -> tuple[bytes, bytes, Headers | None]:
    """Make a command of the clerk's client: send one more answer on a dialog."""
    declared = ASKING.outgoing(Answer(n=n), None, False)
    codec = codec_of(declared)
    operations = (Send(declared.name, codec.content_type, codec.encode(Answer(n=n))),)
    command = Command(token_bytes(16), dialog.id, False, dialog.key.decode(), "", "clerk", dialog.now, operations)
    return dialog.key, encode_command(command), []


def test_a_misrouted_command_is_forwarded(wide: SteppedService) -> None:
    """Its endpoint is at home in the other partition, and hears of it there."""
    stepped = wide
    worker = stepped.open(stepped.worker())
    dialog = Asking(stepped, 1)
    dialog.ask(1)
    stepped.answered(worker, 1)
    stepped.append("commands", 0, command_to_answer(dialog, 2))
    stepped.answered(worker, 1, 2)


def test_a_misrouted_envelope_is_set_aside(wide: SteppedService) -> None:
    """Taking it would open the dialog a second time, in a partition it does not belong to."""
    stepped = wide
    worker = stepped.open(stepped.worker())
    dialog = Asking(stepped, 1)
    strayed = dialog.record(1)
    stepped.append("queue", 0, strayed)
    until(lambda: (worker.step(0.05), worker.counts.set_aside or worker.counts.handled)[1])
    stepped.append("queue", 1, strayed)
    dialog.ask(2)
    stepped.answered(worker, 1, 2)
    (letter,) = stepped.read(stepped.topic("dead-letter"))
    assert (letter.key(), letter.value()) == strayed[:2]
    assert (b"dl.reason", b"set-aside") in {(name.encode(), value) for name, value in letter.headers() or ()}


def test_a_destination_that_grew_gets_its_records_where_the_catalog_says(stepped: SteppedService) -> None:
    """A producer that chooses partitions itself follows a grown topic at once, and a key changes its home."""
    worker = stepped.open(stepped.worker())
    dialogs = [Asking(stepped) for _ in range(4)]
    name = stepped.topic("queue", "asker")
    stepped.admin.create_partitions([NewPartitions(name, 4)])[name].result()
    until(lambda: (found := describe_topics(stepped.admin, stepped.kafka, [name])[name]) and found.partitions == 4)
    for n in range(3):
        for dialog in dialogs:
            dialog.ask(n)
        until(lambda done=4 * (n + 1): (worker.step(0.05), worker.counts.handled >= done)[1])  # type: ignore[misc]
    stepped.forget(name)
    assert len(stepped.answers()) == 12
    assert {record.partition() for record in stepped.read(name)} == {0}


def test_a_topic_of_its_own_that_grew_stops_the_worker(stepped: SteppedService) -> None:
    """Keys no longer find their partition: nobody may go on as if they did."""
    worker = stepped.open(stepped.worker())
    name = stepped.topic("commands")
    stepped.admin.create_partitions([NewPartitions(name, 2)])[name].result()
    watch = worker.context.connection._watch  # type: ignore[attr-defined]  # only the log on Kafka looks at its topics
    watch._due_at = 0
    with pytest.raises(LogError, match="had 1 partitions and now has 2"):
        until(lambda: (worker.step(0.05), False)[1])


def test_a_destination_that_fails_delays_what_goes_there_and_nothing_else(stepped: SteppedService) -> None:
    """What it cannot take waits as rows, and is delivered when it is there again."""
    clock = AheadClock()
    worker = stepped.open(stepped.worker(clock=clock))
    name = stepped.topic("queue", "other")
    stepped.admin.delete_topics([name])[name].result()
    until(lambda: describe_topics(stepped.admin, stepped.kafka, [name])[name] is None)
    good, bad = Asking(stepped), Asking(stepped, service="other")
    bad.ask(1, 2)
    good.ask(3, 4)
    stepped.answered(worker, 3, 4)
    stepped.apply()
    clock.ahead += 70 * SECOND
    until(lambda: (worker.step(0.05), not worker.partitions[0].waiting.delayed)[1])
    assert stepped.answers("other") == [1, 2]
    good.ask(5)
    stepped.answered(worker, 3, 4, 5)
