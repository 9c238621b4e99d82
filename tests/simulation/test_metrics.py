"""The metrics of workers are what has happened."""

import shutil
import subprocess
from datetime import timedelta

import pytest

from conversations import Brake, PoisonPolicy, Then, WorkerSettings
from conversations.metrics import REGISTRY, Kind, Source
from conversations.protocol.envelope import Kind as Envelope
from conversations.protocol.topics import QUEUE, service_topic
from conversations.testing import Faults, Simulation
from conversations.worker.condition import Waits
from conversations_ops.metrics.exposition import exposition
from conversations_ops.metrics.workers import of_workers
from tests.simulation.support.records import drawn, first_of, lose, message, pass_all, post
from tests.simulation.support.services import COUNTING, ECHO, Add, Say, counter, echo
from tests.simulation.test_parking import Moody
from tests.support.metrics import page_of, reports

FEEDS = {"conversations_feed_records_total", "conversations_feed_in_trouble"}


def test_what_moves_through_a_worker_is_counted() -> None:
    with Simulation(counter()) as sim:
        dialogs = [sim.peer("web").begin_dialog("counter", COUNTING) for _ in range(3)]
        for dialog in dialogs:
            for amount in (1, 2):
                dialog.send(Add(amount=amount))
        sim.run()
        dialogs[0].end()
        sim.run()
        page = page_of(sim, "counter")
        assert page.total("conversations_messages_handled_total", service="counter") == 6
        assert page.total("conversations_messages_sent_total") == 6
        assert page.total("conversations_dialogs_accepted_total") == 3
        assert page.total("conversations_handler_duration_seconds_count", handler="counter.<locals>.add") == 6
        assert (
            page.total("conversations_handler_duration_seconds_bucket", le="+Inf", handler="counter.<locals>.add") == 6
        )
        assert page.total("conversations_handler_duration_seconds_sum") > 0
        assert (
            page.total("conversations_commits_total") == page.total("conversations_commit_duration_seconds_count") > 0
        )
        assert page.total("conversations_partitions_open") == page.total("conversations_queue_partitions") == 3
        assert page.total("conversations_partitions_restored_total") == 3
        assert page.total("conversations_partition_lag_records") == 0


def test_what_peers_acknowledge_is_counted_once() -> None:
    with Simulation(echo()) as sim:
        dialog = sim.peer("web").begin_dialog("echo", ECHO)
        for text in ("a", "b", "c"):
            dialog.send(Say(text=text))
            sim.run()
        sim.advance(timedelta(minutes=2))
        page = page_of(sim, "echo")
        assert page.total("conversations_messages_sent_total") == 3
        assert page.total("conversations_envelopes_acknowledged_total") == 3
        assert page.total("conversations_handler_duration_seconds_count", handler="echo.<locals>.say") == 3
        assert 0 <= page.total("conversations_handler_duration_seconds_sum") < 60


def test_a_message_that_comes_early_is_counted_and_its_dialog_is_told_until_the_gap_is_closed() -> None:
    with Simulation(counter(), partitions=1) as sim:
        dialog = sim.peer("web").begin_dialog("counter", COUNTING)
        dialog.send(Add(amount=1))
        sim.run()
        lose(sim, lambda service, kind, number: service == "counter" and kind is Envelope.MESSAGE and number == 1)
        for amount in (2, 3):
            dialog.send(Add(amount=amount))
        sim.run()
        page = page_of(sim, "counter")
        assert page.total("conversations_envelopes_held_early_total") == 1
        assert page.total("conversations_partition_early_dialogs") == 1
        pass_all(sim)
        sim.advance(timedelta(minutes=5))
        page = page_of(sim, "counter")
        assert page.total("conversations_messages_handled_total") == 3
        assert page.total("conversations_partition_early_dialogs") == 0


def test_a_held_message_its_wait_and_its_letter_are_told() -> None:
    moody = Moody(PoisonPolicy(delays=[], then=Then.HOLD))
    with Simulation(moody.service, raise_failures=False) as sim:
        dialog = sim.peer("web").begin_dialog("moody", ECHO)
        for text in ("a 9", "b", "c"):
            dialog.send(Say(text=text))
        sim.run()
        sim.advance(timedelta(hours=2))
        page = page_of(sim, "moody")
        assert page.total("conversations_partition_held_messages") == 1
        assert page.total("conversations_partition_parked_records") == 3
        assert 7_200 <= page.total("conversations_partition_oldest_wait_seconds") < 7_300
        assert page.total("conversations_handler_failures_total") == 1
        assert page.total("conversations_dead_letters_total") == 1
        assert page.total("conversations_waits_total") == 1
        sim.decide(sim.parked("moody")[0], "skip")
        sim.run()
        page = page_of(sim, "moody")
        assert page.total("conversations_partition_held_messages") == 0
        assert page.total("conversations_partition_oldest_wait_seconds") == 0


