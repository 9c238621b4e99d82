"""The causes for which a dialog stalls, from facts."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from conversations import Kafka
from conversations.errors import KafkaUnreachable
from conversations.protocol.command import Failed
from conversations.protocol.parked import Parked
from conversations.protocol.states import State
from conversations_ops.cli.app import app
from conversations_ops.cli.clusters import There, complete_at, everywhere, exit_for, unread_lines
from conversations_ops.cli.kafka_options import Options, complete
from conversations_ops.console.exit_codes import Exit
from conversations_ops.operate.dialogs import Closed, Pile, Side, Waits, queue_up
from conversations_ops.operate.queues import Queue
from conversations_ops.read_model.letters import Group, Reasons
from conversations_ops.read_model.peers import PeerWait
from conversations_ops.why.across import causes_across, sides_of
from conversations_ops.why.cause import TABLE, Cause, next_command
from conversations_ops.why.causes import NEAR, causes, headline
from conversations_ops.why.facts import Facts, Unacknowledged, Way
from conversations_ops.why.service import causes_of_service

KAFKA = Kafka("localhost:9092", namespace="shop")
NOW = 1_000_000_000_000
ID = bytes(range(16))


def side(**changed: Any) -> Side:
    """The target's side of a dialog between loans and credit, at which nothing stalls."""
    it = Side(
        "credit",
        2,
        ID,
        False,
        State.CONVERSING,
        "key",
        "",
        1,
        3,
        0,
        0,
        0,
        contract="Checks",
        peer="loans",
        acknowledged=1,
    )
    return replace(it, **changed)


def head(**changed: Any) -> Parked:
    it = Parked(
        "credit.queue-2-17", "credit", "id", False, "key", "Checks", "loans", Failed.MESSAGE, 2, "Check", b"", 4, NOW - 5, None, 3, 0,
        "KeyError: 'score'", 1,
    )  # fmt: skip
    return it._replace(**changed)


def facts(*sides: Side, **changed: Any) -> Facts:
    queues = {
        (name, number): Queue(name, number, "", 0, "", "", 0, 0, 0)
        for name in ("loans", "credit")
        for number in range(3)
    }
    everything = frozenset(range(3))
    known = Facts(
        KAFKA,
        sides,
        queues,
        {"loans": everything, "credit": everything},
        {},
        {},
        {},
        frozenset({"loans", "credit"}),
        (),
        NOW,
    )
    return replace(known, **changed)


def found(given: Facts) -> dict[str, Cause]:
    told = causes(given, lambda at: f"<{at - NOW}>")
    return {it.name: it for it in told}


def piled(records: int) -> Pile:
    return Pile(records, records)


def test_a_dialog_that_goes_on_has_no_cause() -> None:
    assert found(facts(side())) == {}
    assert found(facts(side(closed=Closed(told=True, forget_at=0)))) == {}


@pytest.mark.parametrize(
    ("changed", "name", "says"),
    [
        ({"waits": Waits(held=piled(2))}, "gap", "2 records arrived early: #3 is missing"),
        ({"waits": Waits(delayed=piled(1))}, "delayed", "1 envelope waits for loans: its queue takes no records now"),
        (
            {"waits": Waits(delayed=piled(1)), "peer": "laons"},
            "unknown-destination",
            "has no service 'laons'; is it 'loans'?",
        ),
        ({"waits": Waits(waiting=piled(1))}, "slow-handler", "1 record waits for a handler that has not finished"),
        ({"before": "0199c1f2"}, "pool", "when dialog 0199c1f2 is over"),
        (
            {"state": State.ERROR, "code": -8462, "description": "gone"},
            "broken",
            "broken with -8462 gone; on_error has not finished",
        ),
        ({"sent": 4}, "unacknowledged", "loans has not acknowledged 3 envelopes"),
        ({"lifetime_ends": NOW + NEAR - 1}, "lifetime-near", f"the lifetime ends <{NEAR - 1}>"),
        (
            {"heads": [head()]},
            "held",
            "Check #2 failed 4 times since <-5>: KeyError: 'score'; 3 records behind it; it waits for your decision",
        ),
        ({"heads": [head(due=NOW + 9)]}, "retry-waits", "it is tried again <9>"),
        ({"heads": [head(queue_off=True)]}, "brake", "Check #2 waits for the brake"),
    ],
)
def test_each_cause_at_a_side_is_named(changed: dict[str, Any], name: str, says: str) -> None:
    told = found(facts(side(**changed)))
    assert list(told) == [name]
    assert says in told[name].says


