"""Which conversation a log line belongs to."""

import asyncio
import io
import json
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from conversations import Contract, PoisonPolicy, Service, local
from conversations import Dialog as Conversation
from conversations.calls import Call, invoke, invoke_async
from conversations.handlers import Handler
from conversations.logs import ConversationFilter, conversation_id
from conversations.scheduler import Mark, Run, Steps, Threads
from conversations_ops.console.log_lines import JsonLines, TextLines
from tests.support.waiting import until


class Dialog:
    """Has an id and fields, as a dialog has."""

    def __init__(self, name: str) -> None:
        self.id = name
        self.log_fields = {"conversation": name, "service": "sink", "partition": 3, "attempt": 1}


def call_of(function: Callable[..., Any], name: str, *, is_async: bool = False) -> Call:
    return Call(Handler(function, is_async, 60.0, "handler"), ("body", Dialog(name)))


def test_outside_of_handlers_there_is_no_conversation() -> None:
    assert conversation_id() == ""


def test_a_handler_knows_its_conversation_and_nobody_after_it() -> None:
    seen = []
    assert invoke(call_of(lambda _body, _dialog: seen.append(conversation_id()), "one")) is None
    assert (seen, conversation_id()) == (["one"], "")


def test_a_handler_that_raises_leaves_no_conversation_behind() -> None:
    assert isinstance(invoke(call_of(lambda _body, _dialog: 1 / 0, "one")), ZeroDivisionError)
    assert conversation_id() == ""


def test_async_handlers_side_by_side_each_know_their_own() -> None:
    seen = []

    async def handler(_body: str, dialog: Dialog) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            seen.append((dialog.id, conversation_id(), await asyncio.to_thread(conversation_id)))

    async def both() -> None:
        calls: list[Coroutine[Any, Any, Any]] = [
            invoke_async(call_of(handler, name, is_async=True)) for name in ("one", "two")
        ]
        await asyncio.gather(*calls)

    asyncio.run(both())
    assert set(seen) == {("one", "one", "one"), ("two", "two", "two")}


def test_handlers_on_a_pool_and_on_a_given_loop_know_theirs() -> None:
    seen: list[tuple[str, str, object]] = []

    def plain(_body: str, dialog: Dialog) -> None:
        seen.append((dialog.id, conversation_id(), None))

    async def later(_body: str, dialog: Dialog) -> None:
        await asyncio.sleep(0)
        seen.append((dialog.id, conversation_id(), asyncio.get_running_loop()))

    def steps(name: str) -> Steps:
        yield call_of(plain, f"{name}-1")
        yield call_of(later, f"{name}-2", is_async=True)
        yield call_of(plain, f"{name}-3")

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    scheduler, mark = Threads(4, "test", loop=loop), Mark()
    names = [str(i) for i in range(20)]
    for name in names:
        scheduler.start([Run(None, steps(name))], mark)
    scheduler.wait(mark, 10)
    scheduler.close()
    for _ in range(2):  # a loop that is not the scheduler's own goes on
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert {(dialog, said) for dialog, said, _ in seen} == {(f"{n}-{i}",) * 2 for n in names for i in (1, 2, 3)}
    assert {where for dialog, _, where in seen if dialog.endswith("-2")} == {loop}


# -- lines ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def lines() -> Iterator[Callable[[logging.Formatter], list[str]]]:
    """Log from a handler of conversation ``one``, and once outside, through a formatter."""
    logger = logging.getLogger("test.lines")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(ConversationFilter())
    logger.addHandler(handler)

    def work(_body: str, _dialog: Dialog) -> None:
        logger.info("inside %d", 1, extra={"attempt": 2, "kept": True})
        logger.info("of another", extra={"conversation": "two"})

    def logged(formatter: logging.Formatter) -> list[str]:
        handler.setFormatter(formatter)
        invoke(call_of(work, "one"))
        logger.info("outside")
        return stream.getvalue().splitlines()

    yield logged
    logger.removeHandler(handler)


def test_lines_for_people_show_worker_and_conversation(lines: Callable[[logging.Formatter], list[str]]) -> None:
    first, second, third = lines(TextLines("sink s-1"))
    assert first.endswith("INFO    [sink s-1 one] test.lines: inside 1")
    assert second.endswith("[sink s-1 two] test.lines: of another")
    assert third.endswith("[sink s-1] test.lines: outside")


