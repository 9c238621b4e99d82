"""One Spark session for all tests that need one: it takes seconds to start."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from conversations.config import Kafka
from spark_jobs.session import spark_session
from tests.spark.troubles import Troubles, make_troubles


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = spark_session("tests", cores=2, settings={"spark.ui.showConsoleProgress": "false"})
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
