"""A real Kafka that authenticates its clients and checks their rights: SASL/PLAIN, with and without TLS, and the StandardAuthorizer."""

import subprocess
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import admin as confluent_admin
from confluent_kafka.admin import AdminClient

from conversations import Kafka
from conversations_ops.broker import EmbeddedBroker
from conversations_ops.broker.java import find_java
from conversations_ops.broker.server import HOST
from tests.support import waiting
from tests.support.ports import KeptPorts

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
acl: Any = confluent_admin  # exported at run time, not in its types
until = partial(waiting.until, seconds=40)
USERS = ("clerk", "asker", "stranger")

Right = tuple[str, str, str]
"""An operation, a kind of resource, and the name of a resource. A name that ends with * is a prefix."""
SECRET = "of-the-key-store"


class Certificate:
    """A certificate for the address of the broker, and its key, in the folder ``directory``. Java's keytool makes both."""

    def __init__(self, directory: Path) -> None:
        self.store, self.public = directory / "broker.p12", directory / "broker.pem"
        keytool = str(find_java().path.resolve().parent / "keytool")
        place = ["-alias", "broker", "-keystore", str(self.store), "-storetype", "PKCS12", "-storepass", SECRET]
        subject = [
            "-dname",
            "CN=broker",
            "-ext",
            f"SAN=ip:{HOST}",
            "-keyalg",
            "RSA",
            "-keysize",
            "2048",
            "-validity",
            "2",
        ]
        for command in (["-genkeypair", *subject], ["-exportcert", "-rfc", "-file", str(self.public)]):
            subprocess.run([keytool, *command, *place], check=True, capture_output=True, timeout=60)


class GuardedBroker(EmbeddedBroker):
    """A broker with three listeners. Clients of the first need no login and have all rights.

    Clients of the other two log in, and have the granted rights. The third has TLS too.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.certificate = Certificate(Path(self._folder.name))
        self._ports = KeptPorts(4)
        port, controller, guarded, secure = self._ports.numbers
        doors = f"PLAINTEXT://{HOST}:{port},SASL_PLAINTEXT://{HOST}:{guarded},SASL_SSL://{HOST}:{secure}"
        users = " ".join(f'user_{name}="{name}-password"' for name in USERS)
        login = f"{LOGIN} required {users};"
        super().__init__(
            port=port,
            settings={
                "listeners": f"{doors},CONTROLLER://{HOST}:{controller}",
                "advertised.listeners": doors,
                "controller.quorum.voters": f"1@{HOST}:{controller}",
                "listener.security.protocol.map": ",".join(
                    ("CONTROLLER:PLAINTEXT", *(f"{it}:{it}" for it in ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")))
                ),
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
                "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
                "listener.name.sasl_ssl.ssl.keystore.type": "PKCS12",
                "listener.name.sasl_ssl.ssl.keystore.location": str(self.certificate.store),
                "listener.name.sasl_ssl.ssl.keystore.password": SECRET,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
            },
        )
        self.guarded = f"{HOST}:{guarded}"
        """Address of the listener that requires a login."""
        self.secure = f"{HOST}:{secure}"
        """Address of the listener that requires a login, over TLS."""

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._ports.close()
        self._folder.cleanup()

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

    def secure_login(self, user: str) -> dict[str, Any]:
        """Return the librdkafka settings with which a client logs in as this user over TLS, and checks the certificate of the broker."""
        return {
            **self.login(user),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificate.public),
        }

    def secured(self, user: str, namespace: str) -> Kafka:
        """Return the address of this Kafka for a user that logs in over TLS."""
        return Kafka(self.secure, namespace=namespace, settings=self.secure_login(user))

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