def test_lines_for_programs_are_objects_with_what_the_record_was_given(
    lines: Callable[[logging.Formatter], list[str]],
) -> None:
    first, second, third = map(json.loads, lines(JsonLines("sink s-1")))
    assert first | {"time": ""} == {
        "time": "", "level": "info", "logger": "test.lines", "worker": "sink s-1", "conversation": "one",
        "message": "inside 1", "attempt": 2, "kept": True, "service": "sink", "partition": 3,
    }  # fmt: skip
    assert (second["conversation"], third["conversation"]) == ("two", "")
    assert not {"service", "partition", "attempt"} & (second.keys() | third.keys()), "fields of another dialog"


def test_no_text_breaks_a_line_or_adds_a_field() -> None:
    """Line ends, escapes and quotes of a message, of a field and of an exception are inside the strings of one object."""
    evil = 'x\n{"level": "fake"}\r\x1b[31m\u2028\x85\x7f"'
    try:
        raise ValueError(evil)
    except ValueError:
        record = logging.LogRecord("n", logging.ERROR, __file__, 1, evil, None, sys.exc_info())
    record.field = evil
    line = JsonLines("w").format(record)
    assert line.isprintable()
    assert line.isascii()
    found = json.loads(line)
    assert (found["message"], found["field"], found["level"]) == (evil, evil, "error")
    assert evil in found["exception"]


def test_a_handler_and_the_worker_write_the_fields_of_the_dialog_and_no_body(caplog: pytest.LogCaptureFixture) -> None:
    """The lines of a sync and of an async handler, and the worker's own about their failures, have all fields; also in ``asyncio.to_thread``."""
    caplog.handler.addFilter(ConversationFilter())
    own = logging.getLogger("test.own")

    class Word(BaseModel):
        text: str

    class Later(BaseModel):
        text: str

    talk = Contract("Talk", sent_by_initiator=[Word, Later])
    service = Service("sink", accepts=[talk], poison=[PoisonPolicy(delays=[timedelta(0)])])

    @service.on(Word)
    def plain(_: Word, dialog: Conversation) -> None:
        own.info("plain")
        raise KeyError("failed")

    @service.on(Later)
    async def later(_: Later, dialog: Conversation) -> None:
        own.info("async")
        await asyncio.to_thread(own.info, "in a borrowed thread")
        thread = threading.Thread(target=lambda: own.info("in its own thread", extra=dialog.log_fields))
        thread.start()
        thread.join()

    try:
        with caplog.at_level(logging.INFO), local(service) as client:
            ids = []
            for body in (Later(text="secret"), Word(text="secret")):
                with client.begin_dialog("sink", talk) as begun:
                    begun.send(body)
                ids.append(begun.id)
            until(lambda: any("giving up" in it.getMessage() for it in caplog.records), "the message is given up on")
            until(
                lambda: any("its own thread" in it.getMessage() for it in caplog.records), "the async handler has run"
            )
    finally:
        for it in list(caplog.handler.filters):
            caplog.handler.removeFilter(it)
    names = ("conversation", "service", "partition", "message_type", "message_number", "attempt")
    said = {
        (it.getMessage().partition(" of ")[0], *(vars(it)[name] for name in names))
        for it in caplog.records
        if vars(it).get("message_type")
    }
    first, second = ids
    assert said == {
        ("async", first, "sink", 0, "Later", 0, 1),
        ("in a borrowed thread", first, "sink", 0, "Later", 0, 1),
        ("in its own thread", first, "sink", 0, "Later", 0, 1),
        ("plain", second, "sink", 0, "Word", 0, 1),
        ("handler", second, "sink", 0, "Word", 0, 1),
        ("plain", second, "sink", 0, "Word", 0, 2),
        ("handler", second, "sink", 0, "Word", 0, 2),
    }
    assert "secret" not in "".join(JsonLines("w").format(it) for it in caplog.records)


def test_an_error_carries_its_traceback_in_the_same_object() -> None:
    try:
        raise KeyError("x")
    except KeyError:
        record = logging.LogRecord("n", logging.ERROR, __file__, 1, "failed", None, sys.exc_info())
    assert "KeyError" in json.loads(JsonLines("w").format(record))["exception"]
