"""`conversations doctor` and `apply` on three real brokers with Kafka's default of one replica in sync."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conversations_ops.cli.app import app
from tests.chaos.cluster import nodes as cluster_nodes
from tests.chaos.cluster.nodes import Nodes
from tests.chaos.cluster.proxy import Proxy
from tests.support.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(480)]
TARGET = "tests.acceptance.services.fragile:fragile"


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    monkeypatch.setitem(cluster_nodes.REPLICATED, "min.insync.replicas", "1")
    with closing(Nodes(tmp_path / "nodes")) as made, Proxy(made.routes()):
        made.start_all()
        yield made


def test_three_brokers_are_fit_and_a_broker_that_is_down_is_noticed(nodes: Nodes, tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, Any]:
        where = ["--bootstrap", nodes.bootstrap, "--json"]
        done = CliRunner().invoke(app, [*arguments, *where], env={"CONVERSATIONS_CACHE": str(tmp_path)})
        return done.exit_code, json.loads(done.stdout)

    def names() -> set[str]:
        return {it["name"] for it in run("doctor", TARGET)[1].get("findings", ())}

    def applied() -> bool:  # a cluster that has just begun may need to be asked twice
        return run("apply", TARGET, "--partitions", "2")[0] == 0

    until(applied, "the topics are made", 120, pause=1)
    # The topics have two replicas in sync, although the default of the brokers is one. Kafka's own topic of offsets has the default.
    until(lambda: names() == {"offsets-min-isr", "no-authorizer"}, "all replicas are in sync", pause=1)
    nodes.kill("3")
    until(lambda: {"under-replicated", "few-brokers"} <= names(), "the broker is missed", pause=1)
