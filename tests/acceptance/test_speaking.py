"""A web hook, a terminal and a handler speak on one accepted dialog while workers are killed, and a reader tells only the truth."""

import asyncio
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from conversations import Client, DialogView, Kafka, Reader, Status
from conversations.kafka.admin import apply
from tests.acceptance.services.speaking import SUPPORT, Heard, Line, Open, Ping, customer, support
from tests.acceptance.support.command_line import SERVICES, Running, environment
from tests.support.waiting import SLOWER, until

pytestmark = [pytest.mark.acceptance, pytest.mark.kafka, pytest.mark.timeout(240)]

LINES = int(os.environ.get("LINES_EACH", "80"))
"""Lines that each of the three speakers says."""
KILLS = 4
LONG = timedelta(seconds=120 * SLOWER)


async def web_hook(kafka: Kafka, handle: str) -> None:
    """Say each line in a block with a key, and say it again, as a web server does that got no answer."""
    async with Client(support, kafka) as client:
        for n in range(LINES):
            for _ in range(2):
                async with client.dialog(handle) as dialog:
                    dialog.send(Line(by="web", n=n), key=f"web-{n}")


def handler(kafka: Kafka, dialog_id: str) -> None:
    """Let the handler of support say its lines: it answers each ping."""
    with Client(customer, kafka) as client:
        for n in range(LINES):
            with client.dialog(dialog_id) as dialog:
                dialog.send(Ping(n=n))


def terminal(kafka: Kafka, handle: str, out: Path) -> None:
    arguments = [kafka.bootstrap, kafka.namespace, handle, str(LINES)]
    subprocess.run(
        [sys.executable, "speaking.py", *arguments],
        cwd=SERVICES,
        env=environment(out),
        check=True,
        timeout=120 * SLOWER,
    )


def has_heard(lines: int, view: DialogView[Heard]) -> bool:
    """Return True if the customer has heard so many lines."""
    return len(view.state.lines) >= lines


def watch(kafka: Kafka, dialog_id: str, handle: str, done: Event) -> int:
    """Compare the views of both sides while the dialog goes on; return how often.

    What a view says is compared with what the other side says later or said before. So a view that is ahead of the truth is found.
    """
    rounds = 0
    with Reader(support, kafka) as here, Reader(customer, kafka) as there:
        sequenced = 0
        while not done.is_set():
            before = there.dialog(dialog_id)
            view = here.dialog(handle)
            after = there.dialog(dialog_id)
            assert view.status is before.status is after.status is Status.OPEN
            assert before.received.accepted <= view.sent.sequenced, "the peer accepted what was never sequenced"
            assert view.sent.acknowledged is not None
            assert view.sent.acknowledged <= after.received.accepted, "acknowledged, and the peer did not have it"
            assert view.sent.sequenced >= sequenced, "what was sequenced is not any more"
            assert after.received.handled == len(after.state.lines), "handled, and its effects are not there"
            sequenced = view.sent.sequenced
            rounds += 1
    return rounds


@pytest.mark.slow
def test_three_speak_on_an_accepted_dialog_while_workers_are_killed(kafka: Kafka, tmp_path: Path) -> None:
    apply(kafka, [support.declaration(), customer.declaration()], 2, 1)
    done = Event()
    with (
        Running(kafka, tmp_path, "speaking:support", "speaking:customer", "--workers", "2").ready() as run,
        Client(customer, kafka) as client,
        Reader(customer, kafka) as reader,
        Reader(support, kafka) as there,
        ThreadPoolExecutor(4) as pool,
    ):
        with client.begin_dialog("support", SUPPORT) as dialog:
            dialog.send(Open())
        handle = f"{dialog.id}:target"
        opened = there.wait(handle, timeout=LONG, until=lambda view: bool(view.state.handle)).result()
        assert opened.state.handle == handle
        watching = pool.submit(watch, kafka, dialog.id, handle, done)
        speakers = [
            pool.submit(asyncio.run, web_hook(kafka, handle)),
            pool.submit(handler, kafka, dialog.id),
            pool.submit(terminal, kafka, handle, tmp_path),
        ]
        try:
            for kill in range(KILLS):
                part = 3 * LINES * (kill + 1) // (KILLS + 1)
                reader.wait(dialog.id, timeout=LONG, until=partial(has_heard, part)).result()
                run.ready()
                service = run.health()[1]["services"][kill % 2]
                pids = [it["pid"] for it in service["workers"] if it.get("pid")]
                os.kill(pids[kill // 2 % len(pids)], signal.SIGKILL)
            for each in speakers:
                each.result()
            view = reader.wait(dialog.id, timeout=LONG, until=partial(has_heard, 3 * LINES)).result()
        finally:
            done.set()
        assert watching.result() > KILLS
        for by in ("web", "handler", "terminal"):
            assert [n for name, n in view.state.lines if name == by] == list(range(LINES)), by
        assert len(view.state.lines) == 3 * LINES
        until(lambda: there.dialog(handle).sent == (3 * LINES, 0, 0, 3 * LINES), "everything is acknowledged")
        assert there.dialog(handle).refused == ()
