"""Metrics: what becomes of the reports of workers, of the read model and of clients."""

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from conversations import Kafka, local
from conversations.errors import UnknownService
from conversations.kafka.forwarding_report import Report
from conversations.metrics import HANDLED, HELD
from conversations.testing import Simulation
from conversations_ops.host.health import served
from conversations_ops.metrics.clients import register
from conversations_ops.metrics.exposition import CONTENT_TYPE, exposition
from conversations_ops.metrics.forwarders import of_forwarder
from conversations_ops.metrics.readings import Readings
from conversations_ops.metrics.services import of_services
from conversations_ops.metrics.workers import of_workers
from conversations_ops.read_model.derived import _add
from conversations_ops.read_model.file import File
from conversations_ops.read_model.status import Unowned
from tests.simulation.support.services import COUNTING, Add, counter
from tests.support.metrics import Page, reports


@pytest.fixture
def report() -> Iterator[list[dict[str, Any]]]:
    """The health page of one worker, as plain data that a test may change."""
    with Simulation(counter(), partitions=2) as sim:
        sim.run()
        yield reports(sim, ["counter"])


def page(report: list[dict[str, Any]]) -> Page:
    return Page(exposition(of_workers(report)))


def test_a_worker_that_has_not_reported_has_only_its_state_and_its_restarts() -> None:
    worker = {"slot": "a-1", "state": "down", "restarts": 4, "counts": {}, "feeds": []}
    found = page([{"service": "shop", "workers": [worker, {**worker, "slot": "a-2"}]}])
    assert found.names() == {"conversations_workers", "conversations_worker_restarts_total"}
    assert found.total("conversations_workers", service="shop", state="down") == 2
    assert found.total("conversations_workers", service="shop", state="running") == 0
    assert found.total("conversations_worker_restarts_total", worker="a-2") == 4


def test_a_partition_that_is_set_aside_is_counted_and_has_no_partition(report: list[dict[str, Any]]) -> None:
    worker = report[0]["workers"][0]
    worker["aside"] = [1]
    worker["partitions"] = [it for it in worker["partitions"] if it["partition"] != 1]
    found = page(report)
    assert found.total("conversations_partitions_set_aside") == found.total("conversations_partitions_open") == 1
    assert not found.has("conversations_partition_queue_off", partition="1")


def test_a_lag_that_is_not_known_is_left_out(report: list[dict[str, Any]]) -> None:
    report[0]["workers"][0]["partitions"][0]["lag"] = None
    found = page(report)
    assert not found.has("conversations_partition_lag_records", partition="0")
    assert found.has("conversations_partition_lag_records", partition="1")


def test_kafka_that_does_not_answer_is_told_in_seconds(report: list[dict[str, Any]]) -> None:
    assert page(report).total("conversations_kafka_unanswered_seconds") == 0
    report[0]["workers"][0]["kafka"] = {"unanswered_seconds": 12.5, "trying": "polling", "unreachable": False}
    assert page(report).total("conversations_kafka_unanswered_seconds") == 12.5


def test_feeds_are_told_by_topic_and_outcome(report: list[dict[str, Any]]) -> None:
    feed = {"topic": "shop.orders", "begun": 5, "skipped": 2, "refused": 1, "trouble": "no such topic"}
    report[0]["workers"][0]["feeds"] = [feed]
    found = page(report)
    told = {
        it: found.total("conversations_feed_records_total", topic="shop.orders", outcome=it)
        for it in ("begun", "skipped", "refused")
    }
    assert told == {"begun": 5, "skipped": 2, "refused": 1}
    assert found.total("conversations_feed_in_trouble", topic="shop.orders") == 1


def test_a_duration_is_in_the_bucket_of_its_bound_and_in_all_above(report: list[dict[str, Any]]) -> None:
    report[0]["workers"][0]["durations"]["handlers"] = {"add": [1, 0, 0, 0, 0, 2, 0, 0, 0, 1, 45.0]}
    found = page(report)
    told = [
        found.total("conversations_handler_duration_seconds_bucket", le=le)
        for le in ("0.001", "0.1", "0.5", "30.0", "+Inf")
    ]
    assert told == [1, 1, 3, 3, 4]
    assert found.total("conversations_handler_duration_seconds_sum") == 45


def test_a_name_with_quotes_and_line_ends_stays_one_label(report: list[dict[str, Any]]) -> None:
    report[0]["service"] = 'a"} 1\nb\\'
    assert page(report).total("conversations_partitions_open", service='a"} 1\nb\\') == 2


def test_labels_must_be_those_of_the_metric() -> None:
    with pytest.raises(ValueError, match="has the labels service, worker, partition"):
        Readings().add(HELD, ("a", "b"), 1)
    twice = Readings()
    twice.add(HANDLED, ("a", "b"), 1)
    twice.add(HANDLED, ("a", "b"), 2)
    assert Page(exposition(twice)).total(HANDLED.name) == 2


# -- the page ----------------------------------------------------------------------------------------------------------


