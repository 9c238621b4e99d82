"""Who belongs to a conversation group: a key says so, and anybody may choose any key."""

import sys
import threading
from dataclasses import replace
from types import FrameType
from typing import Any
from uuid import UUID

import pytest

from conversations import Dialog, Service
from conversations.protocol.command import Begin, Command, Operation, Send, encode_command, topic_for
from conversations.protocol.envelope import Kind
from conversations.testing import Simulation
from conversations.worker import groups
from tests.simulation.support import records
from tests.simulation.support.services import ECHO, Say

EMPTY = b'{"text":"x"}'


def company(name: str = "shop") -> Service[dict[str, Any]]:
    """Answers with the group as it sees it: who opened it, and all that are in it."""
    service = Service(name, accepts=[ECHO], initiates=[ECHO])

    @service.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        group = dialog.group
        members = ",".join(sorted(it.id for it in group.dialogs()))
        dialog.send(Say(text=f"{body.text} {group.opened_by.id} {members}"))

    return service


def command(sim: Simulation, conversation: UUID, key: str, *operations: Operation, service: str = "shop") -> None:
    """Append a command of this service under any key."""
    asked = Command(
        sim.chance.random.randbytes(16), conversation.bytes, True, key, "", service, sim.clock.now(), operations
    )
    sim.broker.append_keyed(service, topic_for(asked), key.encode(), encode_command(asked))


def said(sim: Simulation, peer: str) -> list[str]:
    """Texts that were sent to a peer, in order."""
    return [Say.model_validate_json(it.body).text for it in records.queued(sim, peer) if it.kind is Kind.MESSAGE]


@pytest.mark.parametrize("restart", [False, True])
def test_a_peer_cannot_pull_another_ones_dialog_into_its_group(restart: bool) -> None:
    """Its key is the id of the other's dialog, as of a correlation id that was passed on."""
    with Simulation(company(), partitions=1) as sim:
        owned = sim.peer("web").begin_dialog("shop", ECHO)
        owned.send(Say(text="mine"))
        sim.run()
        if restart:
            sim.crash("shop")
        sim.peer("stranger")
        own = records.drawn(sim)
        prefix = replace(records.first_of(sim, own, "shop", "Echo"), reply_key=owned.id)
        records.post(sim, records.message(prefix, 0, "Say", EMPTY))
        sim.run()
        assert said(sim, "stranger") == [f"x {own} {own}"]
        assert owned.received() == [Say(text=f"mine {owned.id} {owned.id}")]


@pytest.mark.parametrize("restart", [False, True])
def test_a_dialog_of_ones_own_stays_in_its_group_when_another_group_is_named_after_it(restart: bool) -> None:
    """A client may name a group after a dialog that is in another group."""
    with Simulation(company(), partitions=1) as sim:
        web = sim.peer("web", accepts=[ECHO])
        first, second = records.drawn(sim, 1), records.drawn(sim, 2)
        command(sim, first, "orders", Begin("web", "Echo"), Send("Say", "application/json", EMPTY))
        sim.run()
        if restart:
            sim.crash("shop")
        command(sim, second, str(first), Begin("web", "Echo"), Send("Say", "application/json", EMPTY))
        sim.run()
        for dialog in web.dialogs():
            dialog.send(Say(text="who"))
        sim.run()
        expected = [f"who {first} {first}", f"who {second} {second}"]
        assert sorted(text for text in said(sim, "web") if text.startswith("who")) == sorted(expected)
        sim.check_invariants()


def test_a_refused_command_does_not_decide_the_group_of_a_dialog_that_begins_later() -> None:
    """It asked for a dialog nobody knew, under another key of the same partition."""
    with Simulation(company(), partitions=1) as sim:
        web = sim.peer("web", accepts=[ECHO])
        first, second = records.drawn(sim, 1), records.drawn(sim, 2)
        command(sim, first, str(first), Begin("web", "Echo"), Send("Say", "application/json", EMPTY))
        command(sim, second, str(first), Send("Say", "application/json", EMPTY))
        sim.run()
        assert [letter.code for letter in sim.dead_letters("shop")] == [8426]
        command(sim, second, "later", Begin("web", "Echo"), Send("Say", "application/json", EMPTY))
        sim.run()
        for dialog in web.dialogs():
            dialog.send(Say(text="who"))
        sim.run()
        expected = [f"who {first} {first}", f"who {second} {second}"]
        assert sorted(text for text in said(sim, "web") if text.startswith("who")) == sorted(expected)
        sim.check_invariants()


