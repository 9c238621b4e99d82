"""Pools: one long dialog for each key, replaced by age and by count, and the messages of a key stay in order whatever happens."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from pydantic import BaseModel

from conversations import (
    Contract,
    DeclarationError,
    Dialog,
    LocalError,
    PeerError,
    PoisonPolicy,
    Pool,
    Service,
    Then,
    UnknownContract,
    local,
)
from conversations.protocol import rows
from conversations.protocol.command import Begin, Command, End, Operation, Send, encode_command, pool_id, topic_for
from conversations.testing import Faults, Simulation
from conversations.testing.reading import state_of
from conversations.worker import groups
from tests.simulation.support import records
from tests.support.waiting import until

MINUTE = timedelta(minutes=1)


class Push(BaseModel):
    text: str


class Seen(BaseModel):
    upto: str


class Gateway:
    """The target: it keeps what it handles, by key, and the dialogs that it came on."""

    def __init__(self, pushes: Contract, poison: Sequence[PoisonPolicy] = ()) -> None:
        self.handled: dict[str, list[str]] = defaultdict(list)
        self.dialogs: dict[str, list[str]] = defaultdict(list)
        self.fails: set[str] = set()
        self.failures: dict[str, int] = {}
        """Number of attempts that fail, by text."""
        self.answers = False
        self.service = service = Service("gateway", accepts=[pushes], poison=poison)

        @service.on(Push)
        def pushed(push: Push, dialog: Dialog) -> None:
            if push.text in self.fails or dialog.attempt <= self.failures.get(push.text, 0):
                raise ValueError(push.text)
            key = dialog.group.key
            self.handled[key].append(push.text)
            if dialog.id not in self.dialogs[key]:
                self.dialogs[key].append(dialog.id)
            if self.answers:
                dialog.send(Seen(upto=push.text))


class World:
    """A service with a pool, its target, and a simulation of both."""

    def __init__(
        self,
        *,
        max_messages: int | None = None,
        max_age: timedelta = 10 * MINUTE,
        lifetime: timedelta = timedelta(hours=2),
        resend: str = "automatic",
        poison: Sequence[PoisonPolicy] = (),
        **options: Any,
    ) -> None:
        self.pushes = Contract(
            "Pushes",
            sent_by_initiator=[Push],
            sent_by_target=[Seen],
            lifetime=lifetime,
            resend=resend,  # type: ignore[arg-type]
        )
        self.pool = Pool("devices", to="gateway", contract=self.pushes, max_age=max_age, max_messages=max_messages)
        self.gateway = Gateway(self.pushes, poison)
        self.alerts = Service("alerts", initiates=[self.pushes])
        self.seen: list[str] = []
        self.codes: list[int] = []

        @self.alerts.on(Seen)
        def seen(receipt: Seen, dialog: Dialog) -> None:
            self.seen.append(receipt.upto)
            if receipt.upto.startswith("echo"):
                dialog.pooled(self.pool, key=dialog.group.key.partition(":")[2]).send(Push(text=receipt.upto[4:]))

        @self.alerts.on_error()
        def broken(error: PeerError, dialog: Dialog) -> None:
            self.codes.append(error.code)

        self.sim = Simulation(self.gateway.service, self.alerts, **options)
        self._sent = 0

    def push(self, key: str, *texts: str) -> None:
        """Append the command of a client: these messages for a key."""
        group = self.pool.group(key)
        sends = [Send("Push", "application/json", Push(text=text).model_dump_json().encode()) for text in texts]
        self._sent += 1
        command = Command(
            self._sent.to_bytes(16, "big"), pool_id(group), True, group, "", "alerts", self.sim.clock.now(), (self.pool.reuse(key), *sends)
        )  # fmt: skip
        self.sim.broker.append_keyed("alerts", topic_for(command), group.encode(), encode_command(command))

    def of(self, key: str) -> tuple[list[str], int]:
        """Return the handled texts of a key, and the number of dialogs that they came on."""
        group = self.pool.group(key)
        return self.gateway.handled[group], len(self.gateway.dialogs[group])

    def rows(self, service: str, kind: bytes) -> list[bytes]:
        return [key for table in state_of(self.sim.broker, service) for key in table if key.startswith(kind)]


def numbers(first: int, count: int) -> list[str]:
    return [str(number) for number in range(first, first + count)]


def test_all_messages_of_a_key_go_on_one_dialog() -> None:
    """Whoever sends them, and in as many commands as they like. Another key has another dialog."""
    world = World()
    with world.sim as sim:
        for text in numbers(0, 10):
            world.push("a", text)
            world.push("b", text)
        sim.run()
        assert world.of("a") == world.of("b") == (numbers(0, 10), 1)
        assert world.gateway.dialogs["devices:a"] != world.gateway.dialogs["devices:b"]
        sim.check_invariants()


def test_a_dialog_is_replaced_after_its_number_of_messages() -> None:
    """The command that comes when the dialog is full begins the next one."""
    world = World(max_messages=3)
    with world.sim as sim:
        for text in numbers(0, 10):
            world.push("a", text)
        sim.run()
        assert world.of("a") == (numbers(0, 10), 4)
        sim.check_invariants()


def test_a_dialog_is_not_replaced_while_its_group_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed dialogs are members for ten minutes. Meanwhile the messages go on the last dialog, and none is refused."""
    monkeypatch.setattr(groups, "GROUP_MEMBERS", 3)
    world = World(max_messages=1)
    with world.sim as sim:
        for text in numbers(0, 6):
            world.push("a", text)
            sim.run()
        sim.advance(MINUTE)
        assert world.of("a") == (numbers(0, 6), 3)
        assert sim.dead_letters("alerts") == []
        sim.check_invariants()


