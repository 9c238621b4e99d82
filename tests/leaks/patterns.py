"""The patterns: how dialogs end. Each begins some dialogs, lets them end, and asserts that what it is about has happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from conversations.protocol import rows
from conversations.protocol.command import End, EndWithError
from conversations.protocol.envelope import Kind
from conversations.protocol.topics import QUEUE, events_topic, service_topic
from conversations.testing.reading import visible
from tests.leaks.services import AGAIN, ENDLESS, LIFETIME, MINUTE, SHARED, TALK, UNKEPT
from tests.leaks.world import SERVICES, World
from tests.simulation.support import records

LATE = LIFETIME + MINUTE
"""Time after which a lifetime is over."""


@contextmanager
def calls(world: World, **expected: int) -> Iterator[None]:
    """Check how often the handlers run in the block: ``desk_said=3``, ``caller_error_8489=2``. No other handler may run."""
    before = world.services.calls.copy()
    yield
    ran = world.services.calls - before
    names = {name.replace(": ", "_").replace(" ", "_").replace("-", ""): number for name, number in ran.items()}
    assert names == expected, f"{world.pattern}: the handlers that ran are {names}, expected are {expected}"


def fire_and_forget(world: World, count: int) -> None:
    """The initiator sends and ends at once."""
    with calls(world, desk_said=2 * count, desk_end=count):
        for _ in range(count):
            world.begin(TALK, world.say("keep"), world.say("quiet"), End(), key="once")
        world.sim.run()


def fire_and_forget_of_a_handler(world: World, count: int) -> None:
    """A handler begins a related dialog, sends and ends at once; then it ends its own dialog."""
    with calls(world, desk_said=count, caller_said=count, caller_end=2 * count):
        for _ in range(count):
            world.begin(TALK, world.say("relay end"))
        world.sim.run()


def shared_group(world: World, count: int) -> None:
    """All dialogs share one group at the target. Its state stays until a handler deletes it: the last message does."""
    with calls(world, desk_said=count + 1, desk_end=count):
        group = f"shared {world.sim.clock.now()}"
        first, *others = (world.begin(SHARED, world.say("keep"), group=group) for _ in range(count))
        world.sim.run()
        assert world.rows("desk", rows.GROUP), "the group has no state"
        for conversation in others:
            world.ask(conversation, End())
        world.sim.run()
        world.ask(first, world.say("drop"), End())
        world.sim.run()


def target_never_ends(world: World, count: int) -> None:
    """Neither side ends: the lifetime ends both."""
    with calls(world, desk_said=count, caller_said=count, desk_error_8489=count, caller_error_8489=count):
        for _ in range(count):
            world.begin(TALK, world.say("keep answer"))
        world.sim.advance(LATE)


def only_the_initiator_ends(world: World, count: int) -> None:
    """The initiator has ended, and the target's answer to the END is lost: the lifetime ends the initiator."""
    with calls(world, desk_said=count, desk_end=count, caller_error_8489=count):
        world.lose("caller", kinds=(Kind.END, Kind.ACK))
        for _ in range(count):
            world.begin(UNKEPT, world.say("quiet"), End())
        world.sim.run()
        records.pass_all(world.sim)
        open_ones = len(world.sim.open_dialogs())
        assert open_ones == count, f"{open_ones} dialogs are open, not {count}"
        world.sim.advance(LATE)


def error_of_the_initiator(world: World, count: int) -> None:
    """The initiator ends with an error."""
    with calls(world, desk_said=count, desk_error_7=count):
        begun = [world.begin(TALK, world.say("keep")) for _ in range(count)]
        world.sim.run()
        for conversation in begun:
            world.ask(conversation, EndWithError(7, "enough"))
        world.sim.run()


def error_of_both(world: World, count: int) -> None:
    """Both sides end with an error at the same time, and each learns the error of the other."""
    with calls(world, desk_said=count, desk_error_7=count, caller_error_8=count):
        begun = [world.begin(TALK, world.say("quiet")) for _ in range(count)]
        world.sim.run()
        for conversation in begun:
            world.ask(conversation, EndWithError(7, "enough"))
            world.ask_desk(conversation, EndWithError(8, "enough"))
        world.sim.run()


def cleanup_of_the_initiator(world: World, count: int) -> None:
    """An operator closes the initiator's side. Nobody tells the target: its lifetime ends it."""
    with calls(world, desk_said=count, desk_error_8489=count):
        begun = [world.begin(TALK, world.say("keep")) for _ in range(count)]
        world.sim.run()
        for conversation in begun:
            world.clean_up("caller", conversation)
        world.sim.run()
        assert len(world.sim.open_dialogs()) >= count, "the targets are closed too"
        world.sim.advance(LATE)


