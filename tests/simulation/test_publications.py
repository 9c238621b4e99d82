"""Records that handlers publish to plain topics: they are in the transaction of the other effects of their handler, or nowhere."""

from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from conversations import (
    BodyTooLarge,
    Contract,
    DeclarationError,
    Dialog,
    LocalError,
    LogError,
    PeerError,
    PoisonPolicy,
    PublicationRefused,
    Service,
    Then,
)
from conversations.protocol import rows
from conversations.protocol.command import Action
from conversations.protocol.parked import Decision
from conversations.protocol.publications import publication
from conversations.protocol.topics import QUEUE, partition_of, service_topic
from conversations.testing import Faults, PeerDialog, PublishedRecord, Simulation
from conversations.testing.reading import state_of

INVOICES, COPIES = "invoices", "invoices.copies"


class Order(BaseModel):
    n: int
    size: int = 0


class Done(BaseModel):
    n: int


ORDERS = Contract("Orders", sent_by_initiator=[Order], sent_by_target=[Done])
Deed = Callable[[Order, Dialog[dict[str, Any]]], None]


def invoice(order: Order, dialog: Dialog[dict[str, Any]]) -> None:
    """Publish an invoice, count it in the state, and answer: three effects of one handler."""
    dialog.publish(INVOICES, dialog.id, f"{order.n} " + "x" * order.size, headers={"n": str(order.n)})
    dialog.group.state["count"] = dialog.group.state.get("count", 0) + 1
    dialog.send(Done(n=order.n))


def billing(deed: Deed = invoice, *, poison: list[PoisonPolicy] | None = None) -> Service[dict[str, Any]]:
    service = Service("billing", accepts=[ORDERS], publishes=[INVOICES, COPIES], poison=poison or [])
    service.on(Order)(deed)
    return service


def order(sim: Simulation, *orders: Order | int) -> PeerDialog:
    dialog = sim.peer("web").begin_dialog("billing", ORDERS)
    for it in orders:
        dialog.send(it if isinstance(it, Order) else Order(n=it))
    return dialog


def numbers(records: list[PublishedRecord]) -> list[int]:
    return [int((record.value or b"").split()[0]) for record in records]


def answers(dialog: PeerDialog) -> list[int]:
    return [body.n for body in dialog.received() if isinstance(body, Done)]


# -- one transaction -----------------------------------------------------------------------------------------------


def test_a_handler_publishes_what_readers_of_the_topic_get() -> None:
    """The key chooses the partition as Kafka's Java client does."""
    with Simulation(billing()) as sim:
        dialog = order(sim, 7)
        sim.run()
        (record,) = sim.published(INVOICES)
        assert record == PublishedRecord(partition_of(dialog.id.encode(), 3), dialog.id.encode(), b"7 ", [("n", b"7")])
        assert sim.published(COPIES) == []