def test_a_dialog_is_replaced_when_it_is_old() -> None:
    """Also if nobody sends any more: at its age it is ended, and nothing of the key is left."""
    world = World(max_age=10 * MINUTE)
    with world.sim as sim:
        world.push("a", "0")
        sim.advance(9 * MINUTE)
        world.push("a", "1")
        sim.advance(2 * MINUTE)
        assert world.of("a") == (["0", "1"], 1)
        assert world.rows("alerts", rows.SUCCESSION) == []
        world.push("a", "2")
        sim.advance(MINUTE)
        assert world.of("a") == (["0", "1", "2"], 2)
        for _ in range(6):
            sim.advance(timedelta(hours=1))
        for kind in (rows.SUCCESSION, rows.ENDPOINT, rows.GROUP, rows.DELAYED, rows.UNACKNOWLEDGED):
            assert world.rows("alerts", kind) == world.rows("gateway", kind) == []
        sim.check_forgotten()
        sim.check_invariants()


def test_a_dialog_is_replaced_when_half_of_its_lifetime_is_over() -> None:
    """So its last messages have the other half of the lifetime to arrive."""
    world = World(max_age=timedelta(hours=1), lifetime=timedelta(minutes=20))
    with world.sim as sim:
        world.push("a", "0")
        sim.advance(9 * MINUTE)
        assert len(world.rows("alerts", rows.SUCCESSION)) == 1
        sim.advance(2 * MINUTE)
        assert world.rows("alerts", rows.SUCCESSION) == []
        assert world.codes == []


HELD = PoisonPolicy(delays=[], then=Then.HOLD)


def test_the_next_dialog_waits_while_the_target_has_not_handled_the_last_message() -> None:
    """Message 1 is held by its policy. Without the wait, 3 and 4 would be handled before 1 and 2."""
    world = World(max_messages=3, poison=[HELD], raise_failures=False)
    with world.sim as sim:
        world.gateway.fails.add("1")
        for text in numbers(0, 8):
            world.push("a", text)
        sim.advance(MINUTE)
        assert world.of("a") == (["0"], 1)
        world.gateway.fails.clear()
        sim.decide(sim.parked("gateway")[0], "retry")
        sim.advance(MINUTE)
        assert world.of("a") == (numbers(0, 8), 3)
        sim.check_invariants()


def test_what_is_held_back_stays_so_after_a_crash() -> None:
    """The row of the succession tells the next owner which dialogs must wait."""
    world = World(max_messages=2, poison=[HELD], raise_failures=False)
    with world.sim as sim:
        world.gateway.fails.add("1")
        for text in numbers(0, 3):
            world.push("a", text)
        sim.advance(MINUTE)
        for _ in range(2):
            sim.crash("alerts")
            sim.crash("gateway")
            sim.advance(MINUTE)
            assert world.of("a") == (["0"], 1)
        world.push("a", "3")
        world.gateway.fails.clear()
        sim.decide(sim.parked("gateway")[0], "retry")
        sim.advance(MINUTE)
        assert world.of("a") == (numbers(0, 4), 2)
        sim.check_invariants()


