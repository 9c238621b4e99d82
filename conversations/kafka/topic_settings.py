"""Settings of topics: set when a topic is created, corrected by ``apply``, and checked before a worker uses the topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported at run time, not in its types
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from conversations.config import Kafka, Periods
from conversations.durations import milliseconds
from conversations.errors import LogError
from conversations.kafka.clients import REQUEST_TIMEOUT, log, translated
from conversations.protocol.topics import COMMANDS, DEAD_LETTER, DECISIONS, INPUTS, QUEUE, RETRY, STATE, TRANSMISSION

MICROSECOND = timedelta(microseconds=1)
LARGEST_RECORD = 2 * 1024 * 1024
"""``max.message.bytes`` of every topic: the largest record that ``protocol.limits`` allows, and room for Kafka's own fields."""
# Every topic sets these settings explicitly, because a cluster may have other defaults. With LogAppendTime the broker dates
# all records. With CreateTime a broker would refuse records that a worker dates far ahead. No reader needs the time of the writer's clock.
_EVERY: Mapping[str, object] = {
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": LARGEST_RECORD,
    "unclean.leader.election.enable": "false",
}
_BY_TIME: Mapping[str, object] = {**_EVERY, "cleanup.policy": "delete", "retention.bytes": -1}
# With compression.type=uncompressed, a broker compares the decompressed size with its limit. With every other type, a
# broker accepts 20 MB that are compressed into 20 KB.
_INBOX = {**_BY_TIME, "compression.type": "uncompressed"}
SETTINGS: Mapping[str, Mapping[str, object]] = {
    QUEUE: _INBOX,
    COMMANDS: _INBOX,
    DECISIONS: _INBOX,
    DEAD_LETTER: {**_BY_TIME},
    STATE: {
        **_EVERY,
        "cleanup.policy": "compact",
        "segment.bytes": 64 * 1024 * 1024,
        "min.cleanable.dirty.ratio": 0.2,
    },
    RETRY: {**_BY_TIME},
    TRANSMISSION: _INBOX,
    "forwarded": {**_EVERY, "cleanup.policy": "compact"},
    "catalog": {**_EVERY, "cleanup.policy": "compact"},
    "events": {**_BY_TIME},
    "operators": {**_EVERY, "cleanup.policy": "compact,delete", "retention.bytes": -1},
    # The topic is compacted, so that new values of a minute replace the old values of the same minute. Records are also
    # deleted by age, because each minute has new keys.
    "metrics": {
        **_EVERY,
        "cleanup.policy": "compact,delete",
        "retention.bytes": -1,
    },
}
"""Settings by kind of topic."""
TIMES: Mapping[str, Mapping[str, str]] = {
    QUEUE: {"retention.ms": "inbox_kept"},
    COMMANDS: {"retention.ms": "inbox_kept"},
    DECISIONS: {"retention.ms": "inbox_kept"},
    DEAD_LETTER: {"retention.ms": "letter_life"},
    STATE: {"segment.ms": "state_segment", "delete.retention.ms": "deletes_kept"},
    RETRY: {"retention.ms": "retries_kept"},
    TRANSMISSION: {"retention.ms": "inbox_kept"},
    "forwarded": {"delete.retention.ms": "deletes_kept"},
    "catalog": {"delete.retention.ms": "deletes_kept"},
    "events": {"retention.ms": "events_kept"},
    "operators": {"retention.ms": "operators_kept", "delete.retention.ms": "deletes_kept"},
    "metrics": {"retention.ms": "metrics_kept", "delete.retention.ms": "deletes_kept"},
}
"""Settings that are periods, by kind of topic: the setting's name, and the name of its period."""

_AT_LEAST = frozenset({"retention.ms", "retention.bytes", "delete.retention.ms", "max.message.bytes"})
"""Settings whose value may safely be larger than needed. For these settings, -1 means "no limit"."""
_TUNING = frozenset({"segment.ms", "segment.bytes", "min.cleanable.dirty.ratio"})
"""Settings that only affect speed. They are set when a topic is created. Later the operator may choose other values."""
_ALWAYS_SERIOUS = frozenset({"cleanup.policy", "message.timestamp.type"})


@dataclass(frozen=True)
class Deviation:
    """A setting of a topic that does not have its needed value."""

    topic: str
    setting: str
    value: str
    needed: str

    @property
    def asked(self) -> str:
        """The needed value, with "at least" if it is a lower bound."""
        return f"{'at least ' if self.setting in _AT_LEAST and self.needed != '-1' else ''}{self.needed}"

    def __str__(self) -> str:
        return f"{self.topic}: {self.setting} is {self.value or 'not set'} and must be {self.asked}"


class Asked(NamedTuple):
    """The facts that determine the settings of a topic."""

    kind: str
    lifetime: timedelta
    """Longest lifetime of the service's dialogs. Dialogs with an unlimited lifetime do not count."""
    periods: Periods


def wanted(kind: str, lifetime: timedelta = timedelta(0), periods: Periods | None = None) -> dict[str, str]:
    """Return the wanted settings of a topic, as Kafka writes them. ``lifetime`` is the longest lifetime of its service's dialogs."""
    periods = periods or Periods()
    times = {name: milliseconds(getattr(periods, period)) for name, period in TIMES[kind].items()}
    if kind in INPUTS:
        spare = milliseconds(periods.grace)  # ``needed`` does not require this part
        times["retention.ms"] = max(times["retention.ms"], _remembered(lifetime, periods) + spare)
    return {name: str(value) for name, value in {**SETTINGS[kind], **times}.items()}