def test_a_handler_of_each_kind_publishes() -> None:
    service = Service("billing", accepts=[ORDERS], publishes=[INVOICES])

    @service.on(Order)
    def start(body: Order, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.publish(INVOICES, "message", None)
        dialog.set_timer(timedelta(seconds=1))

    @service.on_timer()
    async def fired(dialog: Dialog[dict[str, Any]]) -> None:
        dialog.publish(INVOICES, "timer", b"")

    @service.on_end()
    def ended(dialog: Dialog[dict[str, Any]]) -> None:
        dialog.publish(INVOICES, "end", b"1")
        dialog.end()
        dialog.publish(INVOICES, "over", b"2")

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.publish(INVOICES, "error", str(error.code))

    with Simulation(service) as sim:
        first, second = order(sim, 1), order(sim, 2)
        sim.advance(timedelta(seconds=2))
        first.end()
        second.end_with_error(4711, "enough")
        sim.run()
        found = sorted((record.key or b"", record.value) for record in sim.published(INVOICES))
        assert found == [
            (b"end", b"1"), (b"error", b"4711"), (b"message", None), (b"message", None), (b"over", b"2"),
            (b"timer", b""), (b"timer", b""),
        ]  # fmt: skip


def test_a_handler_that_fails_has_published_nothing() -> None:
    """Each attempt begins with nothing; only the attempt that succeeds counts."""
    tries: list[int] = []

    def fail_twice(body: Order, dialog: Dialog[dict[str, Any]]) -> None:
        tries.append(body.n)
        dialog.publish(INVOICES, None, f"{len(tries)}")
        if len(tries) < 3:
            raise ValueError("not yet")

    with Simulation(billing(fail_twice), raise_failures=False) as sim:
        order(sim, 1)
        sim.run()
        assert (tries, numbers(sim.published(INVOICES))) == ([1, 1, 1], [3])


def test_a_handler_whose_state_cannot_be_kept_has_published_nothing() -> None:
    def keep_a_file(body: Order, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.publish(INVOICES, None, "1")
        dialog.group.state["file"] = object()

    with Simulation(billing(keep_a_file), raise_failures=False) as sim:
        order(sim, 1)
        sim.run()
        assert sim.published(INVOICES) == []
        assert len(sim.dead_letters("billing")) == 1


@pytest.mark.parametrize("dies", [False, True])
def test_a_handler_that_outlives_its_step_publishes_in_the_step_in_which_it_returns(*, dies: bool) -> None:
    """Until then its message is a row, and nothing is published; if its process dies, the next handler publishes alone."""
    with Simulation(billing(), faults=Faults(seed=1, slow=1.0), partitions=1) as sim:
        sim.chance.active = False
        dialog = order(sim, 1)
        sim.run()
        sim.chance.active = True
        dialog.send(Order(n=2))
        for _ in range(4):
            sim._round()
        sim.chance.active = False
        assert numbers(sim.published(INVOICES)) == [1]
        assert [key for key in state_of(sim.broker, "billing")[0] if key.startswith(rows.WAITING)]
        if dies:
            sim.crash("billing")
        sim.run()
        assert numbers(sim.published(INVOICES)) == answers(dialog) == [1, 2]
        sim.check_invariants()


FAULTS: dict[str, dict[str, float]] = {
    "kills": {"crash": 0.15, "survive": 0.5, "hang": 0.2},
    "aborts": {"abort": 0.2, "hang": 0.2},
    "duplicates": {"duplicate": 0.5, "reorder": 0.3},
    "moves": {"revoke": 0.1, "move": 0.1, "stall": 0.1},
    "slow": {"slow": 0.6, "overlap": 0.4, "revoke": 0.05, "abort": 0.05},
    "refusals": {"refuse": 0.3, "overlap": 0.2},
    "all": {
        "crash": 0.05, "abort": 0.05, "duplicate": 0.1, "reorder": 0.1, "revoke": 0.05, "move": 0.05, "stall": 0.05,
        "hang": 0.05, "survive": 0.5, "slow": 0.2, "overlap": 0.2, "refuse": 0.1, "noise": 0.05, "skew": 0.02,
    },
}  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", FAULTS)
def test_each_message_has_its_record_once_and_in_order_whatever_fails(kind: str, seed: int) -> None:
    """As its answer, which is in the same transaction."""
    faults = Faults(seed=seed, **FAULTS[kind])
    with Simulation(billing(), faults=faults, raise_failures=False, workers=2) as sim:
        dialogs = [order(sim, *range(10)) for _ in range(12)]
        sim.run()
        sim.advance(timedelta(minutes=5))
        sim.chance.active = False
        sim.advance(timedelta(minutes=5))
        found: dict[bytes | None, list[int]] = defaultdict(list)
        for record in sim.published(INVOICES):
            found[record.key].append(int((record.value or b"").split()[0]))
        assert found == {dialog.id.encode(): list(range(10)) for dialog in dialogs}
        assert [answers(dialog) for dialog in dialogs] == [list(range(10))] * 12
        sim.check_invariants()


# -- what a topic refuses ------------------------------------------------------------------------------------------


def test_a_record_that_its_topic_refuses_undoes_its_handler_alone() -> None:
    """The handler had returned: its state, its answer and its other records are undone with the record. Others go on."""

    def copy_too(body: Order, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.publish(COPIES, None, str(body.n))
        invoice(body, dialog)

    with Simulation(billing(copy_too), partitions=1) as sim:
        sim.broker.limits[INVOICES] = 4_000
        before, bad, after = order(sim, 1), order(sim, Order(n=2, size=5_000), 3), order(sim, 4)
        sim.run()
        assert (answers(before), answers(bad), answers(after)) == ([1], [], [4])
        assert sorted(numbers(sim.published(INVOICES))) == sorted(numbers(sim.published(COPIES))) == [1, 4]
        (letter,) = sim.dead_letters("billing")
        assert (letter.exception, letter.conversation) == ("conversations.errors.PublicationRefused", bad.id)
        assert "(8459)" in letter.message
        (parked,) = sim.parked("billing")
        del sim.broker.limits[INVOICES]
        sim.decide(parked, Decision(Action.RETRY, "operator", "the limit is raised"))
        sim.run()
        assert answers(bad) == [2, 3]
        assert sorted(numbers(sim.published(INVOICES))) == sorted(numbers(sim.published(COPIES))) == [1, 2, 3, 4]
        assert sim.worker("billing").context.breakdowns.refused == {}
        sim.check_invariants()


def test_what_else_a_topic_refuses_leaves_the_records_of_others_alone() -> None:
    """A record without a value, and with headers, is no envelope of the dialog that is refused."""

    def answer_large(body: Order, dialog: Dialog[dict[str, Any]]) -> None:
        if body.size:
            dialog.send(Done(n=10**4_000))
        else:
            dialog.publish(INVOICES, "k", None, headers={"n": "1"})

    with Simulation(billing(answer_large), partitions=1) as sim:
        sim.peer("web")
        sim.broker.limits[service_topic("conv", "web", QUEUE)] = 4_000
        order(sim, Order(n=1, size=1))
        order(sim, 2)
        sim.run()
        assert [record.headers for record in sim.published(INVOICES)] == [[("n", b"1")]]


def test_a_policy_decides_about_a_refused_record() -> None:
    """Another attempt would publish the record again, so there is none."""
    ending = PoisonPolicy(exception=PublicationRefused, then=Then.END_DIALOG, code=1408, description="Too large.")
    runs: list[int] = []

    def count(body: Order, dialog: Dialog[dict[str, Any]]) -> None:
        runs.append(body.n)
        assert len(runs) < 10, "it is called again and again"
        invoice(body, dialog)

    with Simulation(billing(count, poison=[ending])) as sim:
        sim.broker.limits[INVOICES] = 4_000
        bad = order(sim, Order(n=1, size=5_000))
        sim.run()
        assert bad.error is not None
        assert (bad.error.code, runs) == (1408, [1])


def test_a_timer_and_an_error_whose_record_is_refused_wait_for_an_operator() -> None:
    """Also the error that this side finds when a record arrives."""
    runs: list[str] = []
    service = Service("billing", accepts=[ORDERS], publishes=[INVOICES])

    @service.on(Order)
    def start(body: Order, dialog: Dialog[dict[str, Any]]) -> None:
        dialog.set_timer(timedelta(seconds=1))

    @service.on_timer()
    def fired(dialog: Dialog[dict[str, Any]]) -> None:
        runs.append("timer")
        dialog.publish(INVOICES, None, "x" * 5_000)

    @service.on_error()
    def broken(error: PeerError, dialog: Dialog[dict[str, Any]]) -> None:
        runs.append("error")
        dialog.publish(INVOICES, None, "x" * 5_000)

    with Simulation(service) as sim:
        sim.broker.limits[INVOICES] = 4_000
        first, second = order(sim, 1), order(sim)
        sim.advance(timedelta(seconds=2))
        assert runs == ["timer"]
        second.send(Order(n=2))
        second.end_with_error(4711, "enough")
        sim.run()
        assert runs == ["timer", "error"]
        assert [parked.failure.split(":")[0] for parked in sim.parked("billing")] == ["PublicationRefused"] * 2
        assert sim.published(INVOICES) == []
        first.end()
        sim.run()
        sim.check_invariants()


def take_away(sim: Simulation, how: str) -> Callable[[], None]:
    """Make the topic unwritable; return the function that makes it writable again."""
    if how == "forbidden":
        sim.broker.forbidden.add(INVOICES)
        return sim.broker.forbidden.clear
    log = sim.broker.topics.pop(INVOICES)
    return lambda: sim.broker.topics.update({INVOICES: log})


@pytest.mark.parametrize("how", ["deleted", "forbidden"])
def test_handlers_wait_while_their_topic_takes_nothing_and_others_go_on(how: str) -> None:
    """No attempt counts, nothing becomes a dead letter, and the order stays."""

    def only_odd(body: Order, dialog: Dialog[dict[str, Any]]) -> None:
        if body.n % 2:
            invoice(body, dialog)
        else:
            dialog.send(Done(n=body.n))

    with Simulation(billing(only_odd), raise_failures=False) as sim:
        order(sim, 1)
        sim.run()
        give_back = take_away(sim, how)
        waiting, going = order(sim, 3, 4, 5), order(sim, 2, 6)
        sim.advance(timedelta(hours=2))
        assert (answers(waiting), answers(going)) == ([], [2, 6])
        assert numbers(sim.published(INVOICES) if how == "forbidden" else []) in ([1], [])
        assert sim.dead_letters("billing") == []
        assert [parked.attempts for parked in sim.parked("billing")] == [0]
        give_back()
        sim.advance(timedelta(minutes=3))
        assert answers(waiting) == [3, 4, 5]
        assert sorted(numbers(sim.published(INVOICES))) == [1, 3, 5]
        sim.check_invariants()


def test_a_topic_that_is_gone_costs_no_step_after_it_was_noticed() -> None:
    """Only one step is thrown away for each pause, however many handlers publish."""
    runs: list[int] = []

    def count(body: Order, dialog: Dialog[dict[str, Any]]) -> None:
        runs.append(body.n)
        assert len(runs) < 1_000, "they are called again and again"
        invoice(body, dialog)

    with Simulation(billing(count), partitions=1, raise_failures=False) as sim:
        order(sim, 1)
        sim.run()
        take_away(sim, "deleted")
        for _ in range(50):
            order(sim, 1, 2)
        sim.run()
        assert len(sim.parked("billing")) == 50
        assert sim.worker("billing").counts.failures == 50, "each handler ran once more, and learned it"


# -- declarations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["deleted", "forbidden"])
def test_a_worker_does_not_start_without_its_topics(how: str) -> None:
    sim = Simulation(billing())
    take_away(sim, how)
    with pytest.raises(LogError, match=r"billing.*publishes.*invoices: .*'conversations apply' does not"):
        sim.run()


def test_a_worker_that_joins_again_works_without_a_topic_that_went_meanwhile() -> None:
    """What it had begun must go on."""
    with Simulation(billing(), raise_failures=False) as sim:
        order(sim, 1)
        sim.run()
        give_back = take_away(sim, "deleted")
        sim._runners["billing"][0].connection.broken = True
        waiting = order(sim, 2)
        sim.run()
        assert answers(waiting) == []
        give_back()
        sim.advance(timedelta(minutes=3))
        assert answers(waiting) == [2]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "__consumer_offsets", "x" * 250, 7])
def test_no_plain_topic_has_such_a_name(name: Any) -> None:
    with pytest.raises(DeclarationError, match="names of topics"):
        Service("billing", publishes=[name])


def test_a_topic_of_the_namespace_is_not_published_to() -> None:
    """A record that is no envelope would be set aside there, or worse: be one."""
    queue = service_topic("conv", "orders", QUEUE)
    with pytest.raises(DeclarationError, match=r"cannot publish to conv\.orders\.queue"):
        Simulation(Service("billing", publishes=[queue]))


def publish_many(dialog: Dialog[Any], count: int, size: int) -> None:
    for _ in range(count):
        dialog.publish(INVOICES, b"", bytes(size))


WRONG: list[tuple[type[LocalError], int, str, Callable[[Dialog[Any]], object]]] = [
    (LocalError, 0, "add it to publishes", lambda d: d.publish("receipts", "k", "v")),
    (LocalError, 0, "the name of a topic", lambda d: d.publish(None, "k", "v")),  # type: ignore[arg-type]
    (LocalError, 9615, "the key", lambda d: d.publish(INVOICES, 7, "v")),  # type: ignore[arg-type]
    (LocalError, 9615, "the value", lambda d: d.publish(INVOICES, "k", {"a": 1})),  # type: ignore[arg-type]
    (LocalError, 9615, "UTF-8", lambda d: d.publish(INVOICES, "k", "\ud800")),
    (LocalError, 9615, "headers", lambda d: d.publish(INVOICES, "k", "v", headers="n")),  # type: ignore[arg-type]
    (LocalError, 9615, "headers", lambda d: d.publish(INVOICES, "k", "v", headers={"n": None})),  # type: ignore[arg-type]
    (LocalError, 9615, "headers", lambda d: d.publish(INVOICES, "k", "v", headers={1: "n"})),  # type: ignore[arg-type]
    (LocalError, 9615, "headers", lambda d: d.publish(INVOICES, "k", "v", headers=7)),  # type: ignore[arg-type]
    (LocalError, 9615, "UTF-8", lambda d: d.publish(INVOICES, "k", "v", headers={"\ud800": "n"})),
    (BodyTooLarge, 8459, "1000001 bytes", lambda d: d.publish(INVOICES, b"k", bytes(1_000_000))),
    (BodyTooLarge, 8459, "bytes", lambda d: d.publish(INVOICES, b"", b"", headers=[("", b"")] * 100_001)),
    (BodyTooLarge, 8459, "at most 16000000", lambda d: publish_many(d, 17, 1_000_000)),
    (LocalError, 0, "at most 10000 records", lambda d: publish_many(d, 10_001, 0)),
]


@pytest.mark.parametrize(("kind", "code", "text", "deed"), WRONG)
def test_a_wrong_request_raises_at_once(
    kind: type[LocalError], code: int, text: str, deed: Callable[[Dialog[Any]], object]
) -> None:
    raised: list[LocalError] = []

    def ask(body: Order, dialog: Dialog[dict[str, Any]]) -> None:
        try:
            deed(dialog)
        except LocalError as error:
            raised.append(error)
            raise

    with Simulation(billing(ask), raise_failures=False) as sim:
        order(sim, 1)
        sim.run()
        assert type(raised[0]) is kind
        assert (raised[0].code, sim.published(INVOICES)) == (code, [])
        assert text in str(raised[0])


def test_a_record_of_the_largest_size_fits_and_headers_may_be_pairs() -> None:
    largest = publication(INVOICES, "ä", bytes(999_985), [("n", "1")])
    assert largest[2:4] == ("ä".encode(), bytes(999_985))
    assert publication(INVOICES, None, None, [("n", "1"), ("n", b"")])[4] == [("n", b"1"), ("n", b"")]
    assert publication(INVOICES, None, None, {})[4] is None


def test_a_simulation_names_the_topics_that_there_are() -> None:
    with Simulation(billing()) as sim, pytest.raises(LocalError, match=r"there are: invoices, invoices\.copies"):
        sim.published("receipts")
