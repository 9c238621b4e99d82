"""Scenarios: what services and their peers do. Results and invariants are the same in every world, whatever faults happen there."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random

from conversations import Contract, Then
from conversations.protocol.identifiers import uuid_text
from conversations.seal_keys import Key, KeyProvider, Keys, KeyTable
from conversations.testing import PeerDialog, Simulation
from conversations.testing.ledger import Handled
from conversations.testing.reading import state_of
from conversations.worker.residents import ENDPOINT_BYTES
from examples.loans import CREDIT, FRAUD, LOANS, Apply, Approved, CreditChecked, FraudChecked, Refused, loans
from tests.simulation.support import records, services
from tests.simulation.support.services import (
    COUNTING,
    ECHO,
    NOTICES,
    REMINDERS,
    SCATTERING,
    Add,
    Gathered,
    Heard,
    Remind,
    Ring,
    Say,
    Scatter,
    Total,
)
from tests.simulation.support.two_clusters import Both, begin
from tests.simulation.support.worlds import Scenario, World

LONGEST = timedelta(days=1, hours=1)
"""Time after which every dialog is over, because its lifetime has ended."""
GRUMBLE = f"{services.Grumble.__module__}.{services.Grumble.__qualname__}"


# -- what services do ------------------------------------------------------------------------------------------------


def saga(world: World) -> None:
    """Each applicant leads to two related dialogs. Their answers are combined in the state of the group."""
    with world.simulation(loans) as sim:
        credit, fraud = sim.peer("credit", accepts=[CREDIT]), sim.peer("fraud", accepts=[FRAUD])
        applicants = [sim.peer("web").begin_dialog("loans", LOANS) for _ in range(3)]
        for index, applicant in enumerate(applicants):
            applicant.send(Apply(customer=f"c{index}", amount=Decimal(10 + index)))
        sim.run()
        assert len(credit.dialogs()) == len(fraud.dialogs()) == 3
        good = world.random.randrange(3)
        for index, (check, other) in enumerate(zip(credit.dialogs(), fraud.dialogs(), strict=True)):
            check.send(CreditChecked(score=700 if index == good else 100))
            other.send(FraudChecked(suspicious=False))
        sim.run()
        answers = sorted(type(answer).__name__ for applicant in applicants for answer in applicant.received())
        approved = answers.count(Approved.__name__)
        assert approved in {0, 1}
        assert len(answers) == 3 == answers.count(Refused.__name__) + approved
        assert sim.open_dialogs() == []
        sim.check_invariants()


def counting(world: World) -> None:
    """Every message changes the state of its group, in three dialogs at the same time."""
    with world.simulation(services.counter()) as sim:
        dialogs = [sim.peer("web").begin_dialog("counter", COUNTING) for _ in range(3)]
        count(world, sim, dialogs)
        finish(sim, dialogs)


def count(world: World, sim: Simulation, dialogs: list[PeerDialog]) -> None:
    """Send numbers on several dialogs, some at a time, and check the totals."""
    said: list[list[int]] = [[] for _ in dialogs]
    for _ in range(world.random.randrange(1, 4)):
        for _ in range(world.random.randrange(1, 8)):
            which, amount = world.random.randrange(len(dialogs)), world.random.randrange(100)
            dialogs[which].send(Add(amount=amount))
            said[which].append(amount)
        sim.run()
    for which, dialog in enumerate(dialogs):
        totals = [sum(said[which][: n + 1]) for n in range(len(said[which]))]
        assert dialog.received() == [Total(total=total) for total in totals]
    sim.check_invariants()


def echoing(world: World) -> None:
    """One dialog has many messages, and an ``async def`` handler."""
    random = world.random
    with world.simulation(services.echo()) as sim:
        dialog = sim.peer("web").begin_dialog("echo", ECHO)
        texts = [f"{n}" for n in range(random.randrange(1, 30))]
        for text in texts:
            dialog.send(Say(text=text))
            if random.random() < 0.2:
                sim.run()
        sim.run()
        assert dialog.received() == [Say(text=text) for text in texts]
        sim.check_invariants()
        finish(sim, [dialog])


def forgetting(world: World) -> None:
    """Peers send messages and end their dialogs, without waiting for an answer."""
    with world.simulation(services.sink()) as sim:
        count = world.random.randrange(1, 10)
        for index in range(count):
            dialog = sim.peer("web").begin_dialog("sink", NOTICES)
            for number in range(3):
                dialog.send(Heard(text=f"{index}/{number}"))
            dialog.end()
        sim.run()
        assert sim.open_dialogs() == []
        handled = [entry for entry in sim.broker.ledger.handled if entry.service == "sink"]
        assert len(handled) == 3 * count
        sim.check_invariants()


def scattering(world: World) -> None:
    """A handler begins many related dialogs. Their answers are gathered in the state of the group, one at a time."""
    with world.simulation(services.scatterer(), services.laborer()) as sim:
        dialog = sim.peer("web").begin_dialog("scatterer", SCATTERING)
        parts = world.random.randrange(1, 12)
        dialog.send(Scatter(parts=parts))
        sim.run()
        assert dialog.take(Gathered).numbers == list(range(parts))
        assert sim.open_dialogs() == []
        sim.check_invariants()


def ringing(world: World) -> None:
    """The handler of each timer sets the next timer."""
    with world.simulation(services.bell()) as sim:
        dialog = sim.peer("web").begin_dialog("bell", REMINDERS)
        times = world.random.randrange(1, 5)
        dialog.send(Remind(times=times))
        sim.advance(timedelta(minutes=times, seconds=1))
        assert dialog.received() == [Ring(count=n + 1) for n in range(times)]
        assert dialog.ended
        assert sim.open_dialogs() == []
        sim.check_invariants()


def alarming(world: World) -> None:
    """Each of several timers with names fires once, in order. One is cancelled, and one is set anew by its own handler."""
    with world.simulation(services.alarm()) as sim:
        dialog = sim.peer("web").begin_dialog("alarm", REMINDERS)
        times = world.random.randrange(1, 6)
        dialog.send(Remind(times=times))
        sim.advance(timedelta(minutes=times + 1, seconds=30))
        assert dialog.received() == [Ring(count=n) for n in (1, 1, *range(2, times + 1))]
        assert dialog.ended
        assert sim.open_dialogs() == []
        sim.check_invariants()


def quarrelling(world: World) -> None:
    """Dialogs have errors of the application, messages that always fail, and ends from both sides, sometimes at the same time."""
    random = world.random
    with world.simulation(services.moody(), raise_failures=False) as sim:
        web = sim.peer("web")
        dialogs = [web.begin_dialog("moody", ECHO) for _ in range(4)]
        for _ in range(random.randrange(2, 12)):
            dialog = random.choice(dialogs)
            if not dialog.ended:
                speak(world, dialog)
            if random.random() < 0.4:
                sim.run()
        sim.run()
        sim.check_invariants()
        for dialog in dialogs:
            if dialog.error:
                assert dialog.error.code in {7, 500}
        assert {letter.exception for letter in sim.dead_letters("moody") if letter.exception} <= {GRUMBLE}
        sim.advance(LONGEST)
        assert sim.open_dialogs() == []
        sim.check_invariants()


def speak(world: World, dialog: PeerDialog) -> None:
    """Send a text, to which the moody service may react with an error or a failure, or end the dialog."""
    what = world.random.choice(["a", "b", "error", "poison", "end", "end with error"])
    if what == "end":
        dialog.end()
    elif what == "end with error":
        dialog.end_with_error(3, "enough")
    else:
        dialog.send(Say(text=what))


# -- what goes wrong ------------------------------------------------------------------------------------------------


def moving(world: World) -> None:
    """Partitions move between live workers while handlers are slow. Some workers do not know yet that they have lost a partition."""
    world.at_least(workers=2, move=0.15, stall=0.1, slow=0.3)
    with world.simulation(services.counter(), partitions=4) as sim:
        dialogs = [sim.peer("web").begin_dialog("counter", COUNTING) for _ in range(4)]
        count(world, sim, dialogs)
        finish(sim, dialogs)


def overlapping(world: World) -> None:
    """Handlers return between two attempts of a commit, and during a commit. Their messages must come after those of the commit."""
    world.at_least(slow=0.4, overlap=0.6, abort=0.3)
    with world.simulation(services.counter()) as sim:
        dialogs = [sim.peer("web").begin_dialog("counter", COUNTING) for _ in range(3)]
        count(world, sim, dialogs)
        finish(sim, dialogs)


def refusing(world: World) -> None:
    """Queues sometimes accept no records, while handlers continue. The messages of a dialog keep their order."""
    world.at_least(workers=2, slow=0.4, overlap=0.6, refuse=0.4, move=0.15)
    random = world.random
    with world.simulation(services.counter(), services.echo()) as sim:
        totals = [sim.peer(name).begin_dialog("counter", COUNTING) for name in ("web", "app", "web")]
        texts = [sim.peer(name).begin_dialog("echo", ECHO) for name in ("app", "web")]
        said: dict[str, list[int]] = {dialog.id: [] for dialog in (*totals, *texts)}
        for _ in range(random.randrange(2, 8)):
            for _ in range(random.randrange(1, 10)):
                dialog, number = random.choice([*totals, *texts]), random.randrange(100)
                dialog.send(Add(amount=number) if dialog in totals else Say(text=str(number)))
                said[dialog.id].append(number)
            sim.advance(timedelta(seconds=random.choice([0, 0, 0, 1, 5, 70])))
        sim.advance(timedelta(minutes=20))
        for dialog in totals:
            numbers = said[dialog.id]
            assert dialog.received() == [Total(total=sum(numbers[: n + 1])) for n in range(len(numbers))]
        for dialog in texts:
            assert dialog.received() == [Say(text=str(number)) for number in said[dialog.id]]
        for dialog in (*totals, *texts):
            dialog.end()
        sim.advance(timedelta(minutes=20))
        assert sim.open_dialogs() == []
        sim.check_invariants()


def misdating(world: World) -> None:
    """The machines' clocks are up to two days wrong, and jump. Totals, timers and ends are still right."""
    world.at_least(workers=2, skew=0.2, crash=0.05, move=0.05)
    with world.simulation(services.counter(), services.bell()) as sim:
        web = sim.peer("web")
        dialogs = [web.begin_dialog("counter", COUNTING, lifetime=timedelta(hours=2)) for _ in range(2)]
        bell = web.begin_dialog("bell", REMINDERS)
        times = world.random.randrange(1, 4)
        bell.send(Remind(times=times))
        count(world, sim, dialogs)
        sim.advance(timedelta(minutes=times, seconds=1))
        assert bell.received() == [Ring(count=n + 1) for n in range(times)]
        finish(sim, dialogs)


