"""One Spark session for all tests that need Spark, because a session takes seconds to start."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from py4j.protocol import Py4JError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from conversations.config import Kafka
from tests.spark.support.sessions import Sessions
from tests.spark.support.troubled_services import Troubles, make_troubles

PATIENCE = 300
"""Most seconds that a test with Spark may take. Its first query alone takes ten seconds on a busy machine."""

CRASHING = 10.0
"""Most seconds that a JVM takes to write its report."""
SESSIONS = pytest.StashKey[Sessions]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test of this folder a time limit of ``PATIENCE``, unless the test has its own limit."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE))


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Say how Spark's JVM ended, if it ended in a failed test. Let the loggers of PySpark's errors propagate again, before the next phase.

    At each error PySpark sets ``propagate`` of these loggers to False. Pytest adds its own handlers to such a logger. The logger
    would give them a formatter for JSON, and they would write JSON in all later tests.
    """
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).propagate = True
    sessions = item.config.stash.get(SESSIONS, None)
    # A JVM that crashes closes its connections, and then writes its report.
    is_cut_off = call.excinfo is not None and isinstance(call.excinfo.value, OSError | Py4JError)
    if is_cut_off and sessions is not None and (end := sessions.end(CRASHING)) is not None:
        item.add_report_section(call.when, "Spark", end)


@pytest.fixture(scope="session")
def sessions(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Sessions]:
    """Yield the owner of the only Spark session of a test run."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # All processes of a run share this folder. So a second owner fails here.
        (base.parent / "spark").touch(exist_ok=False)
    owner = pytestconfig.stash[SESSIONS] = Sessions(base)
    yield owner
    owner.stop()


@pytest.fixture
def spark(sessions: Sessions) -> SparkSession:
    """Return the Spark session, which is new if its JVM ended in an earlier test."""
    return sessions.current()


@pytest.fixture
def kafka(kafka_bootstrap: str) -> Kafka:
    """Return the address of Kafka, with a new namespace for this test."""
    return Kafka(kafka_bootstrap, namespace=f"s{uuid4().hex[:10]}")


@pytest.fixture(scope="session")
def troubles(kafka_bootstrap: str) -> Troubles:
    """Return the services in trouble, made once for the session. Tests only read them."""
    return make_troubles(Kafka(kafka_bootstrap, namespace=f"t{uuid4().hex[:10]}"))
