"""The rights that ``conversations acl`` prints for Spark: enough on a Kafka that checks rights, over TLS, and each one needed."""

from collections.abc import Iterator

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conversations.protocol.declarations import ServiceDeclaration
from conversations_ops.operate.rights import rights_of
from spark_jobs.delivery_audit import audit
from spark_jobs.errors import SparkJobError
from spark_jobs.reading.clusters import clusters
from spark_jobs.reading.wire import Wire
from spark_jobs.running.command_line import Result
from tests.rights.support.authorizing_kafka import GuardedBroker, Right
from tests.rights.support.restricted_service import RestrictedService
from tests.rules.support.stepped_service import Asking

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

USER = "stranger"
REFUSALS = (SparkJobError, PySparkException, Py4JJavaError)


@pytest.fixture
def restricted() -> Iterator[RestrictedService]:
    """Return a service on a broker that checks rights. It has answered a question, and set a record aside: every topic that Spark reads has a record."""
    with GuardedBroker() as broker:
        restricted = RestrictedService(broker)
        try:
            restricted.append("queue", 0, (b"k", b"nothing of ours", []))
            Asking(restricted).ask(1)
            restricted.answered(restricted.open(restricted.guarded_worker()), 1)
            yield restricted
        finally:
            restricted.close()


def test_spark_needs_its_rights(spark: SparkSession, restricted: RestrictedService) -> None:
    """A right to read is replaced by the right to describe, so that the reading itself fails.

    A job looks for the topics of all services of the namespace. The rights on one service are taken away.
    """
    broker, namespace = restricted.broker, restricted.kafka.namespace

    def printed(service: ServiceDeclaration) -> list[Right]:
        return [(it.operation, it.resource.upper(), it.name) for it in rights_of("spark", namespace, service)]

    rights = printed(restricted.service().declaration())
    for other in ("asker", "other"):
        broker.grant(USER, printed(ServiceDeclaration(other)))

    def look() -> Result:
        return audit(spark, clusters(Wire(restricted.secured(USER), {}), {}), "clerk")

    broker.grant(USER, rights)
    assert look().data["totals"]["dialogs"] == 1  # type: ignore[index]  # the data of a job is whatever it prints
    for right in rights:
        _, kind, name = right
        broker.take_away(USER, [right])
        if right[0] == "READ":
            broker.grant(USER, [("DESCRIBE", kind, name)])
        with pytest.raises(REFUSALS, match=r"(?i)authorization|not authorized"):
            look()
        broker.grant(USER, [right])