def test_a_lifetime_that_ends_later_or_never_is_no_cause() -> None:
    assert found(facts(side(lifetime_ends=NOW + NEAR))) == {}


def test_what_is_true_of_a_partition_is_a_cause_for_its_dialogs() -> None:
    queue = Queue("credit", 2, "rollbacks", NOW - 7, "", "", 5, 0, 0)
    told = found(facts(side(heads=[head(queue_off=True)]), queues={("credit", 2): queue}))
    assert list(told) == ["queue-off"], "the queue, and not the brake, holds the message"
    assert told["queue-off"].next == "conversations queue on credit --reason WHY"
    told = found(
        facts(
            side(),
            side(service="loans", peer="credit", partition=0, initiator=True),
            owned={"loans": frozenset({0}), "credit": frozenset({0, 1})},
            unread={("credit", 2): 4},
        )
    )
    assert list(told) == ["no-owner"]
    assert "no worker of credit has partition 2, and 4 records wait there" in told["no-owner"].says
    assert list(found(facts(side(), unread={("credit", 2): 4}))) == ["unread"]
    assert found(facts(side(), unread={("credit", 1): 4})) == {}, "the queue of another partition"


def test_a_peer_that_has_no_side_yet_is_looked_at_as_a_service() -> None:
    asks = side(service="loans", peer="credit", initiator=True, sent=1, acknowledged=0)
    owned = {"loans": frozenset(range(3)), "credit": frozenset({1, 2})}
    told = found(facts(asks, owned=owned))
    assert list(told) == ["no-owner", "unacknowledged"]
    assert "no worker of credit has partition 0" in told["no-owner"].says
    assert "no-owner" not in found(facts(asks, side(), owned=owned)), (
        "the side of the peer is known, and its partition has an owner"
    )


def test_a_partition_that_is_set_aside_and_an_open_transaction_are_causes() -> None:
    told = found(facts(side(), aside={("credit", 2): (NOW - 8, "a row is damaged")}, unread={("credit", 2): 4}))
    assert list(told) == ["set-aside"], "nothing is read because it is set aside"
    assert (
        told["set-aside"].says
        == "partition 2 is set aside since <-8>: a row is damaged; mend that, then restart the workers of credit"
    )
    assert told["set-aside"].next == "conversations events --service credit --event PARTITION_SET_ASIDE"
    assert told["set-aside"].needs_person
    told = found(facts(side(), transactions={("credit", 2): NOW - 9, ("credit", 1): NOW - 10}))
    assert [(it.name, it.since) for it in told.values()] == [("open-transaction", NOW - 9)]
    assert not told["open-transaction"].needs_person
    aside = {("credit", 1): (NOW - 8, "a row is damaged")}
    nowhere = {"loans": frozenset(range(3)), "credit": frozenset({0, 2})}
    assert list(found(facts(side(partition=1), aside=aside, owned=nowhere))) == ["no-owner"]
    asks = side(service="loans", peer="credit", initiator=True)
    told = found(facts(asks, aside=aside, transactions={("credit", 0): NOW - 9}))
    assert list(told) == ["set-aside", "open-transaction"], "it is not known which partition gets the side"
    assert list(found(facts(asks, aside=aside, owned=nowhere))) == ["no-owner"]
    told = found(facts(asks, unread={("credit", 0): 1, ("credit", 1): 2, ("loans", 0): 3}, aside=aside))
    assert (
        told["unread"].says == "1 record of partition 0 is not read yet: a handler is slow, or there is much to do"
    ), "the partition that is set aside has a cause of its own"


