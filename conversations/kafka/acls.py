"""The rights that a cluster has granted to users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import admin as confluent_admin

from conversations.config import Kafka
from conversations.kafka.clients import REQUEST_TIMEOUT, make_admin

ANYBODY = "User:*"
"""Principal of a right that everybody has."""
_acl: Any = confluent_admin  # exported at run time, not in its types


def writers(kafka: Kafka, topics: Sequence[str]) -> dict[str, frozenset[str]] | None:
    """Return the principals that may write to each topic. Return None if the cluster grants no rights, or does not tell this client.

    A principal that is allowed on one pattern of names and denied on another may not write. Users of ``super.users`` are not known.
    """
    client = make_admin(kafka)
    found = {}
    for topic in topics:
        chosen = _acl.AclBindingFilter(
            _acl.ResourceType.TOPIC, topic, _acl.ResourcePatternType.MATCH, None, None,
            _acl.AclOperation.ANY, _acl.AclPermissionType.ANY,
        )  # fmt: skip
        try:
            rights = client.describe_acls(chosen, request_timeout=REQUEST_TIMEOUT).result()
        except KafkaException:
            return None  # no authorizer, or no right to ask, or no answer: then it is only a question that stays open
        may, may_not = (
            {
                it.principal
                for it in rights
                if it.permission_type == kind and it.operation in (_acl.AclOperation.WRITE, _acl.AclOperation.ALL)
            }
            for kind in (_acl.AclPermissionType.ALLOW, _acl.AclPermissionType.DENY)
        )
        found[topic] = frozenset(may - may_not if ANYBODY not in may_not else ())
    return found