def test_a_message_for_a_key_whose_dialog_is_being_replaced_goes_on_another_dialog() -> None:
    """The dialog is old, and its target is asked to end it: no message comes behind that."""
    world = World(max_age=MINUTE)
    with world.sim as sim:
        world.push("a", "0")
        sim.broker.stop = records.is_to("gateway", 1)
        sim.advance(2 * MINUTE)  # the request to end the dialog is stopped on its way
        world.push("a", "1")
        sim.advance(timedelta(seconds=5))
        assert world.of("a") == (["0"], 1)
        sim.broker.resume()
        sim.advance(MINUTE)
        assert world.of("a") == (["0", "1"], 2)
        assert sim.dead_letters("gateway") == []
        sim.check_invariants()


def test_a_dialog_that_breaks_is_replaced_in_its_place() -> None:
    """Two of its messages are stopped on their way, and are sent again on a new dialog, where one of them is held. Later messages come after them."""
    world = World(lifetime=timedelta(hours=10), max_age=timedelta(hours=2), poison=[HELD], raise_failures=False)
    with world.sim as sim:
        world.gateway.fails.add("2")
        world.push("a", "0", "1")
        sim.run()
        sim.broker.stop = records.is_to("gateway", 2, 3)
        world.push("a", "2", "3", "4")
        sim.advance(MINUTE)
        sim.broker.resume()
        sim.advance(MINUTE)
        assert world.of("a") == (["0", "1"], 1)
        world.push("a", "5")
        sim.advance(MINUTE)
        assert world.of("a") == (["0", "1"], 1)
        world.gateway.fails.clear()
        sim.decide(sim.parked("gateway")[0], "retry")
        sim.advance(MINUTE)
        assert world.of("a") == (numbers(0, 6), 2)
        assert world.codes == []


def test_what_comes_back_does_not_stop_the_key() -> None:
    """The target breaks the first dialog. Its pending messages are dead letters, and later messages go on a new dialog."""
    world = World(resend="off", poison=[PoisonPolicy(delays=[], then=Then.END_DIALOG, code=7)], raise_failures=False)
    with world.sim as sim:
        world.gateway.fails.add("1")
        world.push("a", "0", "1", "2")
        sim.advance(MINUTE)
        world.push("a", "3")
        sim.advance(MINUTE)
        assert world.codes == [7]
        assert world.of("a") == (["0", "3"], 2)
        assert [letter.reason for letter in sim.dead_letters("gateway")] == ["handler-failed", "after-end"]
        sim.check_invariants()


def test_a_handler_sends_for_a_key() -> None:
    """The handler of an answer sends for the key of its own dialog: the message comes after those that were sent before."""
    world = World(max_messages=2)
    world.gateway.answers = True
    with world.sim as sim:
        world.push("a", "0", "echo2")
        world.push("a", "1")
        sim.advance(MINUTE)
        assert world.of("a") == (["0", "echo2", "1", "2"], 2)
        assert world.seen == ["0", "echo2", "1", "2"]
        sim.check_invariants()


def test_the_replies_of_a_replaced_dialog_are_handled_before_the_next_dialog_begins() -> None:
    """Also a reply whose handler fails: the END of the target waits behind it. ``on_end`` is not called."""
    world = World(max_messages=2, poison=[], raise_failures=False)
    world.gateway.answers = True
    fails, ends = {"1"}, []
    alerts = Service("alerts", initiates=[world.pushes], poison=[HELD])

    @alerts.on(Seen)
    def seen(receipt: Seen, dialog: Dialog) -> None:
        if receipt.upto in fails:
            raise ValueError(receipt.upto)
        world.seen.append(receipt.upto)

    @alerts.on_end()
    def ended(dialog: Dialog) -> None:
        ends.append(dialog.id)

    world.sim = Simulation(world.gateway.service, alerts, raise_failures=False)
    with world.sim as sim:
        for text in numbers(0, 5):
            world.push("a", text)
        sim.advance(MINUTE)
        assert world.of("a") == (["0", "1"], 1)
        assert world.seen == ["0"]
        fails.clear()
        sim.decide(sim.parked("alerts")[0], "retry")
        sim.advance(MINUTE)
        assert world.of("a") == (numbers(0, 5), 3)
        assert world.seen == numbers(0, 5)
        assert ends == []
        assert [letter.reason for letter in sim.dead_letters("alerts")] == [
            "handler-failed"
        ]  # what the operator decided about
        assert sim.dead_letters("gateway") == []
        sim.check_invariants()