def dying(world: World) -> None:
    """Processes die before, during and after their transactions, and while they restore old local copies."""
    world.at_least(workers=2, crash=0.2, hang=0.1, survive=0.7)
    with world.simulation(services.counter()) as sim:
        dialogs = [sim.peer("web").begin_dialog("counter", COUNTING) for _ in range(3)]
        count(world, sim, dialogs)
        finish(sim, dialogs)


def poisoning(world: World) -> None:
    """A message that always fails ends its dialog. All later messages of the dialog are kept. All other dialogs are complete."""
    random = world.random
    # The test knows letters by their numbers, so a message is one record.
    with world.simulation(services.moody(), raise_failures=False, settings=world.settings()) as sim:
        dialogs = [sim.peer("web").begin_dialog("moody", ECHO) for _ in range(6)]
        poisoned = set(random.sample(range(6), random.randrange(1, 4)))
        texts: list[list[str]] = [[] for _ in dialogs]
        for number in range(random.randrange(2, 6)):
            for which, dialog in enumerate(dialogs):
                if not dialog.ended:
                    text = "poison" if which in poisoned and number == 1 else f"{number}"
                    dialog.send(Say(text=text))
                    texts[which].append(text)
            if random.random() < 0.5:
                sim.run()
        sim.run()
        for which, dialog in enumerate(dialogs):
            if which in poisoned:
                assert dialog.error is not None
                assert dialog.error.code == 500
                # An ERROR takes effect even if earlier messages are still on their way.
                assert dialog.received() in ([Say(text="0")], [])
            else:
                assert dialog.error is None
                assert dialog.received() == [Say(text=text) for text in texts[which]]
        # What the service has accepted is kept by the service. The rest comes back to its sender.
        both = sim.dead_letters("moody") + sim.dead_letters("web")
        # The ERROR may overtake a reply. Then the reply is a dead letter, too.
        kept = sorted((it.conversation, it.sequence) for it in both if it.from_initiator and it.sequence >= 0)
        assert {name for name, _ in kept} == {dialogs[which].id for which in poisoned}
        # The ERROR may also overtake a command to send. Then the command is a dead letter, and its message has no number.
        refused = Counter(it.conversation for it in both if it.reason == "command-refused")
        for which in poisoned:
            name, sent = dialogs[which].id, len(texts[which]) - 1
            numbers = [number for conversation, number in kept if conversation == name]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) <= sent <= len(numbers) + refused[name]
        sim.check_invariants()
        finish(sim, [dialog for which, dialog in enumerate(dialogs) if which not in poisoned])