def test_a_stray_record_does_not_decide_the_key_of_a_dialog_that_begins_later() -> None:
    """An acknowledgement in a conversation nobody knows is set aside, whatever key it came with."""
    with Simulation(company(), partitions=1) as sim:
        sim.peer("stranger")
        own = records.drawn(sim)
        prefix = records.first_of(sim, own, "shop", "Echo")
        stray = replace(records.message(prefix, -1, "", b""), kind=Kind.ACK, content_type="")
        records.post(sim, replace(stray, prefix=replace(prefix, reply_key="elsewhere")))
        sim.run()
        assert [letter.reason for letter in sim.dead_letters("shop")] == ["set-aside"]
        records.post(sim, records.message(prefix, 0, "Say", EMPTY))
        sim.run()
        assert said(sim, "stranger") == [f"x {own} {own}"]


def test_a_client_begins_no_dialog_in_a_full_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group's row has all its members, so their number has a limit. The command is a letter, and the other dialogs continue."""
    monkeypatch.setattr(groups, "GROUP_MEMBERS", 2)
    with Simulation(company()) as sim:
        web = sim.peer("web", accepts=[ECHO])
        for number in range(3):
            begin = Begin("web", "Echo"), Send("Say", "application/json", EMPTY)
            command(sim, records.drawn(sim, number), "account-42", *begin)
        sim.run()
        assert [(letter.reason, letter.code) for letter in sim.dead_letters("shop")] == [("command-refused", 50007)]
        assert len(web.dialogs()) == 2
        sim.check_invariants()


def test_messages_of_a_group_are_handled_in_the_order_in_which_they_arrive() -> None:
    """Across its dialogs: no dialog has its turn before what came earlier to another one."""
    with Simulation(company(), partitions=1) as sim:
        web = sim.peer("web", accepts=[ECHO])
        for number in range(2):
            begin = Begin("web", "Echo"), Send("Say", "application/json", EMPTY)
            command(sim, records.drawn(sim, number), "account-42", *begin)
        sim.run()
        first, second = web.dialogs()
        for number, dialog in enumerate((first, second, first, second, second)):
            dialog.send(Say(text=str(number)))
        sim.run()
        numbered = [text.split()[0] for text in said(sim, "web") if text[0].isdigit()]
        assert numbered == ["0", "1", "2", "3", "4"]
        sim.check_invariants()


EACH = 20


def in_step(other: threading.Barrier) -> Any:
    """Return a trace function: two threads enter each line of ``begin_dialog``, and of module ``apart``, together."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code.co_name != "begin_dialog" and not code.co_filename.endswith("conversations/unrelated_dialogs.py"):
            return None
        other.wait(10)
        return trace

    return trace


def test_threads_of_a_handler_begin_dialogs_apart_at_the_same_time() -> None:
    """Every dialog begins in a group of its own: a dialog that stayed in the handler's partition would never hear its peer."""
    hub = Service("hub", accepts=[ECHO], initiates=[ECHO])
    heard: list[str] = []

    @hub.on(Say)
    def say(body: Say, dialog: Dialog) -> None:
        if body.text != "begin":
            heard.append(body.text)
            return

        together = in_step(threading.Barrier(2))

        def begin(thread: int) -> None:
            sys.settrace(together)
            for number in range(EACH):
                dialog.group.begin_dialog("echo", ECHO, related=False).send(Say(text=f"{thread} {number}"))

        threads = [threading.Thread(target=begin, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    echo = Service("echo", accepts=[ECHO])

    @echo.on(Say)
    def answer(body: Say, dialog: Dialog) -> None:
        dialog.send(body)

    with Simulation(hub, echo, partitions=16) as sim:
        sim.peer("web").begin_dialog("hub", ECHO).send(Say(text="begin"))
        sim.run()
        assert sim.dead_letters("hub") == []
    assert sorted(heard) == sorted(f"{thread} {number}" for thread in range(2) for number in range(EACH))