def test_a_queue_that_is_off_is_one_for_each_partition() -> None:
    moody = Moody()
    with Simulation(moody.service, raise_failures=False) as sim:
        sim.turn_queue("moody", on=False)
        sim.run()
        assert page_of(sim, "moody").total("conversations_partition_queue_off") == 3
        sim.turn_queue("moody", on=True)
        sim.run()
        assert page_of(sim, "moody").total("conversations_partition_queue_off") == 0


def test_the_brake_is_told_while_it_is_on() -> None:
    moody = Moody()
    settings = WorkerSettings(brake=Brake(dialogs=3))
    with Simulation(moody.service, raise_failures=False, partitions=1, settings=settings) as sim:
        for _ in range(3):
            sim.peer("web").begin_dialog("moody", ECHO).send(Say(text="a 99"))
        sim.run()
        page = page_of(sim, "moody")
        assert page.total("conversations_brakes_on") == page.total("conversations_brakes_total") == 1


def test_a_peer_whose_queue_takes_no_records_delays_its_dialogs() -> None:
    with Simulation(echo(), partitions=1) as sim:
        dialog = sim.peer("web").begin_dialog("echo", ECHO)
        queue = service_topic(sim.broker.namespace, "web", QUEUE)
        dialog.send(Say(text="a"))
        sim.broker.forbidden.add(queue)
        sim.run()
        page = page_of(sim, "echo")
        assert page.total("conversations_partition_delayed_dialogs") == 1
        assert page.total("conversations_destinations_blocked") == 1
        sim.broker.forbidden.clear()
        sim.advance(timedelta(minutes=5))
        page = page_of(sim, "echo")
        assert page.total("conversations_partition_delayed_dialogs") == 0
        assert page.total("conversations_destinations_blocked") == 0


@pytest.mark.parametrize(
    ("faults", "metrics"),
    [
        (Faults(seed=7, abort=0.3), {"conversations_commits_aborted_total", "conversations_commits_in_doubt_total"}),
        (Faults(seed=7, revoke=0.3), {"conversations_commits_fenced_total"}),
    ],
    ids=["aborted", "fenced"],
)
def test_commits_that_fail_are_counted_by_what_became_of_them(faults: Faults, metrics: set[str]) -> None:
    every = {f"conversations_commits_{it}_total" for it in ("aborted", "in_doubt", "fenced")}
    with Simulation(echo(), faults=faults) as sim:
        dialog = sim.peer("web").begin_dialog("echo", ECHO)
        for number in range(30):
            dialog.send(Say(text=str(number)))
            sim.run()
        page = page_of(sim, "echo")
        assert {it for it in every if page.total(it)} == metrics
        assert len(dialog.received()) == 30


def test_the_lag_is_what_is_not_read() -> None:
    with Simulation(counter(), partitions=1) as sim:
        sim.peer("stranger")
        sim.run()
        assert page_of(sim, "counter").total("conversations_partition_lag_records") == 0
        prefix = first_of(sim, drawn(sim), "counter", COUNTING.name)
        for number in range(5):
            post(sim, message(prefix, number, "Add", b'{"amount": 1}'))
        assert page_of(sim, "counter").total("conversations_partition_lag_records") == 5
        sim.run()
        page = page_of(sim, "counter")
        assert page.total("conversations_messages_handled_total") == 5
        assert page.total("conversations_partition_lag_records") == 0


def test_every_metric_of_workers_is_on_the_page_and_promtool_accepts_the_page() -> None:
    moody = Moody()
    with Simulation(moody.service, raise_failures=False) as sim:
        sim.peer("web").begin_dialog("moody", ECHO).send(Say(text="a"))
        sim.run()
        text = exposition(of_workers(reports(sim, ["moody"])))
        names = page_of(sim, "moody").names()
    for metric in REGISTRY:
        if metric.source in (Source.WORKER, Source.SUPERVISOR) and metric.name not in FEEDS:
            assert metric.name + "_count" * (metric.kind is Kind.HISTOGRAM) in names
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("promtool is missing: apt-get install prometheus")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode() + text.decode()


def test_a_count_of_many_parks_is_not_repeated_at_once() -> None:
    """The parks are counted under the worker's lock. So a long count makes the next one wait."""
    moody = Moody(PoisonPolicy(delays=[], then=Then.HOLD))
    with Simulation(moody.service, raise_failures=False, partitions=1, settings=WorkerSettings(brake=None)) as sim:
        for _ in range(200):
            sim.peer("web").begin_dialog("moody", ECHO).send(Say(text="a 9"))
        sim.run()
        (partition,) = sim.worker("moody").partitions.values()
        times = iter([0.0, 0.1, 5.0, 5.2, 5.3])
        waits = Waits(partition, lambda: next(times))
        waits.look()
        assert waits.held == 200
        partition.parking.parks.clear()
        waits.look()
        assert waits.held == 200, "the first count took 0.1 s, so the next one is 5 s after it"
        waits.look()
        assert waits.held == 0
        assert next(times, None) is None