def waiting(world: World) -> None:
    """Handlers take several steps, and only a few messages may wait. The queue pauses, and no message is lost."""
    world.at_least(slow=0.5)
    with world.simulation(
        services.echo(), settings=world.settings(waiting_bytes=600, cached_bytes=3 * ENDPOINT_BYTES)
    ) as sim:
        dialogs = [sim.peer("web").begin_dialog("echo", ECHO) for _ in range(world.random.randrange(2, 7))]
        texts = [[f"{which}/{n}" for n in range(world.random.randrange(1, 8))] for which in range(len(dialogs))]
        for which, dialog in enumerate(dialogs):
            for text in texts[which]:
                dialog.send(Say(text=text))
        sim.run()
        for which, dialog in enumerate(dialogs):
            assert dialog.received() == [Say(text=text) for text in texts[which]]
        sim.check_invariants()
        finish(sim, dialogs)


def expiring(world: World) -> None:
    """Dialogs live for minutes. A dialog whose lifetime is over breaks on both sides, and leaves no rows."""
    random = world.random
    with world.simulation(services.counter()) as sim:
        web = sim.peer("web")
        dialogs = [
            web.begin_dialog("counter", COUNTING, lifetime=timedelta(minutes=random.randrange(1, 9))) for _ in range(4)
        ]
        for _ in range(random.randrange(1, 5)):
            for dialog in dialogs:
                if not dialog.ended and random.random() < 0.5:
                    dialog.send(Add(amount=random.randrange(10)))
            sim.advance(timedelta(seconds=random.randrange(1, 200)))
        sim.advance(timedelta(minutes=10))
        assert sim.open_dialogs() == []
        for dialog in dialogs:
            assert dialog.ended
            assert dialog.error is None or dialog.error.code in {-8489, -8470}
        sim.check_invariants()
        forgotten(sim)