def needed(kind: str, lifetime: timedelta, periods: Periods) -> dict[str, str]:
    """Return the settings that a worker needs to work safely."""
    asked = wanted(kind, lifetime, periods)
    least = {name: value for name, value in asked.items() if name in _ALWAYS_SERIOUS}
    if kind in INPUTS:
        least["retention.ms"] = str(_remembered(lifetime, periods))
    if kind in {STATE, DEAD_LETTER}:
        least["max.message.bytes"] = str(LARGEST_RECORD)  # they must accept every record that the queue accepts
    if kind == STATE:
        least["delete.retention.ms"] = asked["delete.retention.ms"]
    return least


def _remembered(lifetime: timedelta, periods: Periods) -> int:
    """Return the milliseconds for which a record of an input may be needed."""
    longest = max(lifetime // MICROSECOND, periods.lifetime, periods.command_life, periods.clock_ahead)
    return milliseconds(longest + periods.grace)


def deviations(topic: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> list[Deviation]:
    """Return the settings that differ from the wanted ones. A larger value is no deviation if the setting is in ``_AT_LEAST``."""
    return [
        Deviation(topic, name, found.get(name, ""), value)
        for name, value in wanted.items()
        if not _suffices(name, found.get(name, ""), value)
    ]


def tuning(setting: str) -> bool:
    """Return True if a setting only affects speed, so that operators may choose another value."""
    return setting in _TUNING


def _suffices(name: str, found: str, wanted: str) -> bool:
    if name not in _AT_LEAST:
        return _words(found) == _words(wanted)
    try:
        have, need = int(found), int(wanted)
    except ValueError:
        return False
    return have == -1 or (need != -1 and have >= need)


def _words(value: str) -> set[str]:
    return {word.strip() for word in value.lower().split(",")}


def read_settings(admin: AdminClient, kafka: Kafka, topics: list[str]) -> dict[str, dict[str, str] | None]:
    """Return the settings of topics. The value is None if a topic does not exist, or if the right to read its settings is missing.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: Kafka refused.
    """
    if not topics:
        return {}
    asked = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    found: dict[str, dict[str, str] | None] = {}
    for resource, future in admin.describe_configs(asked, request_timeout=REQUEST_TIMEOUT).items():
        try:
            found[resource.name] = {name: entry.value or "" for name, entry in future.result().items()}
        except KafkaException as failure:
            if failure.args[0].code() not in {
                KafkaError.TOPIC_AUTHORIZATION_FAILED,
                KafkaError.CLUSTER_AUTHORIZATION_FAILED,
                KafkaError.UNKNOWN_TOPIC_OR_PART,
            }:
                raise translated(kafka, f"settings of {resource.name} cannot be read", failure) from failure
            found[resource.name] = None
    return found


def bring(admin: AdminClient, kafka: Kafka, topics: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Correct the settings of existing topics; return a line for each change.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: Kafka refused the change, or the right to read the settings is missing.
    """
    lines: list[str] = []
    for topic, found in read_settings(admin, kafka, list(topics)).items():
        if found is None:
            raise LogError(
                f"settings of {topic} cannot be read: the right to describe and alter its configuration is missing"
            )
        # Tuning is the operator's choice, so only the other settings are corrected.
        need = {name: value for name, value in topics[topic].items() if name not in _TUNING}
        wrong = deviations(topic, found, need)
        _alter(admin, kafka, topic, wrong)
        lines += [
            f"changed {each.setting} of topic {topic} from {each.value or 'nothing'} to {each.needed}" for each in wrong
        ]
    return lines


def _alter(admin: AdminClient, kafka: Kafka, topic: str, wrong: list[Deviation]) -> None:
    if not wrong:
        return
    entries = [ConfigEntry(each.setting, each.needed, incremental_operation=AlterConfigOpType.SET) for each in wrong]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    try:
        admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT)[resource].result()
    except KafkaException as failure:
        raise translated(kafka, f"settings of {topic} cannot be changed", failure) from failure


def verify(admin: AdminClient, kafka: Kafka, topics: Mapping[str, Asked]) -> dict[str, int]:
    """Check the settings of the topics that a worker uses. A setting that is unwise but safe is logged as a warning.

    Return ``delete.retention.ms`` by topic, for the topics whose value is known.

    Raises:
        KafkaUnreachable: no broker answered.
        LogError: a setting is unsafe. The message names the topic, the setting, its value, the needed value and the command that sets it.
    """
    serious: list[Deviation] = []
    deletes: dict[str, int] = {}
    for topic, found in read_settings(admin, kafka, list(topics)).items():
        if found is None:
            log.warning("settings of %s cannot be looked at: the right to describe its configuration is missing", topic)
            continue
        wrong = deviations(topic, found, needed(*topics[topic]))
        serious += wrong
        named = {each.setting for each in wrong}
        for each in deviations(topic, found, wanted(*topics[topic])):
            if each.setting not in named | _TUNING:
                log.warning("%s; 'conversations apply' sets it", each)
        if (kept := found.get("delete.retention.ms", "")).isdigit():
            deletes[topic] = int(kept)
    if serious:
        raise LogError(f"{'; '.join(map(str, serious))}: run 'conversations apply', which sets it")
    return deletes