def test_a_service_stalls_for_its_partitions_and_its_failed_messages() -> None:
    def told(
        held: list[Group],
        retried: list[Group],
        left: Sequence[Reasons] = (),
        peers: Sequence[PeerWait] = (),
        **changed: Any,
    ) -> list[tuple[str, str, str]]:
        causes = causes_of_service(facts(**changed), "credit", held, retried, left, peers, lambda at: f"<{at - NOW}>")
        return [(it.name, it.says, it.next) for it in causes]

    assert told([], []) == []
    assert told([], [], unread={("credit", 0): 1, ("credit", 1): 0, ("loans", 0): 5}) == [
        (
            "unread",
            "1 record of partition 0 is not read yet: a handler is slow, or there is much to do",
            "conversations queue show credit --all",
        )
    ]
    off = {
        ("credit", 1): Queue("credit", 1, "operator", NOW - 7, "", "INC-1", 0, 0, 0),
        ("credit", 0): Queue("credit", 0, "", 0, "", "", 0, 0, 0),
    }
    names = [
        name for name, _, _ in told([], [], queues=off, owned={"credit": frozenset({1})}, unread={("credit", 0): 2})
    ]
    assert names == ["queue-off", "no-owner"], "what is unread there is told with the missing owner"
    one = Group("credit", "KeyError", "Check", 1, 0, NOW - 5, NOW - 5, None, "KeyError: 'score'")
    handlers = Group("credit", "Key Error", "", 3, 1, NOW - 6, NOW - 5, None, "")
    assert told([one], [handlers]) == [
        (
            "held",
            "1 Check failed with KeyError since <-5>; it waits for your decision",
            "conversations redrive plan --service credit --exception KeyError --type Check --start --reason WHY",
        ),
        (
            "retry-waits",
            "3 handler without a message failed with Key Error since <-6>, 1 record waits behind; they are tried again without you",
            "conversations retries list credit",
        ),
    ]
    assert (
        told([handlers], [])[0][2]
        == "conversations redrive plan --service credit --exception 'Key Error' --start --reason WHY"
    )
    peers = [
        PeerWait("loans", 3, 0, True, True),
        PeerWait("shop", 2, 1, False, False),
        PeerWait("lons", 1, 1, False, False),
    ]
    assert told([], [], peers=peers, services=frozenset({"credit", "loans", "shop"})) == [
        (
            "peer-stalls",
            "3 open dialogs with loans, whose queue is off and which holds a message of such a dialog until you decide",
            "conversations why loans",
        ),
        ("peer-stalls", "2 open dialogs with shop, whose queue takes no records now", "conversations why shop"),
        (
            "peer-stalls",
            "1 dialog waits for lons: the namespace has no such service",
            "conversations dialogs list credit --with-pending",
        ),
    ]


def test_a_way_to_another_cluster_without_a_forwarder_is_a_cause() -> None:
    asks = side(service="loans", peer="credit", initiator=True, sent=3, acknowledged=1)
    ways = {"credit": Way("emea", "kafka.emea:9092", 4, frozenset({0, 1}))}
    told = found(facts(asks, services=frozenset({"loans"}), ways=ways))
    assert list(told) == ["no-forwarder", "unacknowledged"]
    assert told["no-forwarder"].says == (
        "credit lives on cluster emea (kafka.emea:9092), and no forwarder carries the messages of 2 partitions there: start one"
    )
    assert told["no-forwarder"].next == "conversations forward emea"
    waits = {("loans", "credit"): Unacknowledged(311, NOW + 32_000_000)}
    (way,) = ways.values()
    told = found(
        facts(asks, ways={"credit": way._replace(ended=NOW - 4)}, services=frozenset({"loans"}), unacknowledged=waits)
    )
    assert "there since <-4>, 311 unacknowledged, next try in 32s: start one" in told["no-forwarder"].says
    away = way._replace(carried=frozenset(range(4)), away=(NOW - 9, "no broker answers"))
    told = found(facts(asks, ways={"credit": away}, services=frozenset({"loans"}), unacknowledged=waits))
    assert list(told) == ["cluster-away", "unacknowledged"]
    assert told["cluster-away"].says == (
        "route to emea down since <-9>, 311 unacknowledged, next try in 32s: a forwarder runs, and cannot carry: no broker answers"
    )
    assert told["cluster-away"].since == NOW - 9
    late = {("loans", "credit"): Unacknowledged(1, NOW - 1)}
    told = found(facts(asks, ways={"credit": away}, services=frozenset({"loans"}), unacknowledged=late))
    assert "1 unacknowledged, next try now:" in told["cluster-away"].says
    assert told["unacknowledged"].says.startswith("credit on cluster emea has not acknowledged 2 envelopes")
    every = {"credit": ways["credit"]._replace(carried=frozenset(range(4)))}
    assert list(found(facts(asks, services=frozenset({"loans"}), ways=every))) == ["unacknowledged"]
    settled = side(service="loans", peer="credit", initiator=True, sent=1, acknowledged=1)
    assert found(facts(settled, services=frozenset({"loans"}), ways=ways)) == {}