def renewing(world: World) -> None:
    """Dialogs break while their messages are on their way, again and again. Each message is handled once, in order, or comes back.

    In a third of the worlds a dialog keeps only its first messages until they are acknowledged, and may hold only as many.
    """
    world.at_least(workers=2, crash=0.1, move=0.1)
    random = world.random
    few = Random(world.seed * 41 + 9).random() < 0.3
    contract = Contract(
        "Counting", sent_by_initiator=[Add], sent_by_target=[Total], lifetime=timedelta(minutes=5), resend="automatic"
    )
    with world.simulation(services.counter(), settings=world.settings(dialog_bytes=200) if few else None) as sim:
        web = sim.peer("web")
        dialogs = [web.begin_dialog("counter", contract) for _ in range(3)]
        for _ in range(random.randrange(2, 6)):
            for dialog in dialogs:
                if not dialog.ended and random.random() < 0.7:
                    dialog.send(Add(amount=random.randrange(10)))
            if random.random() < 0.5:
                sim.broker.stop = lambda out: out.topic.endswith(".counter.queue") and random.random() < 0.5
            sim.advance(timedelta(seconds=random.randrange(1, 200)))
            if random.random() < 0.5:
                sim.broker.resume()
        sim.broker.resume()
        sim.run()
        sim.check_invariants()
        sim.advance(timedelta(minutes=40))
        assert sim.open_dialogs() == []
        sim.check_invariants()
        forgotten(sim)


