"""Reader of Kafka's topics in Spark: between two times, between two sets of offsets, or as a stream.

All reads are ``read_committed``, so records of aborted transactions are never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from conversations.config import Kafka
from conversations.errors import LogError
from conversations.kafka.catalog import Catalog, read_catalog, with_topics
from conversations.protocol.topics import QUEUE, service_topic
from conversations_ops.console.times import instant
from spark_jobs.errors import SourceError

Moment = datetime | date | str
"""A point in time. Text is ISO 8601; without a time zone it is UTC."""

_JAVA_NAMES = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.key.password": "ssl.key.password",
}
_PEM = {"ssl.ca.location": "ssl.truststore.type", "ssl.certificate.location": "ssl.keystore.type"}
_SAME = {"security.protocol", "sasl.mechanism", "client.id", "client.rack", "ssl.endpoint.identification.algorithm"}
_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class Wire:
    """A namespace of a Kafka cluster; ``options`` are further options of Spark's Kafka source."""

    kafka: Kafka
    options: Mapping[str, str] = field(repr=False)
    """May contain passwords."""

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog of the namespace, with the services that have topics; read once.

        Raises:
            SourceError: Kafka does not answer, or the namespace has no catalog.
        """
        try:
            found = read_catalog(self.kafka)
            there = with_topics(self.kafka, found.services)
            return replace(found, services={name: found.services[name] for name in there})
        except LogError as error:
            raise SourceError(str(error)) from error

    def partitions(self, service: str) -> int:
        """Return the number of partitions of each topic of a service.

        Raises:
            SourceError: the catalog does not know the service.
        """
        count = self.catalog.partitions(service)
        if count is None:
            known = ", ".join(sorted(self.catalog.services)) or "none"
            raise SourceError(
                f"namespace {self.kafka.namespace!r} has no service {service!r}; it has: {known}. "
                "'conversations apply' writes a service to the catalog"
            )
        return count

    def talkers(self, service: str | None, contract: str | None) -> list[str]:
        """Return the names of the services whose queues have the dialogs of ``service``.

        These are ``service`` itself and the services that share a contract with it. Without ``service``, return all services. With
        ``contract``, return only services that have this contract.

        Raises:
            SourceError: the catalog does not know the service, or the service does not have the contract.
        """
        if service is not None:
            self.partitions(service)
        return talkers_among(self.catalog.services, service, contract)

    def queue(self, service: str) -> str:
        """Return the name of the topic of a service's queue."""
        return service_topic(self.kafka.namespace, service, QUEUE)

    def read(
        self, spark: SparkSession, topics: Iterable[str], since: Moment | None = None, until: Moment | None = None
    ) -> DataFrame:
        """Read topics as they are now: key, value, headers, topic, partition, offset, timestamp.

        ``since`` and ``until`` are log times. Without them the topics are read from the oldest to the newest committed record.
        """
        times = {"startingTimestamp": since, "endingTimestamp": until}
        given = {name: str(millis_of(moment)) for name, moment in times.items() if moment is not None}
        return spark.read.format("kafka").options(**self._options(topics), **given).load()

    def read_offsets(self, spark: SparkSession, start: str, end: str, topics: Iterable[str]) -> DataFrame:
        """Read topics between two sets of offsets, in the JSON of Spark's ``startingOffsets`` and ``endingOffsets``."""
        options = self._options(topics) | {"startingOffsets": start, "endingOffsets": end}
        return spark.read.format("kafka").options(**options).load()

    def stream(
        self, spark: SparkSession, topics: Iterable[str], since: Moment | None = None, most: int | None = None
    ) -> DataFrame:
        """Follow topics from ``since`` or the oldest record, with at most ``most`` records in a batch."""
        start = {"startingOffsets": "earliest"} if since is None else {"startingTimestamp": str(millis_of(since))}
        bound = {} if most is None else {"maxOffsetsPerTrigger": str(most)}
        return spark.readStream.format("kafka").options(**self._options(topics), **start, **bound).load()

    def _options(self, topics: Iterable[str]) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.kafka.bootstrap,
            "kafka.isolation.level": "read_committed",
            "subscribe": ",".join(topics),
            "includeHeaders": "true",
            # If the start time is later than the newest record of a partition, read none of the partition's records.
            "startingOffsetsByTimestampStrategy": "latest",
            **{f"kafka.{name}": value for name, value in java_settings(self.kafka.settings).items()},
            **self.options,
        }


def talkers_among(entries: Mapping[str, Mapping[str, Any]], service: str | None, contract: str | None) -> list[str]:
    """Return the names of the services among ``entries`` that ``Wire.talkers`` describes; ``entries`` has ``service``.

    Raises:
        SourceError: the service does not have the contract.
    """
    said = {name: {*entry.get("accepts", ()), *entry.get("initiates", ())} for name, entry in entries.items()}
    if service is None:
        return sorted(name for name, contracts in said.items() if contract is None or contract in contracts)
    shared = said[service] if contract is None else {contract} & said[service]
    if not shared:
        has = ", ".join(sorted(said[service])) or "none"
        raise SourceError(f"service {service!r} neither accepts nor initiates contract {contract!r}; it has: {has}")
    return sorted(name for name, contracts in said.items() if contracts & shared)


def java_settings(settings: Mapping[str, object]) -> dict[str, str]:
    """Translate the settings of librdkafka for a secured cluster to settings of Kafka's Java clients.

    Raises:
        SourceError: a setting has no translation; pass the setting of the Java client as an option.
    """
    given = {name: str(value) for name, value in settings.items()}
    user, password = given.pop("sasl.username", None), given.pop("sasl.password", None)
    found: dict[str, str] = {}
    for name, value in given.items():
        if name not in _SAME and name not in _JAVA_NAMES:
            raise SourceError(
                f"librdkafka's setting {name!r} has no translation for Spark's Kafka client: leave it out, and give the "
                "Java client's setting as an option kafka.<name>"
            )
        found[_JAVA_NAMES.get(name, name)] = value
        if name in _PEM:
            found[_PEM[name]] = "PEM"
    if user is not None:
        module = _LOGINS.get(found.get("sasl.mechanism", "PLAIN"))
        if module is None:
            raise SourceError(
                f"no Java login module is known for sasl.mechanisms={found['sasl.mechanism']}: give kafka.sasl.jaas.config as an option"
            )
        found["sasl.jaas.config"] = (
            f'{module} required username="{_quoted(user)}" password="{_quoted(password or "")}";'
        )
    return found


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def millis_of(moment: Moment) -> int:
    """Return a point in time as milliseconds since 1970.

    Raises:
        SourceError: the text is not a time.
    """
    if isinstance(moment, str):
        try:
            moment = instant(moment)
        except ValueError as error:
            raise SourceError(str(error)) from None
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - the zone follows
    at = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(at.timestamp() * 1000)