def test_a_service_that_a_forwarder_did_not_find_is_named_until_something_is_acknowledged() -> None:
    asks = side(service="loans", peer="credit", initiator=True, sent=3, acknowledged=0)
    ways = {"credit": Way("emea", "kafka.emea:9092", 2, frozenset({0, 1}), lacked=NOW - 6)}
    told = found(facts(asks, services=frozenset({"loans"}), ways=ways))
    assert list(told) == ["unacknowledged"]
    assert told["unacknowledged"].says.endswith(
        "A forwarder found no service 'credit' there at <-6>: apply it there, or correct the route"
    )
    known = facts(replace(asks, acknowledged=1), services=frozenset({"loans"}), ways=ways)
    assert "found no service" not in found(known)["unacknowledged"].says, "it was there after that"


def test_a_dialog_between_clusters_has_the_causes_of_both() -> None:
    asks = side(service="loans", peer="credit", initiator=True, sent=3, acknowledged=1)
    ways = {"credit": Way("emea", "kafka.emea:9092", 2, frozenset({0, 1}))}
    here = facts(asks, services=frozenset({"loans"}), ways=ways)
    there = facts(side(heads=[head()]), services=frozenset({"credit"}))
    both = {"": here, "emea": there}
    assert [it.service for it in sides_of(both)] == ["loans", "credit"]
    told = causes_across(both, {"": ["loans"], "emea": ["credit"]}, str)
    assert [(it.name, it.cluster) for it in told] == [("held", "emea"), ("unacknowledged", "")], (
        "what is first acts first"
    )
    assert causes_across({"emea": there}, {}, str)[0].cluster == "emea"
    told = causes_across({"": here}, {"": ["loans"], "emea": ["debit"]}, str)
    assert [(it.name, it.cluster, it.needs_person) for it in told] == [
        ("unknown-destination", "", True),
        ("unacknowledged", "", False),
    ]
    assert told[0].says.startswith("cluster emea has no service 'credit'")
    assert [it.name for it in causes_across({"": here}, {"": ["loans"]}, str)] == ["unacknowledged"], (
        "emea was not read"
    )
    closed = facts(replace(asks, closed=Closed(told=True, forget_at=0)), services=frozenset({"loans"}), ways=ways)
    assert causes_across({"": closed}, {"emea": []}, str) == []


def test_causes_come_before_what_they_cause_and_the_command_is_for_a_person() -> None:
    waits = side(service="loans", peer="credit", initiator=True, sent=3, acknowledged=0, before="0199c1f2")
    told = causes(facts(waits, side(heads=[head()])), str)
    assert [(it.name, it.service) for it in told] == [
        ("held", "credit"),
        ("pool", "loans"),
        ("unacknowledged", "loans"),
    ]
    assert next_command(told) == "conversations dead-letters retry credit.queue-2-17 --reason WHY"
    assert next_command(told[1:]) == "conversations why 0199c1f2"
    assert next_command([]) == ""


def test_open_letters_of_a_service_are_discarded_by_reason_if_they_cannot_be_sent_again() -> None:
    left = [Reasons("credit", reason, "", 2, NOW - 9, NOW) for reason in ("set-aside", "parked-at-end", "")]
    told = causes_of_service(facts(), "credit", [], [], left, [], str)
    assert [it.next for it in told] == [
        "conversations dead-letters discard --service credit --with-reason set-aside --reason WHY",
        "conversations dead-letters list credit --detached",
        "conversations dead-letters list credit --detached",
    ]
    assert told[0].says.startswith("2 open letters (set-aside) since ")


def test_a_missing_right_names_the_user_and_the_cluster() -> None:
    waits = side(waits=Waits(delayed=piled(1)))
    told = found(facts(waits, lacking={("credit", "loans"): ["User:clerk"]}))
    assert list(told) == ["right-missing", "delayed"]
    assert told["right-missing"].next == (
        "kafka-acls.sh --bootstrap-server localhost:9092 --add --allow-principal User:clerk --operation WRITE --topic shop.loans.queue"
    )


def test_the_command_for_a_dialog_of_a_pool_is_that_of_the_first_one() -> None:
    first = facts(side(heads=[head()]))
    told = found(facts(side(before="0199c1f2"), ahead=first))
    assert told["pool"].next == "conversations dead-letters retry credit.queue-2-17 --reason WHY"
    assert told["pool"].needs_person


