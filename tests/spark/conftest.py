"""One Spark session for all tests that need Spark, because a session takes seconds to start."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from conversations.config import Kafka
from spark_jobs.running.session import spark_session
from tests.spark.support.troubled_services import Troubles, make_troubles

PATIENCE = 300
"""Most seconds that a test with Spark may take. Its first query alone takes ten seconds on a busy machine."""

SMALL = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings that turn off the compilation of queries. With few rows, it takes longer than the query. Jobs that tests start as programs compile."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test of this folder a time limit of ``PATIENCE``, unless the test has its own limit."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE))


def pytest_runtest_makereport() -> None:
    """Let the loggers of PySpark's errors propagate again, before the test's next phase.

    At each error PySpark sets ``propagate`` of these loggers to False. Pytest adds its own handlers to such a logger. The logger
    would give them a formatter for JSON, and they would write JSON in all later tests.
    """
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).propagate = True


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield the only Spark session of a test run. A second session, in another process, would take a core and two gigabytes of memory."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # All processes of a run share this folder. So a second session fails here.
        (base.parent / "spark").touch(exist_ok=False)
    session = spark_session("tests", cores=2, settings=SMALL)
    yield session
    session.stop()


@pytest.fixture
def kafka(kafka_bootstrap: str) -> Kafka:
    """Return the address of Kafka, with a new namespace for this test."""
    return Kafka(kafka_bootstrap, namespace=f"s{uuid4().hex[:10]}")


@pytest.fixture(scope="session")
def troubles(kafka_bootstrap: str) -> Troubles:
    """Return the services in trouble, made once for the session. Tests only read them."""
    return make_troubles(Kafka(kafka_bootstrap, namespace=f"t{uuid4().hex[:10]}"))