@pytest.mark.parametrize("how", ["end", "error"])
def test_a_target_that_ends_the_dialog_of_a_pool_gets_another(how: str) -> None:
    """Its END, or its error, may cross the request to end the dialog. That request is no message for anybody."""
    world = World(max_messages=2, resend="off", raise_failures=False)
    gateway = Service("gateway", accepts=[world.pushes])
    handled: list[str] = []

    @gateway.on(Push)
    def pushed(push: Push, dialog: Dialog) -> None:
        handled.append(push.text)
        if push.text == "1":
            dialog.end() if how == "end" else dialog.end_with_error(7, "enough")

    world.sim = Simulation(gateway, world.alerts, raise_failures=False)
    with world.sim as sim:
        for text in numbers(0, 3):
            world.push("a", text)
        sim.advance(MINUTE)
        world.push("a", "3")
        sim.advance(MINUTE)
        assert handled == numbers(0, 4)
        assert world.codes == ([] if how == "end" else [7])
        assert sim.dead_letters("alerts") == sim.dead_letters("gateway") == []
        sim.check_invariants()


def test_nothing_of_a_failed_handler_is_sent_for_a_key() -> None:
    """The messages for a key are requests of the handler like all others."""
    world = World()
    sender = Service("sender", accepts=[world.pushes], initiates=[world.pushes], ignores=[Seen])
    tries: list[str] = []

    @sender.on(Push)
    def pushed(push: Push, dialog: Dialog) -> None:
        dialog.pooled(world.pool, key="a").send(push)
        tries.append(push.text)
        if len(tries) == 1:
            raise ValueError(push.text)

    with Simulation(world.gateway.service, sender, raise_failures=False) as sim:
        sim.peer("web").begin_dialog("sender", world.pushes).send(Push(text="0"))
        sim.advance(MINUTE)
        assert tries == ["0", "0"]
        assert world.gateway.handled["devices:a"] == ["0"]
        sim.check_invariants()


@pytest.mark.parametrize("seed", range(25))
def test_order_survives_replacement_faults_and_crashes(seed: int) -> None:
    """Two keys, short dialogs, two workers a service, handlers that fail, lost and late answers of Kafka, crashes: each message once, in order."""
    retries = PoisonPolicy(delays=[timedelta(seconds=1), timedelta(seconds=30)], then=Then.HOLD)
    world = World(
        max_messages=3, max_age=2 * MINUTE, poison=[retries], faults=Faults(seed=seed), workers=2, raise_failures=False
    )
    world.gateway.failures = {text: int(text) % 3 for text in numbers(0, 36) if int(text) % 5 == seed % 5}
    with world.sim as sim:
        for round_ in range(12):
            for key in ("a", "b"):
                world.push(key, *numbers(3 * round_, 3))
            sim.advance(timedelta(seconds=20 if round_ % 4 else 200))
        sim.advance(timedelta(minutes=30))
        for key in ("a", "b"):
            texts, dialogs = world.of(key)
            assert texts == numbers(0, 36)
            assert dialogs > 3
        assert sim.dead_letters("alerts") == sim.dead_letters("gateway") == []
        sim.check_invariants()


def test_a_pool_names_the_group_at_the_target_if_the_contract_lets_it() -> None:
    """Then the group has the key itself, and shares its state with dialogs of others."""
    pushes = Contract("Shared", sent_by_initiator=[Push], group_named_by=["local.client"])
    pool = Pool("devices", to="gateway", contract=pushes, max_age=MINUTE)
    gateway = Gateway(pushes)
    with local(gateway.service) as client:
        with client.pooled(pool, key="a") as dialog:
            dialog.send(Push(text="0"))
        until(lambda: gateway.handled["a"] == ["0"], "the message is handled")
    other = Contract("Others", sent_by_initiator=[Push], group_named_by=["somebody"])
    with local(Service("gateway", accepts=[other], ignores=[Push])) as client:
        refused = Pool("devices", to="gateway", contract=other, max_age=MINUTE)
        with pytest.raises(LocalError, match="8494"):
            client.pooled(refused, key="a")


