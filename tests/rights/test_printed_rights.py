"""The rights that ``conversations acl`` prints for a worker, on a Kafka that checks rights."""

import pytest

from conversations.protocol.declarations import ServiceDeclaration
from conversations_ops.operate.rights import rights_of
from tests.rights.support.restricted_service import RestrictedService

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_worker_is_printed_exactly_the_rights_that_are_tested(restricted: RestrictedService) -> None:
    """The other tests of this package show that these rights are enough, and that each one is needed."""
    clerk = restricted.service().declaration()
    peers = [ServiceDeclaration(name, initiates=clerk.accepts) for name in ("asker", "other")]
    printed = {
        (it.operation, it.resource.upper().replace("-", "_"), it.name + ("*" if it.pattern == "PREFIXED" else ""))
        for it in rights_of("worker", restricted.kafka.namespace, clerk, peers)
    }
    assert printed == set(restricted.rights)
