"""A real Kafka that authenticates its clients and checks their rights: SASL/PLAIN and the StandardAuthorizer."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from confluent_kafka import admin as confluent_admin
from confluent_kafka.admin import AdminClient

from conversations_ops.broker import EmbeddedBroker
from conversations_ops.broker.server import HOST
from conversations_ops.broker.sockets import free_ports
from tests.support import waiting

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
acl: Any = confluent_admin  # exported at run time, not in its types
until = partial(waiting.until, seconds=40)
USERS = ("clerk", "asker", "stranger")

Right = tuple[str, str, str]
"""An operation, a kind of resource, and the name of a resource. A name that ends with * is a prefix."""


class GuardedBroker(EmbeddedBroker):
    """A broker with two listeners. Clients of the first need no login and have all rights. Clients of the second log in, and have the granted rights."""

    def __init__(self) -> None:
        port, controller, guarded = free_ports(3)
        doors = f"PLAINTEXT://{HOST}:{port},SASL_PLAINTEXT://{HOST}:{guarded}"
        users = " ".join(f'user_{name}="{name}-password"' for name in USERS)
        super().__init__(
            port=port,
            settings={
                "listeners": f"{doors},CONTROLLER://{HOST}:{controller}",
                "advertised.listeners": doors,
                "controller.quorum.voters": f"1@{HOST}:{controller}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{LOGIN} required {users};",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
            },
        )
        self.guarded = f"{HOST}:{guarded}"
        """Address of the listener that requires a login."""

    @property
    def admin(self) -> AdminClient:
        """An admin client with all rights."""
        return AdminClient({"bootstrap.servers": self.bootstrap})

    @staticmethod
    def login(user: str) -> dict[str, Any]:
        """Return the librdkafka settings with which a client logs in as this user."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-password",
        }

    def grant(self, user: str, rights: Iterable[Right]) -> None:
        """Grant rights to a user. When this returns, the broker applies them."""
        client, chosen = self.admin, list(rights)
        for answer in client.create_acls([acl.AclBinding(*_bound(user, right)) for right in chosen]).values():
            answer.result()
        until(lambda: all(_found(client, user, right) for right in chosen), "the rights are known")

    def take_away(self, user: str, rights: Iterable[Right]) -> None:
        """Take rights away from a user. When this returns, the broker applies the change."""
        client, chosen = self.admin, list(rights)
        for answer in client.delete_acls([acl.AclBindingFilter(*_bound(user, right)) for right in chosen]).values():
            assert answer.result(), "there was no such right"
        until(lambda: not any(_found(client, user, right) for right in chosen), "the rights are gone")


def _found(client: AdminClient, user: str, right: Right) -> bool:
    return bool(client.describe_acls(acl.AclBindingFilter(*_bound(user, right))).result())


def _bound(user: str, right: Right) -> tuple[Any, ...]:
    operation, kind, name = right
    pattern = acl.ResourcePatternType.PREFIXED if name.endswith("*") else acl.ResourcePatternType.LITERAL
    return (
        acl.ResourceType[kind],
        name.removesuffix("*"),
        pattern,
        f"User:{user}",
        "*",
        acl.AclOperation[operation],
        acl.AclPermissionType.ALLOW,
    )
