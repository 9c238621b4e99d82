"""Checks of what this client's user may do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conversations_ops.doctor.facts import Facts
from conversations_ops.doctor.findings import Check, Hit, Severity
from conversations_ops.operate.rights import Right, rights_of

ACL = "conversations acl {targets} --service {service} --role {role} --namespace {namespace} --commands"
OF_SERVICES = ("worker", "client", "reader")
"""Roles that are looked at unasked: those of programs of services. People and jobs ask for their own with ``--role``."""
WITHOUT_IT = "Brokers refuse what the role needs."


def _lacking(facts: Facts, role: str) -> Iterator[tuple[str, Right]]:
    """Yield the rights on topics that this client lacks for a role, with their services. Kafka does not tell other rights without a write."""
    known = [it.declaration for it in facts.namespace.services.values()]
    for declaration in known:
        for right in rights_of(role, facts.namespace.name, declaration, known):
            topic = facts.namespace.topics.get(right.name)
            lacks = right.name in facts.namespace.hidden or (
                topic is not None and topic.rights is not None and right.operation not in topic.rights
            )
            if right.resource == "topic" and lacks:
                yield declaration.name, right


def _of_roles(*, asked: bool) -> Callable[[Facts], Iterator[Hit]]:
    """Return a look at the roles that this client must have, or at the other roles of services."""

    def look(facts: Facts) -> Iterator[Hit]:
        for role in facts.roles if asked else OF_SERVICES:
            if not asked and role in facts.roles:
                continue
            for service, right in _lacking(facts, role):
                words = {"service": service, "role": role}
                yield Hit(
                    right.name, f"the user of this client may not {right.operation}",
                    f"{right.operation}, with which the {role} of {service} {right.why}", words,
                )  # fmt: skip

    return look


def _open_to_all(facts: Facts) -> Iterator[Hit]:
    names = [(it.settings or {}).get("authorizer.class.name") for it in facts.cluster.brokers]
    if names and all(name == "" for name in names):
        yield Hit("the cluster", "authorizer.class.name is not set", "an authorizer, outside of development")


CHECKS = (
    Check("right-missing", Severity.FATAL, WITHOUT_IT, ACL, _of_roles(asked=True)),
    Check("right-of-another-role", Severity.NOTE, "It matters only for a client with this role. With --role, it is fatal.", ACL, _of_roles(asked=False)),
    Check(
        "no-authorizer", Severity.NOTE, "Everybody who reaches a broker may read and write everything.",
        "set authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer in server.properties of each broker", _open_to_all,
    ),
)  # fmt: skip
"""The checks of rights."""
