"""The rights that ``conversations acl`` prints for clients and readers: enough on a Kafka that checks rights, and each one needed."""

from datetime import timedelta

import pytest

from conversations import Client, Kafka, Reader, Service
from conversations.errors import ConversationError, LogError
from conversations_ops.operate.rights import rights_of
from tests.rights.support.authorizing_kafka import GuardedBroker, Right
from tests.rights.support.restricted_service import RestrictedService
from tests.rules.support.stepped_service import ASKING, Ask, Tally

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]

ASKER: Service[Tally] = Service("asker", initiates=[ASKING], state=Tally)


def printed(restricted: RestrictedService, role: str) -> list[Right]:
    return [
        (it.operation, it.resource.upper(), it.name)
        for it in rights_of(role, restricted.kafka.namespace, ASKER.declaration())
    ]


def use(restricted: RestrictedService, role: str) -> None:
    """Do the work of a role, with the login of a user who has only the granted rights."""
    login = GuardedBroker.login("stranger")
    kafka = Kafka(restricted.broker.guarded, namespace=restricted.kafka.namespace, settings=login)
    if role == "client":
        with (
            Client(ASKER, kafka, timeout=timedelta(seconds=5)) as client,
            client.begin_dialog("clerk", ASKING) as dialog,
        ):
            dialog.send(Ask(n=1))
    else:
        with Reader(ASKER, kafka) as reader:
            reader.dialog(Client.new_id())


@pytest.mark.parametrize("role", ["client", "reader"])
def test_the_rights_of_a_role_are_enough_and_each_is_needed(restricted: RestrictedService, role: str) -> None:
    rights = printed(restricted, role)
    restricted.broker.grant("stranger", rights)
    use(restricted, role)
    for right in rights:
        restricted.broker.take_away("stranger", [right])
        with pytest.raises((ConversationError, LogError)):
            use(restricted, role)
        restricted.broker.grant("stranger", [right])