# -- Rusanu's deadlock ---------------------------------------------------------------------------------------------------


def test_rusanus_deadlock_between_the_timer_and_a_sender_cannot_happen() -> None:
    """Threads send for one key and its handlers answer and send, while the dialog is replaced all the time.

    In Service Broker the procedure that receives the timer has locked the dialog, and then needs the row of the pool. A sender takes the two in the
    other order. Here both come to the lane of the key.
    """
    world = World(max_messages=7, max_age=timedelta(milliseconds=1))
    world.gateway.answers = True
    threads, each = 4, 50
    with local(world.gateway.service, world.alerts) as client:

        def send(number: int) -> None:
            for at in range(each):
                with client.pooled(world.pool, key="a") as dialog:
                    dialog.send(Push(text=f"{number}.{at}"))

        senders = [Thread(target=send, args=(number,)) for number in range(threads)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        handled = world.gateway.handled["devices:a"]
        until(lambda: len(handled) >= threads * each, "all messages are handled")
    for number in range(threads):
        assert [text for text in handled if text.startswith(f"{number}.")] == [f"{number}.{at}" for at in range(each)]
    assert len(handled) == threads * each
    assert len(world.gateway.dialogs["devices:a"]) > 1


# -- declarations and refusals ---------------------------------------------------------------------------------------------


def test_wrong_pools_are_refused() -> None:
    """With the mistake in the text."""
    pushes = Contract("Pushes", sent_by_initiator=[Push])
    with pytest.raises(DeclarationError, match="max_age is a timedelta above 0"):
        Pool("devices", to="gateway", contract=pushes, max_age=timedelta(0))
    with pytest.raises(DeclarationError, match="max_age takes a timedelta"):
        Pool("devices", to="gateway", contract=pushes, max_age=3)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="max_messages is a number from 1"):
        Pool("devices", to="gateway", contract=pushes, max_age=MINUTE, max_messages=0)
    with pytest.raises(LocalError, match="8412"):
        Pool("devices", to="no such name", contract=pushes, max_age=MINUTE)
    with pytest.raises(DeclarationError, match="contract takes objects of class Contract"):
        Pool("devices", to="gateway", contract="Pushes", max_age=MINUTE)  # type: ignore[arg-type]


def test_a_client_names_a_pool_that_its_service_may_use_and_a_valid_key() -> None:
    """A block without messages writes nothing."""
    world = World()
    with local(world.gateway.service) as client:
        with client.pooled(world.pool, key="a"):
            pass
        with pytest.raises(LocalError, match="8414"):
            client.pooled(world.pool, key="")
        pushes = Contract("Others", sent_by_initiator=[Push])
        other = Pool("devices", to="gateway", contract=pushes, max_age=MINUTE)
        with pytest.raises(UnknownContract, match="it is the contract of pool 'devices'"):
            client.pooled(other, key="a")
        with pytest.raises(LocalError, match="takes a Pool"):
            client.pooled("devices", key="a")  # type: ignore[arg-type]
        with client.pooled(world.pool, key="a") as dialog:
            dialog.send(Push(text="0"))
        until(lambda: world.gateway.handled["devices:a"] == ["0"], "the message is handled")


@pytest.mark.parametrize("operations", ["end", "begin", "other id", "late"])
def test_a_command_for_a_pool_that_asks_for_more_is_refused(operations: str) -> None:
    """It keeps its bytes as a dead letter, and nothing is sent."""
    world = World()
    with world.sim as sim:
        group, send = world.pool.group("a"), Send("Push", "application/json", b'{"text": "0"}')
        reuse = world.pool.reuse("a")
        given: dict[str, tuple[Operation, ...]] = {
            "end": (reuse, send, End()),
            "begin": (reuse, Begin("gateway", "Pushes"), send),
            "other id": (reuse, send),
            "late": (Begin("gateway", "Pushes"), reuse, send),
        }
        conversation = records.drawn(sim).bytes if operations in ("other id", "late") else pool_id(group)
        command = Command(bytes(16), conversation, True, group, "", "alerts", sim.clock.now(), given[operations])
        sim.broker.append_keyed("alerts", topic_for(command), group.encode(), encode_command(command))
        sim.run()
        assert [letter.code for letter in sim.dead_letters("alerts")] == [50001]
        assert world.gateway.handled == {}
        sim.check_invariants()