def relaying(world: World) -> None:
    """Each message begins a new dialog, which may belong to another partition, by a command in the same transaction."""
    with world.simulation(services.hub()) as sim:
        sink = sim.peer("sink", accepts=[NOTICES])
        dialogs = [sim.peer("web").begin_dialog("hub", COUNTING) for _ in range(2)]
        amounts = [world.random.randrange(1_000) for _ in range(world.random.randrange(1, 9))]
        for amount in amounts:
            world.random.choice(dialogs).send(Add(amount=amount))
        sim.run()
        heard = sorted(tuple(Heard.model_validate(body).text for body in d.received()) for d in sink.dialogs())
        assert heard == sorted((f"{amount}", "and more") for amount in amounts)
        sim.check_invariants()
        finish(sim, dialogs)


def confusing(world: World) -> None:
    """Damaged, forged and misrouted records lie among the genuine ones. Each is set aside with its bytes, and has no other effect."""
    world.at_least(noise=0.3, duplicate=0.2)
    counting(world)


def replaying(world: World) -> None:
    """All records of the queues of both sides are appended again, before and after the end of the dialogs."""
    with world.simulation(services.counter()) as sim:
        dialogs = [sim.peer("web").begin_dialog("counter", COUNTING) for _ in range(2)]
        count(world, sim, dialogs)
        for service in ("counter", "web"):
            if world.random.random() < 0.7:
                records.replay(sim, service)
        count_again = [len(dialog.received()) for dialog in dialogs]
        finish(sim, dialogs)
        for service in ("counter", "web"):
            records.replay(sim, service)
        sim.run()
        assert [len(dialog.received()) for dialog in dialogs] == count_again
        assert sim.open_dialogs() == []
        sim.check_invariants()


def overflowing(world: World) -> None:
    """At most three records may be held behind a gap. More records break the dialog on both sides, and their bytes are kept."""
    world.at_least(reorder=0.4)
    with world.simulation(services.echo(), settings=world.settings(held_messages=3)) as sim:
        dialogs = [sim.peer("web").begin_dialog("echo", ECHO) for _ in range(2)]
        for dialog in dialogs:
            # At most seven messages: a number that is more than twice the limit ahead would not be remembered.
            for number in range(world.random.randrange(1, 8)):
                dialog.send(Say(text=f"{number}"))
        sim.run()
        for dialog in dialogs:
            if dialog.error is None:
                texts = [Say.model_validate(body).text for body in dialog.received()]
                assert texts == [f"{n}" for n in range(len(texts))]
            else:
                assert dialog.error.code < 0
        sim.check_invariants()
        sim.advance(LONGEST)
        assert sim.open_dialogs() == []
        sim.check_invariants()


def parking(world: World) -> None:
    """Messages that fail for some time wait in their order. Each dialog handles the messages that its policies allow, in order, once each."""
    random = world.random
    with world.simulation(raise_failures=False, settings=world.settings()) as sim:
        sim.deploy(services.fickle(sim.clock.now))
        dialogs = [sim.peer("web").begin_dialog("fickle", ECHO) for _ in range(4)]
        said: list[list[str]] = [[] for _ in dialogs]
        for _ in range(random.randrange(2, 16)):
            which = random.randrange(len(dialogs))
            if dialogs[which].ended:
                continue
            how = random.choice(["fine", "fine", "fine", "skip", "end", "hold", "later"])
            amount = sim.clock.now() + random.randrange(60_000_000) if how == "later" else random.randrange(1, 5)
            said[which].append(f"{len(said[which])} {how} {amount}")
            dialogs[which].send(Say(text=said[which][-1]))
            if random.random() < 0.5:
                sim.advance(timedelta(seconds=random.choice([0, 1, 5, 30])))
        sim.advance(timedelta(minutes=10))
        for dialog, texts in zip(dialogs, said, strict=True):
            numbers = allowed(texts)
            handled = [e.number for e in sim.broker.ledger.handled if e.service == "fickle" and dialog.id == name_of(e)]
            assert handled == numbers
            replies = [int(Say.model_validate(body).text) for body in dialog.received()]
            assert replies == numbers[: len(replies)]
            assert len(replies) == len(numbers) or dialog.error
        sim.check_invariants()
        sim.advance(LONGEST)
        assert sim.open_dialogs() == []
        sim.check_invariants()
        forgotten(sim)