def cleanup_of_the_target(world: World, count: int) -> None:
    """An operator closes the target's side. Half of the initiators learn it when they send, the others end with their lifetime."""
    told = count // 2
    expected = {"caller_error_8462": told, "caller_error_8489": count - told}
    with calls(world, desk_said=count, **{name: number for name, number in expected.items() if number}):
        begun = [world.begin(TALK, world.say("keep")) for _ in range(count)]
        world.sim.run()
        for conversation in begun:
            world.clean_up("desk", conversation)
        world.sim.run()
        for conversation in begun[:told]:
            world.ask(conversation, world.say("quiet"))
        world.sim.advance(LATE)


def expired_on_the_way(world: World, count: int) -> None:
    """The messages arrive after the lifetime: they are refused, and come back as dead letters."""
    with calls(world, caller_error_8489=count):
        world.lose("desk")
        for _ in range(count):
            world.begin(TALK, world.say("keep"), world.say("quiet"))
        world.sim.advance(LATE)
        world.sim.broker.resume()
        world.sim.run()
        world.sim.advance(MINUTE)


def unlimited(world: World, count: int) -> None:
    """There is no lifetime: both sides end, at the same time or one after the other."""
    crossing = count // 2
    with calls(world, desk_said=count, **({"desk_end": count - crossing} if count > crossing else {})):
        begun = [world.begin(ENDLESS, world.say("keep")) for _ in range(count)]
        world.sim.advance(10 * LIFETIME)
        assert len(world.sim.open_dialogs()) >= count, "an unlimited lifetime is over"
        for at, conversation in enumerate(begun):
            world.ask(conversation, End())
            if at < crossing:
                world.ask_desk(conversation, End())
        world.sim.run()


def fenced(world: World, count: int) -> None:
    """Messages are lost, and the lifetime ends: what was not accepted goes to a new dialog, which the initiator ends."""
    renewed = _events(world, "RENEWED")
    with calls(world, desk_said=3 * count, desk_error_8489=count, desk_end=count):
        begun = [world.begin(AGAIN, world.say("keep")) for _ in range(count)]
        world.sim.run()
        world.lose("desk", kinds=(Kind.MESSAGE, Kind.END))
        for conversation in begun:
            world.ask(conversation, world.say("quiet"), world.say("quiet"), End())
        world.sim.run()
        world.sim.advance(LATE)
        records.pass_all(world.sim)
        world.sim.advance(5 * MINUTE)
    assert _events(world, "RENEWED") - renewed == count, "no new dialog"


def fenced_and_silent(world: World, count: int) -> None:
    """As ``fenced``, but nobody ends the new dialog: its lifetime does."""
    renewed = _events(world, "RENEWED")
    with calls(world, desk_said=2 * count, caller_error_8489=count, desk_error_8489=2 * count):
        begun = [world.begin(AGAIN, world.say("keep")) for _ in range(count)]
        world.sim.run()
        world.lose("desk", 1)
        for conversation in begun:
            world.ask(conversation, world.say("quiet"))
        world.sim.run()
        world.sim.advance(LATE)
        records.pass_all(world.sim)
        world.sim.advance(2 * LATE)
    assert _events(world, "RENEWED") - renewed == count, "no new dialog"


def fence_without_answer(world: World, count: int) -> None:
    """Nobody answers when the initiator asks what was accepted: its messages become dead letters that say so."""
    uncertain = _uncertain(world)
    with calls(world, desk_said=count, desk_error_8489=count, caller_error_8489=count):
        begun = [world.begin(AGAIN, world.say("keep")) for _ in range(count)]
        world.sim.run()
        world.lose("desk", kinds=(Kind.MESSAGE, Kind.FENCE))
        for conversation in begun:
            world.ask(conversation, world.say("quiet"))
        world.sim.advance(LATE + 15 * MINUTE)
        records.pass_all(world.sim)
        world.sim.advance(MINUTE)
    assert _uncertain(world) - uncertain == count, "no uncertain letters"


def held(world: World, count: int) -> None:
    """A message is late, those behind it arrived early, and the initiator ends with an error. Then the late one arrives."""
    with calls(world, desk_said=count, desk_error_7=count):
        begun = [world.begin(UNKEPT, world.say("quiet")) for _ in range(count)]
        world.sim.run()
        world.lose("desk", 1)
        for conversation in begun:
            world.ask(conversation, *(world.say("quiet") for _ in range(3)))
        world.sim.run()
        assert world.rows("desk", rows.HELD) == 2 * count, "no message is held"
        for conversation in begun:
            world.ask(conversation, EndWithError(7, "enough"))
        world.sim.run()
        world.sim.broker.resume()
        world.sim.run()