def test_a_dialog_of_a_pool_waits_for_the_one_before_it() -> None:
    first, second = (side(conversation=bytes([number]) * 16, initiator=True) for number in (1, 2))
    names = [first.identity, second.identity]
    queue_up({first.identity: first, second.identity: second}, names)
    assert (first.before, second.before) == ("", first.name)


def test_a_printed_command_has_the_options_but_no_secret() -> None:
    given = Options("h:1", "shop", "a file", ["worker.step=2s", "sasl.password=s3=cret"], {"bootstrap", "file"})
    context = typer.Context(typer.main.get_command(app), obj=given)
    line = complete(context, "conversations why orders")
    assert shlex.split(line)[3:] == [
        "--bootstrap=h:1", "--setting=worker.step=2s", "--setting=sasl.password=VALUE", "--settings=a file",
    ]  # fmt: skip
    assert complete(context, "kafka-acls.sh --add") == "kafka-acls.sh --add"


def test_a_printed_command_for_another_cluster_has_the_options_of_that_cluster() -> None:
    context = typer.Context(typer.main.get_command(app), obj=Options("h:1", "shop", "", [], {"bootstrap"}))
    emea = Kafka("kafka.emea:9092", namespace="europe")
    line = "conversations why orders"
    assert complete_at(context, line, "", {}) == f"{line} --bootstrap=h:1"
    where = f"{line} --bootstrap=kafka.emea:9092 --namespace=europe"
    assert complete_at(context, line, "emea", {"emea": There(emea, "")}) == where
    assert complete_at(context, line, "emea", {"emea": There(emea, "its file")}) == f"{where} '--settings=its file'"
    assert complete_at(context, "kafka-acls.sh --add", "emea", {"emea": There(emea, "")}) == "kafka-acls.sh --add"
    own = typer.Context(typer.main.get_command(app), obj=Options("h:1", "shop", "mine", [], {"bootstrap"}))
    assert complete_at(own, line, "emea", {"emea": There(emea, "")}) == f"{where} --settings=", "the login is for here"


def test_a_cluster_that_cannot_be_read_hides_no_other_one() -> None:
    emea, apac = Kafka("kafka.emea:9092"), Kafka("kafka.apac:9092")

    def look(name: str, at: Kafka) -> str:
        if name == "emea":
            raise KafkaUnreachable("kafka.emea:9092", "no broker answers")
        if name == "apac":
            raise LookupError("no such dialog")
        return at.bootstrap

    found, unread = everywhere(KAFKA, {"emea": emea, "apac": apac}, look)
    assert found == {"": KAFKA.bootstrap}
    (line,) = unread_lines(unread)
    assert line.startswith("emea cannot be looked at: ")
    assert "no broker answers" in line
    with pytest.raises(typer.Exit) as ended:
        exit_for(unread)
    assert ended.value.exit_code == Exit.UNREACHABLE
    exit_for({})


def test_what_no_cluster_knows_is_told_as_this_one_tells_it() -> None:
    def look(name: str, at: Kafka) -> str:
        raise LookupError(f"{at.bootstrap} does not know it")

    with pytest.raises(LookupError, match="localhost:9092 does not know it"):
        everywhere(KAFKA, {"emea": Kafka("kafka.emea:9092")}, look)

    def away(name: str, at: Kafka) -> str:
        raise KafkaUnreachable("kafka.emea:9092", "no broker answers")

    with pytest.raises(KafkaUnreachable):
        everywhere(KAFKA, {}, away)


def test_the_page_has_all_causes_in_their_order() -> None:
    rows = [f"| `{name}` | {it.means} | `{it.next}` | {it.mends} |" for name, it in TABLE.items()]
    page = Path("docs/why.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in page if line.startswith("| `")] == rows


def test_the_first_line_has_both_states() -> None:
    asks = side(service="loans", peer="credit", initiator=True)
    assert headline(facts(asks, side(heads=[head()]))) == "loans -> credit   CONVERSING at loans, PARKED at credit"
    gone = side(closed=Closed(told=True, forget_at=0), code=-8489)
    assert headline(facts(asks, gone)) == "loans -> credit   CONVERSING at loans, OVER WITH -8489 at credit"
    assert headline(facts(side(state=State.ERROR))) == "loans -> credit   ERROR at credit"