def name_of(entry: Handled) -> str:
    """Return the conversation id of a handled message, as text."""
    return uuid_text(entry.conversation)


def allowed(texts: list[str]) -> list[int]:
    """Return the numbers of the messages of a dialog that are handled in the end.

    A message is not handled if its policy gives up on it, or if it follows a message at which the dialog ends or waits.
    """
    numbers = []
    for number, text in enumerate(texts):
        _, how, amount = text.split()
        policy = next((it for it in services.FICKLE if it.exception is services.FAILURES.get(how)), None)
        if policy is None or int(amount) <= len(policy.delays):
            numbers.append(number)
        elif policy.then is not Then.SKIP:
            break
    return numbers


# -- two clusters ---------------------------------------------------------------------------------------------------------


def crossing(world: World) -> None:
    """Two clusters without keys."""
    _cross(world, None)


def sealing(world: World) -> None:
    """Two clusters whose services seal what they say to each other, each direction with another key."""
    new, old = (Key(name, world.random.randbytes(32)) for name in ("new", "old"))
    _cross(world, KeyTable({"here": Keys((new, old)), "there": Keys((old, new)), "web": Keys((new,))}))


def _cross(world: World, keys: KeyProvider | None) -> None:
    """What goes between two clusters is lost, damaged, repeated and late. Every dialog ends on both sides, after each message once and in order."""
    world.at_least(lose=world.random.choice([0.05, 0.15, 0.3]), damage=world.random.choice([0.0, 0.05, 0.2]))
    both = Both()
    with world.simulation(both.here, both.there, far=["there"], settings=replace(world.settings(), keys=keys)) as sim:
        sim.log_clock_there.set_off(timedelta(seconds=world.random.choice([0, 0, -90, 90])))
        said = []
        for number in range(world.random.randrange(1, 5)):
            texts = [f"{number}.{n}" for n in range(world.random.randrange(6))]
            said.append([*texts, "last"])
            begin(sim, *said[-1])
            if world.random.random() < 0.5:
                sim.advance(timedelta(seconds=world.random.randrange(8)))
        sim.advance(timedelta(minutes=15))
        # A handler whose transaction failed ran again. The invariants check that its effects are there once.
        heard, answered = (
            sorted(list(dict.fromkeys(it)) for it in told.values()) for told in (both.heard, both.answers)
        )
        assert heard == answered == sorted(said)
        assert both.ended == set(both.heard)
        sim.check_invariants()
        for dialog in sim.peer("web").dialogs():
            dialog.end()
        forgotten(sim)


# -- the end ------------------------------------------------------------------------------------------------------------


def finish(sim: Simulation, dialogs: list[PeerDialog]) -> None:
    """End every dialog. Check that no endpoint stays open on either side."""
    for dialog in dialogs:
        dialog.end()
    sim.run()
    assert sim.open_dialogs() == []
    sim.check_invariants()


def forgotten(sim: Simulation) -> None:
    """Check that two days later no dialog is left in memory or in the state topics."""
    sim.chance.active = False
    sim.advance(timedelta(days=2))
    for broker in sim.brokers:
        for service in broker.services:
            tables = state_of(broker, service)
            left = [key for table in tables for key in table if key[:1] not in {b"P", b"I", b"K", b"L"}]
            assert not left, f"{service} still remembers {left}"
    sim.check_invariants()
    sim.check_forgotten()


SCENARIOS: tuple[Scenario, ...] = (
    saga, counting, echoing, forgetting, scattering, ringing, quarrelling,
    moving, overlapping, refusing, misdating, dying, poisoning, waiting, expiring, relaying, confusing, replaying, overflowing, parking, renewing, alarming, crossing, sealing,
)  # fmt: skip
