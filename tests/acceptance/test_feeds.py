"""A service that is fed by a plain topic, with real processes on a real Kafka, while its worker is killed."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from conversations import Kafka
from conversations.kafka.admin import apply
from conversations.kafka.follow import Follower
from conversations.protocol.topics import service_topic
from tests.acceptance.services.feeding import stock, web
from tests.acceptance.support.command_line import Running, conversations
from tests.integration.support.plain_topics import committed, create_topic, delete_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.timeout(900)]
SHARE, KILLS, BAD = 1_500, 3, 7


@pytest.fixture
def ordered(kafka: Kafka) -> Iterator[str]:
    """A topic with three partitions that belongs to somebody else, and the topic of what was done."""
    topic = create_topic(kafka, f"shop.orders-{kafka.namespace}", 3)
    done = create_topic(kafka, f"{topic}.done", 3)
    yield topic
    delete_topic(kafka, topic)
    delete_topic(kafka, done)


def turned(out: Path) -> Counter[int]:
    """How many records each process has turned into messages."""
    file = out / "turned"
    return Counter(map(int, file.read_text().split())) if file.exists() else Counter()


def kill_at_work(running: Running, out: Path) -> None:
    """Kill the worker while it reads records, and wait until another process works."""

    def at_work() -> int:
        (worker,) = running.workers().values()
        pid = worker["pid"] or 0
        return pid if turned(out)[pid] else 0

    pid = until(at_work, "the feed is at work", 180, pause=0.05)
    os.kill(pid, signal.SIGKILL)
    until(lambda: running.is_well() and pid not in {it["pid"] for it in running.workers().values()}, "another works")


@pytest.mark.slow
def test_each_record_begins_one_dialog_however_often_the_worker_is_killed(
    kafka: Kafka, ordered: str, tmp_path: Path
) -> None:
    apply(kafka, [web.declaration(), stock.declaration()], 4, 1)
    variables = {"ORDERED": ordered}
    settings = ("--setting", "worker.batch=40")  # many transactions, so that kills hit some of them
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    with (
        Running(kafka, tmp_path, "feeding:stock", variables=variables),
        Running(kafka, tmp_path, "feeding:web", *settings, variables=variables) as running,
    ):
        running.ready()
        for share in range(KILLS + 1):
            for n in range(share * SHARE, (share + 1) * SHARE):
                producer.produce(ordered, b'{"n": %d}' % n if n % SHARE != BAD else b"no JSON", str(n))
            producer.flush(60)
            if share < KILLS:
                kill_at_work(running, tmp_path)
        expected = [n for n in range((KILLS + 1) * SHARE) if n % SHARE != BAD]
        until(lambda: len(committed(kafka, f"{ordered}.done")) >= len(expected), "all orders are done", 180, pause=1)
        (worker,) = running.workers().values()
        assert worker["feeds"][0]["topic"] == ordered
        with Follower(kafka, [service_topic(kafka.namespace, "web", "dead-letter")]) as follower:
            found: list[bytes | None] = []

            def letters() -> bool:
                found.extend(record.value() for record in follower.to_the_end(30))
                return len(found) >= KILLS + 1

            until(letters, "the letters are there", 60)
    assert found == [b"no JSON"] * (KILLS + 1)
    assert len(turned(tmp_path)) > KILLS
    done = committed(kafka, f"{ordered}.done")
    assert sorted(int(record.value() or b"") for record in done) == expected
    assert len({record.key() for record in done}) == len(expected)


def test_check_and_apply_name_the_topics_that_a_service_reads(kafka: Kafka, ordered: str, tmp_path: Path) -> None:
    connected = ("--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace)
    here, missing = {"ORDERED": ordered}, {"ORDERED": f"{ordered}.missing"}
    checked = conversations("check", "feeding:web", out=tmp_path, variables=here)
    assert f"reads from topic {ordered} (earliest)" in checked.stdout
    assert "begins    Orders with stock" in checked.stdout
    for topic, is_named in ((missing, True), (here, False)):
        applied = conversations("apply", "feeding:web", *connected, out=tmp_path, variables=topic)
        compared = conversations("check", "feeding:web", "--catalog", *connected, out=tmp_path, variables=topic)
        for told in (applied, compared):
            assert told.returncode == 0, told.stderr
            assert (
                f"topic {topic['ORDERED']}, from which the service reads, does not exist" in told.stdout
            ) is is_named
    refused = conversations("run", "feeding:web", *connected, out=tmp_path, variables=missing)
    assert refused.returncode == 1
    assert f"{ordered}.missing, which does not exist. Its owner creates it" in refused.stderr