def parked(world: World, count: int) -> None:
    """A message failed and waits for a human, others wait behind it, and the lifetime ends. A third is cleaned up, a third is ended."""
    with calls(world, desk_said=count, desk_error_8489=count - count // 3 * 2, caller_error_8489=count - count // 3):
        begun = [world.begin(TALK, world.say("fail"), world.say("quiet")) for _ in range(count)]
        world.sim.run()
        assert world.rows("desk", rows.PARK) == count, "no message is parked"
        assert world.rows("desk", rows.PARKED) == 2 * count, "nothing waits behind it"
        for conversation in begun[: count // 3]:
            world.clean_up("desk", conversation)
        for conversation in begun[count // 3 : 2 * (count // 3)]:
            world.ask(conversation, End())
            world.ask_desk(conversation, End())
        world.sim.run()
        world.sim.advance(LATE)


def failed_timer(world: World, count: int) -> None:
    """The handler of a timer failed and waits for a human, and the lifetime ends."""
    with calls(world, desk_said=count, desk_timer=count, desk_error_8489=count, caller_error_8489=count):
        for _ in range(count):
            world.begin(TALK, world.say("timer"))
        world.sim.advance(2 * MINUTE)
        assert world.rows("desk", rows.RETRY) == count, "no handler waits"
        world.sim.advance(LATE)


def timer_of_the_past(world: World, count: int) -> None:
    """A timer is set when the dialog ends: it never fires."""
    with calls(world, desk_said=count, desk_end=count):
        for _ in range(count):
            world.begin(TALK, world.say("timer"), End())
        world.sim.advance(2 * MINUTE)


def failed_named_timers(world: World, count: int) -> None:
    """The handlers of two timers with names wait for a human, and a third timer is set. Sides are closed, are ended, or outlive the third timer."""
    third = count // 3
    with calls(
        world,
        desk_said=count,
        desk_timer=2 * count + count - 2 * third,
        desk_error_8489=count - 2 * third,
        caller_error_8489=count - third,
    ):
        begun = [world.begin(TALK, world.say("named")) for _ in range(count)]
        world.sim.advance(2 * MINUTE)
        assert world.rows("desk", rows.RETRY) == 2 * count, "the handlers do not wait"
        for conversation in begun[:third]:
            world.clean_up("desk", conversation)
        for conversation in begun[third : 2 * third]:
            world.ask(conversation, End())
            world.ask_desk(conversation, End())
        world.sim.run()
        assert world.rows("desk", rows.RETRY) == 2 * (count - 2 * third), "handlers of closed sides wait"
        world.sim.advance(LATE)


def named_timers_of_the_past(world: World, count: int) -> None:
    """Timers with names are set when the dialog ends: they never fire."""
    with calls(world, desk_said=count, desk_end=count):
        for _ in range(count):
            world.begin(TALK, world.say("named"), End())
        world.sim.advance(10 * MINUTE)


def delayed(world: World, count: int) -> None:
    """The target's queue takes no records until the lifetime is over. Half of the initiators have ended."""
    topic = service_topic(world.sim.broker.namespace, "desk", QUEUE)
    ended = count // 2
    with calls(world, caller_error_8489=count):
        world.sim.broker.forbidden.add(topic)
        for at in range(count):
            world.begin(TALK, world.say("keep"), *([End()] if at < ended else []))
        world.sim.run()
        assert world.rows("caller", rows.DELAYED) >= count, "nothing is delayed"
        world.sim.advance(LATE)
        world.sim.broker.forbidden.clear()
        world.sim.advance(3 * MINUTE)


def pooled(world: World, count: int) -> None:
    """Pools replace their dialogs, at first while the target's queue takes no records: ten dialogs of a key wait for each other."""
    topic = service_topic(world.sim.broker.namespace, "desk", QUEUE)
    with calls(world, desk_said=count):
        world.sim.broker.forbidden.add(topic)
        for at in range(count):
            world.pool(f"{world.sim.clock.now()}.{at // 10}", world.say("keep"))
        world.sim.run()
        assert world.rows("caller", rows.SUCCESSION) == (count + 9) // 10, "a key has no succession"
        world.sim.broker.forbidden.clear()
        world.sim.advance(LATE / 2)
        assert world.rows("caller", rows.SUCCESSION) == 0, "the last dialog of a key is not replaced"


def _events(world: World, name: str) -> int:
    asked = f'"event":"{name}"'.encode()
    found = visible(world.sim.broker, events_topic(world.sim.broker.namespace))
    return sum(asked in (record.value() or b"").replace(b" ", b"") for record in found)


def _uncertain(world: World) -> int:
    return sum(letter.is_uncertain for service in SERVICES for letter in world.sim.dead_letters(service))


Pattern = Callable[[World, int], None]
PATTERNS: dict[str, Pattern] = {
    function.__name__.replace("_", "-"): function
    for function in (
        fire_and_forget, fire_and_forget_of_a_handler, shared_group, target_never_ends, only_the_initiator_ends,
        error_of_the_initiator, error_of_both, cleanup_of_the_initiator, cleanup_of_the_target, expired_on_the_way,
        unlimited, fenced, fenced_and_silent, fence_without_answer, held, parked, failed_timer, timer_of_the_past,
        failed_named_timers, named_timers_of_the_past, delayed, pooled,
    )
}  # fmt: skip
