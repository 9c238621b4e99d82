"""docker-compose.yml: it follows the schema of Compose, and says nothing that the product or the embedded broker does not have.

No Docker engine is needed. So no test of this file starts a container.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.running.support import compose_checks as checks
from tests.running.support.planting import GONE, planted
from tests.running.support.product import documents
from tests.support.documents import ROOT, block

(COMPOSE,) = documents("docker-compose.yml")


@pytest.mark.parametrize("check", checks.CHECKS)
def test_the_compose_file_is_right(check: Callable[[checks.Found], Iterator[str]]) -> None:
    assert list(check(COMPOSE)) == []


@pytest.mark.parametrize(
    ("check", "path", "value", "said"),
    [
        (checks.follows_the_schema, "services/kafka/imagee", "x", "imagee"),
        (checks.starts_kafka_alone, "services/console/profiles", GONE, "kafka, console would start"),
        (checks.has_images, "services/grafana/image", "grafana/grafana", "tag of a version"),
        (checks.has_images, "services/console/image", "kafka-dialogs:0.0.9", "not that of the package"),
        (checks.has_images, "services/console/build/target", "spark", "no stage spark for"),
        (checks.has_images, "services/kafka/image", "apache/kafka:4.0.0", "not that of the embedded broker"),
        (checks.has_the_settings_of_the_embedded_broker, "services/kafka/environment/KAFKA_NUM_PARTITIONS", 1, "is 1, and 4"),
        (checks.has_the_settings_of_the_embedded_broker, "services/kafka/environment/KAFKA_NUM_IO_THREADS", GONE, "is None, and 4"),
        (checks.runs_commands_that_exist, "services/demo-workers/command/3", "--worker", "No such option"),
        (checks.runs_commands_that_exist, "services/spark-audit/command/1", "delivery-adit", "delivery-adit"),
        (checks.runs_commands_that_exist, "services/demo-flights/entrypoint/2", "conversations_ops.demo.flows", "no module"),
        (checks.names_variables_that_exist, "services/console/environment/CONVERSATIONS_TOKEN", "x", "no variable"),
        (checks.names_variables_that_exist, "services/console/environment/CONVERSATIONS_BOOTSTRAP", "kafka:9092", "no listener"),
        (checks.has_images, "services/kafka-hangar/image", "apache/kafka:4.0.0", "kafka-hangar: the version is not that"),
        (checks.has_kafkas_of_their_own, "services/kafka-hangar/environment/CLUSTER_ID", "a2Fma2EtZGlhbG9ncy1kZQ", "belongs to kafka"),
        (checks.has_kafkas_of_their_own, "services/kafka-hangar/volumes/0", "kafka-data:/var/lib/kafka/data", "kafka-data belongs to"),
        (checks.has_kafkas_of_their_own, "services/kafka-hangar/ports/0", "127.0.0.1:9096:9092", "clients of port 9096 to localhost:9095"),
        (checks.has_a_forwarder_on_each_way, "services/forward-home/command/1", "hangar", "no forwarder carries from kafka-hangar:19092 to home"),
        (checks.has_a_forwarder_on_each_way, "services/forward-home/command/1", "hangar", "no route of kafka-hangar:19092 leads to hangar"),
        (checks.has_a_forwarder_on_each_way, "services/two-route-home/command/6", "kafka:9092", "no other Kafka is at kafka:9092"),
        (checks.has_a_forwarder_on_each_way, "services/two-route-home/command/6", "kafka:9092", "no way leads back from kafka-hangar:19092"),
        (checks.names_variables_that_exist, "services/two-aircraft-log/environment/CONVERSATIONS_BOOTSTRAP", "localhost:9095", "no listener"),
        (checks.publishes_ports_that_are_open, "services/demo-workers/ports/0", "8080:8080:8080", "open to the network"),
        (checks.publishes_ports_that_are_open, "services/demo-workers/ports/0", "127.0.0.1:9090:8080", "belongs to"),
        (checks.publishes_ports_that_are_open, "services/demo-workers/ports/0", "127.0.0.1:8080:8081", "does not listen on port 8081"),
        (checks.publishes_ports_that_are_open, "services/console/command/2", "127.0.0.1:8080", "does not listen on port 8080"),
        (checks.publishes_ports_that_are_open, "services/kafka/healthcheck/test/3", "localhost:9999", "asks port 9999"),
        (checks.scrapes_what_is_there, "services/prometheus/command/0", "--config.file=/etc/prometheus/x.yml", "no file x.yml"),
        (checks.scrapes_what_is_there, "services/console/command/2", "0.0.0.0:8081", "nothing listens on console:8080"),
        (checks.mounts_what_is_there, "services/grafana/volumes/0", "./ops/grafana/x.yml:/x:ro", "no file ./ops/grafana/x.yml"),
        (checks.mounts_what_is_there, "services/grafana/volumes/2", "./ops/grafana:/x", "can be written"),
        (checks.mounts_what_is_there, "services/console/volumes/0", "consol:/x", "no volume consol"),
        (checks.mounts_what_is_there, "volumes/unused", None, "nobody uses"),
        (checks.waits_for_what_starts, "services/grafana/depends_on/0", "prom", "no service prom"),
        (checks.waits_for_what_starts, "services/grafana/depends_on/0", "console", "does not start with it"),
        (checks.waits_for_what_starts, "services/demo-workers/healthcheck", {"disable": True}, "has no health check"),
        (checks.is_confined, "services/console/read_only", False, "rights that it does not need"),
        (checks.is_confined, "services/demo-workers/stop_grace_period", "15s", "s to stop"),
    ],
)  # fmt: skip
def test_a_fault_in_the_compose_file_is_found(
    check: Callable[[checks.Found], Iterator[str]], path: str, value: Any, said: str
) -> None:
    assert said in "\n".join(check(planted(COMPOSE, path, value)))


def test_every_check_is_seen_to_find_a_fault() -> None:
    (mark,) = test_a_fault_in_the_compose_file_is_found.pytestmark
    assert {case[0] for case in mark.args[1]} == set(checks.CHECKS)


def test_the_profiles_of_the_page_about_deployment_are_there() -> None:
    """And so are those in the comment of the file."""
    here = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    there = {profile for it in COMPOSE["services"].values() for profile in it.get("profiles", [])}
    assert set(re.findall(r"--profile ([\w-]+)", here + page)) == there
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)) == there
    assert set(re.findall(r"^#   (\S+) +\S", here, re.MULTILINE)) == there
    assert set(re.findall(r"run --rm (\S+)", block("docs/deployment.md 3"))) <= set(COMPOSE["services"])
