"""A dialog belongs to one run of one handler: used after it, every verb raises, and nothing vanishes without a word."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from time import monotonic

import pytest
from pydantic import BaseModel

from conversations import Contract, Dialog, HandlerOver, Service, local

LONGEST = 30.0
SHORT = timedelta(seconds=30)


class Ask(BaseModel):
    what: str = ""


class Answer(BaseModel):
    text: str = ""


SALES = Contract("Sales", sent_by_any=[Ask, Answer])

VERBS: dict[str, Callable[[Dialog], object]] = {
    "send": lambda it: it.send(Answer()),
    "end": lambda it: it.end(),
    "end with error": lambda it: it.end_with_error(1, "late"),
    "set a timer": lambda it: it.set_timer(timedelta(seconds=1)),
    "cancel a timer": lambda it: it.cancel_timer(),
    "publish": lambda it: it.publish("plain", None, None),
    "begin a dialog": lambda it: it.group.begin_dialog("shop", SALES),
    "end the group": lambda it: it.group.end_with_error(1, "late"),
    "read the state": lambda it: it.group.state,
    "replace the state": lambda it: setattr(it.group, "state", {}),
    "send on the opener": lambda it: it.group.opened_by.send(Answer()),
}


class Shop:
    """A service whose handlers keep what they were given."""

    def __init__(self) -> None:
        self.kept: list[Dialog] = []
        self.told: list[BaseException] = []
        self.threads: list[threading.Thread] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.over = threading.Event()
        self.service = Service("shop", accepts=[SALES], initiates=[SALES])
        self.service.on(Ask)(self.ask)
        self.service.on(Answer)(self.answer)
        self.service.on_timer()(self.timer)

    def ask(self, body: Ask, dialog: Dialog) -> None:
        if self.kept:
            self.attempt(self.kept[0])
        self.kept.append(dialog)
        if body.what == "thread":
            self.threads.append(threading.Thread(target=self.later, args=(dialog,)))
            self.threads[0].start()
        elif body.what == "timer":
            dialog.set_timer(timedelta(0))
        dialog.send(Answer(text="now"))

    async def answer(self, body: Answer, dialog: Dialog) -> None:
        self.tasks.append(asyncio.create_task(self.much_later(dialog)))
        dialog.send(Answer(text="now"))

    def timer(self, dialog: Dialog) -> None:
        self.kept.append(dialog)
        dialog.send(Answer(text="now"))

    def later(self, dialog: Dialog) -> None:
        assert self.over.wait(LONGEST)
        self.attempt(dialog)

    async def much_later(self, dialog: Dialog) -> None:
        assert await asyncio.to_thread(self.over.wait, LONGEST)
        self.attempt(dialog)

    def attempt(self, dialog: Dialog) -> None:
        try:
            dialog.send(Answer(text="late"))
        except HandlerOver as error:
            self.told.append(error)

    def asked(self, body: BaseModel) -> None:
        """Have one message handled, and what its handler began refused afterwards."""
        with local(self.service, initiates=[SALES]) as client:
            client.request("shop", SALES, body, reply=Answer, timeout=SHORT).result()
            self.over.set()
            until(lambda: not any(thread.is_alive() for thread in self.threads))
            until(lambda: all(task.done() for task in self.tasks))


def until(condition: Callable[[], bool]) -> None:
    deadline, pause = monotonic() + LONGEST, threading.Event()
    while not condition():
        assert monotonic() < deadline
        pause.wait(0.001)


@pytest.mark.parametrize("verb", VERBS)
def test_a_dialog_kept_after_its_handler_returned_raises(verb: str) -> None:
    """Whatever is asked for; what it is, is still told."""
    shop = Shop()
    shop.asked(Ask())
    with pytest.raises(HandlerOver, match="before the handler returns"):
        VERBS[verb](shop.kept[0])
    assert shop.kept[0].contract == "Sales"
    assert shop.kept[0].message.sequence == 0


def test_a_thread_that_outlives_its_handler_is_told() -> None:
    shop = Shop()
    shop.asked(Ask(what="thread"))
    assert len(shop.told) == 1


def test_a_task_that_outlives_its_handler_is_told() -> None:
    shop = Shop()
    shop.asked(Answer())
    assert len(shop.told) == 1


def test_another_handlers_dialog_is_not_the_way_to_speak_on_it() -> None:
    """The second handler uses what the first one kept; its own answer goes out."""
    shop = Shop()
    with local(shop.service, initiates=[SALES]) as client:
        for _ in range(2):
            assert client.request("shop", SALES, Ask(), reply=Answer, timeout=SHORT).result() == Answer(text="now")
    assert len(shop.told) == 1


def test_the_dialog_of_a_timer_is_over_with_its_handler() -> None:
    shop = Shop()
    with local(shop.service, initiates=[SALES]) as client:
        with client.begin_dialog("shop", SALES) as dialog:
            dialog.send(Ask(what="timer"))
        until(lambda: len(shop.kept) == 2)
        until(lambda: shop.kept[1]._draft._over)
    with pytest.raises(HandlerOver):
        shop.kept[1].send(Answer())


def test_a_handler_past_its_time_limit_is_told_at_its_next_request() -> None:
    """Its thread cannot be stopped; what it asks for from then on raises, so that it ends."""
    told: list[BaseException] = []
    charged = threading.Event()
    service = Service("shop", accepts=[SALES], ignores=[Answer])

    @service.on(Ask, time_limit=timedelta(seconds=0.05))
    def ask(body: Ask, dialog: Dialog) -> None:
        if told or charged.is_set():
            return
        until(lambda: dialog._draft._over)
        try:
            dialog.send(Answer(text="late"))
        except HandlerOver as error:
            told.append(error)
            charged.set()

    with local(service, initiates=[SALES]) as client:
        with client.begin_dialog("shop", SALES) as dialog:
            dialog.send(Ask())
        assert charged.wait(LONGEST)
    assert len(told) == 1
