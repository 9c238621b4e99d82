"""The table of least rights, without Kafka."""

from conversations.protocol.declarations import ServiceDeclaration
from conversations_ops.operate.rights import command_of, peers_of, rights_of

ASKING = {"asking": {"initiator": ["Ask"], "target": ["Answer"]}}
CLERK = ServiceDeclaration("clerk", accepts=ASKING, retries=["5s"], publishes=["bills"], reads=["orders"])
ASKER = ServiceDeclaration("asker", initiates=ASKING)
STRANGER = ServiceDeclaration("stranger")


def test_a_worker_writes_only_to_the_queues_of_those_with_whom_it_shares_a_contract() -> None:
    assert peers_of(CLERK, [ASKER, STRANGER, CLERK]) == ["asker"]
    queues = {it.name for it in rights_of("worker", "conv", CLERK, [ASKER, STRANGER]) if it.name.endswith(".queue")}
    assert queues == {"conv.clerk.queue", "conv.asker.queue"}


def test_a_service_that_talks_to_itself_writes_its_own_queue() -> None:
    both = ServiceDeclaration("both", accepts=ASKING, initiates=ASKING)
    assert ("conv.both.queue", "WRITE") in {(it.name, it.operation) for it in rights_of("worker", "conv", both)}


def test_the_rights_of_plain_topics_and_retries_are_there() -> None:
    rights = {(it.resource, it.name, it.operation) for it in rights_of("worker", "conv", CLERK)}
    assert {
        ("topic", "conv.clerk.retry.5s", "WRITE"),
        ("topic", "bills", "WRITE"),
        ("topic", "orders", "READ"),
        ("group", "conv.clerk.from~orders", "READ"),
    } <= rights


def test_a_command_quotes_the_words_from_outside() -> None:
    line = command_of(rights_of("client", "conv", CLERK)[1], "User:a b")
    assert "'User:a b'" in line
    assert "--topic conv.clerk.commands --resource-pattern-type literal" in line