def test_metrics_are_served_beside_the_health_page() -> None:
    body = exposition(of_workers([]))
    with (
        served("127.0.0.1", 0, list, metrics=lambda: (200, CONTENT_TYPE, body + b"# end\n")) as address,
        urllib.request.urlopen(address.replace("health", "metrics"), timeout=5) as answer,
    ):
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        assert answer.read() == b"# end\n"


def test_without_prometheus_client_the_error_names_the_extra() -> None:
    """The process cannot import the package, as if it were not installed. What needs no metrics works."""
    program = (
        "import sys\n"
        "sys.modules['prometheus_client'] = None\n"
        "from conversations_ops.cli import run\n"
        "from conversations_ops.metrics import exposition\n"
        "from conversations_ops.metrics.readings import Readings\n"
        "print(exposition.page_of(Readings()), exposition.where('http://a:1/health'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("(<HTTPStatus.NOT_IMPLEMENTED: 501>, 'text/plain")
    assert done.stdout.count("pip install 'kafka-dialogs[ops]'") == 2


def test_there_is_no_page_of_metrics_where_nobody_makes_one() -> None:
    with served("127.0.0.1", 0, list) as address, pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(address.replace("health", "metrics"), timeout=5)
    with caught.value:
        assert caught.value.code == 404


# -- forwarders --------------------------------------------------------------------------------------------------------


def test_what_a_forwarder_reports_is_served() -> None:
    report = Report(Kafka("localhost:1"), "emea")
    report.count(envelopes=3, size=500, unknown=1)
    report.count(envelopes=2, size=100, unknown=0)
    now = report.condition.last_success + 9.0
    page = exposition(of_forwarder("emea", report, now)).decode()
    found = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert {name.removeprefix("conversations_forwarder_"): float(value) for name, value in found.items()} == {
        'envelopes_total{cluster="emea"}': 5, 'transactions_total{cluster="emea"}': 2, 'bytes_total{cluster="emea"}': 600,
        'unknown_services_total{cluster="emea"}': 1, 'failures_total{cluster="emea"}': 0, 'partitions{cluster="emea"}': 0,
        'lag_records{cluster="emea"}': 0, 'last_success_seconds{cluster="emea"}': 9, 'away_seconds{cluster="emea"}': 0,
    }  # fmt: skip


# -- clients -------------------------------------------------------------------------------------------------------------


def test_commands_of_clients_are_counted_and_served_by_the_application() -> None:
    registry = CollectorRegistry()
    with local(counter(), initiates=[COUNTING]) as client:
        register(client, registry=registry)
        for _ in range(3):
            with client.begin_dialog("counter", COUNTING) as dialog:
                dialog.send(Add(amount=1))
        with pytest.raises(UnknownService), client.begin_dialog("nobody", COUNTING) as dialog:
            dialog.send(Add(amount=1))
        found = Page(generate_latest(registry))
    assert found.total("conversations_client_commands_appended_total", service=client.service_name) == 3
    assert found.total("conversations_client_commands_refused_total", service=client.service_name) == 1


# -- the read model ------------------------------------------------------------------------------------------------------


def test_the_read_model_tells_its_services_and_its_age(tmp_path: Path) -> None:
    now = time.time()
    since = int((now - 7_200) * 1_000_000)
    with File(tmp_path / "model.sqlite") as file:
        with file.transaction() as connection:
            for partition in (0, 1):
                place = ("conv.shop.state", partition, "shop", "state", "id", 40 + partition, int(now) - 60 * partition)
                connection.execute("INSERT INTO places VALUES (?,?,?,?,?,?,?)", place)
            for number in range(3):
                side = ("shop", 0, bytes([number]), "Orders", "bank", 1, 0, int(number == 2), 2, 4, 1, "key", 0)
                connection.execute("INSERT INTO sides VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", side)
            _add(connection, ("shop", 0), [bytes([number]) for number in range(3)], 1)
            head = (
                "shop",
                0,
                b"\0",
                "letter",
                "Order",
                "ValueError",
                "ValueError: no",
                since,
                None,
                3,
                0,
                None,
                "Orders",
                "bank",
                0,
                1,
            )
            connection.execute("INSERT INTO parked VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", head)
        assert b"_without_owner" not in exposition(of_services(file)), "it is not known"
        found = Page(exposition(of_services(file, {"shop": Unowned(1, 5)})))
    told = {it: found.total(f"conversations_service_{it}", service="shop") for it in WHAT}
    assert told == WHAT
    assert 7_200 <= found.total("conversations_service_oldest_wait_seconds") < 7_260
    assert found.total("conversations_read_model_offsets_total") == 81
    assert 60 <= found.total("conversations_read_model_behind_seconds") < 120


WHAT = {
    "records_without_owner": 5,
    "partitions": 2, "open_dialogs": 2, "pending_envelopes": 4, "delayed_envelopes": 2, "parked_records": 8, "held_messages": 1,
    "open_letters": 0, "queues_off": 0,
}  # fmt: skip
