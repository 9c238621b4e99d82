"""Answers to requests of clients in a worker's process: when they are told, and what follows if the step with the answer is rolled back."""

from typing import Any
from uuid import UUID

import pytest

from conversations import Dialog, Service
from conversations.protocol.command import Begin, Command, Send, encode_command, topic_for
from conversations.protocol.effects import Failure
from conversations.protocol.envelope import Kind
from conversations.testing import Faults, Simulation
from conversations.worker import Worker, watchers
from conversations.worker.watchers import Watchers
from tests.simulation.support import records, services
from tests.simulation.support.services import ECHO, Say


class Request:
    """A client's request. It forgets its conversation as soon as it has its answer, as a client does."""

    def __init__(self, sim: Simulation, conversation: UUID) -> None:
        self._sim, self.conversation = sim, conversation
        self.told: list[bool] = []
        """For each time that the answer was told: True if the END was sent, so that the step was committed."""

    def wants(self, message_type: str) -> bool:
        return message_type == "Say"

    def message(self, message_type: str, body: object) -> None:
        assert (message_type, body) == ("Say", Say(text="x"))
        self.told.append(self.has_ended())
        for worker in workers(self._sim):
            worker.context.watchers.forget(self.conversation.bytes)

    def has_ended(self) -> bool:
        return Kind.END in [it.kind for it in records.queued(self._sim, "echo")]

    def taken(self) -> None:
        pass

    def acknowledged(self) -> None:
        pass

    def over(self, failure: Failure | None) -> None:
        pass


def workers(sim: Simulation) -> list[Worker]:
    return [sim.worker("web")]


def asked(sim: Simulation) -> Request:
    """Let a client of the service web ask the service echo."""
    request = Request(sim, records.drawn(sim))
    sim.worker("web").context.watchers.watch(request.conversation.bytes, request)
    operations = Begin("echo", "Echo", -1, str(request.conversation)), Send("Say", "application/json", b'{"text":"x"}')
    key = str(request.conversation)
    command = Command(
        sim.chance.random.randbytes(16), request.conversation.bytes, True, key, "", "web", sim.clock.now(), operations
    )
    sim.broker.append_keyed("web", topic_for(command), key.encode(), encode_command(command))
    return request


def web(*, handles: bool) -> Service[dict[str, Any]]:
    service: Service[dict[str, Any]] = Service("web", initiates=[ECHO], ignores=[] if handles else [Say])
    if handles:

        @service.on(Say)
        def say(_: Say, dialog: Dialog[dict[str, Any]]) -> None:
            dialog.group.dialogs()

    return service


@pytest.mark.parametrize("handles", [False, True])
def test_an_answer_without_a_handler_is_told_before_the_commit_and_another_one_after_it(handles: bool) -> None:
    """The peer has committed the answer. Only a handler's results need the commit of this side."""
    with Simulation(services.echo(), web(handles=handles), partitions=1) as sim:
        request = asked(sim)
        sim.run()
        assert request.told == [handles]
        assert request.has_ended()
        assert not sim.worker("web").context.watchers.there


def test_an_answer_whose_step_is_rolled_back_ends_its_dialog_all_the_same() -> None:
    """The client has its answer and has forgotten the request. The step that reads the answer again still ends the dialog, once."""
    again = 0
    for seed in range(40):
        with Simulation(services.echo(), web(handles=False), partitions=1, faults=Faults(seed=seed, abort=0.4)) as sim:
            request = asked(sim)
            sim.run()
            assert request.told == [False]
            again += sim.worker("web").context.counts.traffic.restored > 1
            ends = [it for it in records.queued(sim, "echo") if it.kind is Kind.END]
            assert len({it.seq for it in ends}) == 1, "the dialog would stay open until its lifetime ends"
    assert again, "no step was rolled back, so nothing is shown"


def test_answers_that_are_never_committed_here_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker has taken the partition over, and reads the answer there."""
    monkeypatch.setattr(watchers, "MOST", 3)
    kept = Watchers()
    request = Request.__new__(Request)
    for number in range(5):
        kept.answer(bytes([number]), request, "Say", Say(text="x"))
    assert [kept.find(bytes([number])) is not None for number in range(5)] == [False, False, True, True, True]
    assert len(kept.take_answers()) == 5
    assert not kept.take_answers()
