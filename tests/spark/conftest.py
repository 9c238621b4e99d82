"""One Spark session for all tests that need one: it takes seconds to start."""

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
"""Seconds a test with Spark may take: its first query alone takes ten on a busy machine."""

SMALL = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For a few rows compiling a query takes longer than carrying it out. Jobs that tests start as programs do compile."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test of this folder that time, unless it says otherwise."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE))


def pytest_runtest_makereport() -> None:
    """Let the loggers of PySpark's errors propagate again, before the test's next phase.

    PySpark stops them at each error. Pytest adds its handlers to a stopped logger, and these loggers make a handler
    write JSON, for all tests to come.
    """
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).propagate = True


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of a test run: a second process that made one would take a core and two gigabytes from the others."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        (base.parent / "spark").touch(exist_ok=False)  # the folder that all processes of a run share
    session = spark_session("tests", cores=2, settings=SMALL)
    yield session
    session.stop()


@pytest.fixture
def kafka(kafka_bootstrap: str) -> Kafka:
    """A namespace of its own."""
    return Kafka(kafka_bootstrap, namespace=f"s{uuid4().hex[:10]}")


@pytest.fixture(scope="session")
def troubles(kafka_bootstrap: str) -> Troubles:
    """Services in trouble; tests only look at them."""
    return make_troubles(Kafka(kafka_bootstrap, namespace=f"t{uuid4().hex[:10]}"))
