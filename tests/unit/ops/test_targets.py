"""What `conversations run` can be pointed at, and what it says when it cannot find it."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conversations import WorkerSettings
from conversations.errors import DeclarationError
from conversations_ops.host.targets import HandlerLoop, TargetError, TargetFailed, entered

MODULE = """
import asyncio
from contextlib import asynccontextmanager, contextmanager
from conversations import Service, WorkerSettings

events = []
service = Service("plain")
number = 7

def made():
    return Service("made")

async def made_later():
    return Service("made_later")

def generated():
    events.append("in")
    try:
        yield Service("generated")
    finally:
        events.append("out")

async def generated_later():
    events.append(asyncio.get_running_loop())
    try:
        yield Service("generated_later")
    finally:
        events.append(asyncio.get_running_loop())

block = contextmanager(generated)
async_block = asynccontextmanager(generated_later)
opened = block()
settings = WorkerSettings(batch=7)
pair = service, settings
swapped = settings, service

def made_pair():
    return service, settings

def generated_pair():
    yield service, settings

def needs(something):
    return service

@contextmanager
def wrong():
    yield "a string"

def failing():
    return {}["no such key"]

def failing_generator():
    yield failing()

async def failing_later():
    failing()
    yield
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory with ``shop/kinds.py`` and ``broken.py``, first on the path."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "kinds.py").write_text(MODULE)
    (tmp_path / "slip.py").write_text("greeting = 1\ngreeting = (\n")
    (tmp_path / "broken.py").write_text("def inner():\n    return 1 / 0\n\ninner()\n")
    (tmp_path / "needy.py").write_text("import not_installed_anywhere\n")
    (tmp_path / "clash.py").write_text("import spark_jobs.orders\n")
    (tmp_path / "single.py").write_text("from conversations import Service\ngreeter = Service('greeter')\n")
    for name in ("queue", "calendar"):
        (tmp_path / f"{name}.py").write_text("from conversations import Service\ngreeter = Service('greeter')\n")
    (tmp_path / "impossible.py").write_text("from conversations import Service\nService('a/b')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("shop", "shop.kinds", "slip", "broken", "needy", "clash", "impossible", "single"):
        sys.modules.pop(name, None)


def name_of(target: str) -> str:
    with HandlerLoop() as loop, entered(target, loop) as found:
        return found.service.name


def complaint(target: str) -> str:
    with pytest.raises(TargetError) as caught:
        name_of(target)
    return str(caught.value)


@pytest.mark.parametrize(
    ("attribute", "name"),
    [
        ("service", "plain"),
        ("made", "made"),
        ("made_later", "made_later"),
        ("generated", "generated"),
        ("generated_later", "generated_later"),
        ("block", "generated"),
        ("async_block", "generated_later"),
        ("opened", "generated"),
    ],
)
def test_a_service_a_function_and_a_block_sync_or_async_all_give_a_service(attribute: str, name: str) -> None:
    assert name_of(f"shop.kinds:{attribute}") == name


@pytest.mark.parametrize("attribute", ["pair", "made_pair", "generated_pair"])
def test_each_of_them_may_give_settings_with_the_service(attribute: str) -> None:
    with HandlerLoop() as loop, entered(f"shop.kinds:{attribute}", loop) as (service, settings):
        assert (service.name, settings) == ("plain", WorkerSettings(batch=7))


def test_a_service_alone_says_nothing_of_settings() -> None:
    with HandlerLoop() as loop, entered("shop.kinds:service", loop) as (_, settings):
        assert settings is None


def test_a_block_is_left_when_the_work_is_over_or_failed() -> None:
    with pytest.raises(KeyError), HandlerLoop() as loop, entered("shop.kinds:block", loop):
        raise KeyError
    assert sys.modules["shop.kinds"].events == ["in", "out"]


def test_an_async_block_is_entered_and_left_on_the_loop_its_handlers_will_have() -> None:
    with HandlerLoop() as loop:
        with entered("shop.kinds:async_block", loop):
            assert isinstance(loop.made, asyncio.AbstractEventLoop)
        assert sys.modules["shop.kinds"].events == [loop.made, loop.made]


def test_an_async_block_is_left_when_the_work_failed() -> None:
    with pytest.raises(KeyError), HandlerLoop() as loop, entered("shop.kinds:async_block", loop):
        raise KeyError
    assert len(sys.modules["shop.kinds"].events) == 2


def test_no_loop_is_made_for_what_needs_none() -> None:
    with HandlerLoop() as loop, entered("shop.kinds:block", loop):
        assert loop.made is None


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("nowhere:service", ["no module 'nowhere'", "the current directory", "module:attribute"]),
        ("shop.nowhere:service", ["no module 'shop.nowhere'"]),
        ("shop.kinds:nothing", ["no 'nothing'", "shop.kinds:service", "module:attribute"]),
        ("shop.kinds", ["which attribute", "shop.kinds:service"]),
        ("shop/kinds.py:service", ["names a file", "shop.kinds:service"]),
        ("single.greeter", ["'single' is a module", "single:greeter", "module:attribute"]),
        ("single.greeter:service", ["'single' is a module", "single:greeter"]),
        ("single.nothing", ["'single' is a module", "Services there: single:greeter"]),
        ("single.py", ["names a file", "here single:greeter"]),
        ("./single.py", ["names a file", "here single:greeter"]),
        ("gone.py", ["names a file", "here perhaps gone:service"]),
        ("queue:greeter", ["no 'greeter'", "hides ./queue.py", "another name"]),
        ("calendar.greeter", ["hides ./calendar.py"]),
        ("shop.kinds:failing", ["KeyError('no such key')", "kinds.py", "line 51"]),
        ("shop.kinds:failing_generator", ["KeyError('no such key')", "kinds.py", "line 51"]),
        ("shop.kinds:failing_later", ["KeyError('no such key')", "kinds.py", "line 51"]),
        (":service", ["module:attribute"]),
        ("shop.kinds:number", ["is 7", "neither a Service"]),
        ("shop.kinds:swapped", ["neither a Service", "WorkerSettings"]),
        ("shop.kinds:needs", ["without arguments", "something"]),
        ("shop.kinds:wrong", ["must yield a Service", "a string"]),
        ("broken:service", ["ZeroDivisionError", "broken.py", "line 2"]),
        ("slip:service", ["fails with SyntaxError: ", "(slip.py, line 2)"]),
        ("needy:service", ["not_installed_anywhere", "needy.py"]),
        ("clash:service", ["spark_jobs.orders", "the package 'spark_jobs' is already loaded from"]),
    ],
)
def test_a_target_that_cannot_be_found_says_what_was_tried(target: str, parts: list[str]) -> None:
    said = complaint(target)
    for part in parts:
        assert part in said


def test_code_of_a_target_that_fails_may_succeed_later() -> None:
    """A broken import may not: the process would read the same file again."""
    for target in ("shop.kinds:failing", "shop.kinds:failing_generator", "shop.kinds:failing_later"):
        with pytest.raises(TargetFailed):
            name_of(target)
    with pytest.raises(TargetError) as caught:
        name_of("broken:service")
    assert not isinstance(caught.value, TargetFailed)


def test_an_impossible_declaration_speaks_for_itself() -> None:
    with pytest.raises(DeclarationError, match="'a/b'") as caught:
        name_of("impossible:service")
    assert not isinstance(caught.value, TargetError)
