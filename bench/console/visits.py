"""Runs a real ``conversations console``, and asks for its pages as an operator's browser does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from bench import memory
from bench.children import RunFailed
from bench.console.planting import AGAIN, BILLING, EXCEPTIONS, ORDERS, REQUEST, Planted, word
from bench.latencies import percentile
from conversations import Kafka
from conversations.protocol.identifiers import uuid_text
from conversations_ops.web.users import Role, Users

PROGRAM = Path(sys.executable).with_name("conversations")
NAME, PASSWORD = "ann", "a horse and a battery"
START, ANSWER = 60.0, 120.0
PACE = 0.03
"""Seconds between two requests: the console answers at most 40 of one address in a second."""
EVENTS = "GAVE_UP", "RESOLVED"


class Visit(NamedTuple):
    """One request, and a text that its answer must have."""

    path: str
    has: str


class Site:
    """A console that runs, with a session of an operator."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process, self._port = process, port
        self._cookie = ""
        self._connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER)

    def log_in(self) -> None:
        """Log the operator in.

        Raises:
            RunFailed: the console did not let the operator in.
        """
        form = urlencode({"name": NAME, "password": PASSWORD, "next": "/"})
        self._connection.request("POST", "/login", form, {"content-type": "application/x-www-form-urlencoded"})
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != 303:
            raise RunFailed(f"the console answered {answer.status} to the operator's password")
        self._cookie = (answer.getheader("set-cookie") or "").partition(";")[0]

    def seconds(self, visit: Visit) -> float:
        """Ask for a page, and return the seconds until its last byte.

        Raises:
            RunFailed: the console refused, or the page does not have what it must have.
        """
        began = time.perf_counter()
        self._connection.request("GET", visit.path, headers={"cookie": self._cookie})
        answer = self._connection.getresponse()
        text = answer.read().decode()
        took = time.perf_counter() - began
        # A search that finds one dialog leads to it.
        if answer.status not in (200, 303) or visit.has not in text + (answer.getheader("location") or ""):
            raise RunFailed(f"{visit.path}: {answer.status}, and no {visit.has!r} in {len(text):,} characters")
        return took

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the console has used since its start."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self) -> float:
        """Return the most resident memory of the console."""
        return memory.peak_mb(self._process.pid)

    def idle_cpu(self, seconds: float) -> float:
        """Return the share of one processor that the console uses while nobody asks it."""
        self._connection.close()  # the console closes a connection that is idle; the next request opens another
        before = self.cpu_seconds()
        time.sleep(seconds)
        return (self.cpu_seconds() - before) / seconds


@contextmanager
def site(kafka: Kafka, cache: Path) -> Iterator[Site]:
    """Run a console until the block is left. The read model is in ``read-model`` of the directory ``cache``.

    Raises:
        RunFailed: the console does not start.
    """
    users = Users(cache / "users.json")
    users.add(NAME, Role.OPERATOR, PASSWORD)
    log = cache / "console.log"
    command = [
        str(PROGRAM), "console", "--listen", "0", "--users", str(users.path), "--bootstrap", kafka.bootstrap, "--namespace", kafka.namespace,
    ]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env={**os.environ, "CONVERSATIONS_CACHE": str(cache)}, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    try:
        found = Site(process, _port(process, log))
        found.log_in()
        yield found
    finally:
        process.terminate()
        try:
            process.wait(ANSWER)
        finally:
            process.kill()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + START
    while process.poll() is None and time.monotonic() < deadline:
        if found := re.search(r" is on http://127\.0\.0\.1:([0-9]+)", log.read_text(encoding="utf-8")):
            return int(found[1])
        time.sleep(0.05)
    raise RunFailed(f"the console does not start: {log.read_text(encoding='utf-8')[-2_000:]}")


def measured(site: Site, visits: Sequence[Visit]) -> dict[str, Any]:
    """Ask for one page of each kind once, then for the others, and return the times in milliseconds.

    Raises:
        RunFailed: a page is not as it must be.
    """
    first = site.seconds(visits[0])
    times: list[float] = []
    for visit in visits[1:]:
        begun = time.monotonic()
        times.append(site.seconds(visit))
        time.sleep(max(0.0, PACE - (time.monotonic() - begun)))
    found = {f"p{percent}_ms": round(1e3 * percentile(times, percent), 1) for percent in (50, 95)}
    return {"count": len(times), **found, "max_ms": round(1e3 * max(times), 1), "first_ms": round(1e3 * first, 1)}


def journeys(planted: Planted, count: int) -> dict[str, list[Visit]]:
    """Return ``count`` visits of each kind of page, on varied ids, words and positions."""
    kinds: dict[str, Callable[[Planted, int], Visit]] = {
        "overview": lambda _, __: Visit("/", BILLING),
        "dialogs": _dialogs,
        "dialogs, begin of an id": _by_id,
        "dialogs, a key": _by_key,
        "dialogs, a word of one body": _by_word,
        "dialogs, a word of every body": lambda _, __: Visit("/dialogs?q=at+the+door", ORDERS),
        "dialogs, a word of no body": lambda _, at: Visit(f"/dialogs?q=nobody-{at}", "nobody-"),
        "groups of held messages": lambda _, at: Visit(
            "/letters?service=billing" if at % 2 else "/letters", EXCEPTIONS[0]
        ),
        "one group": _group,
        "one letter": lambda it, at: Visit(f"/letters/{quote(_some(it.waiting, at).name)}", "step_8"),
        "one dialog": lambda it, at: _dialog(it, _some(range(it.dialogs), at)),
        "a dialog that waits": lambda it, at: _dialog(it, _some(it.waiting, at).dialog),
        "open letters": lambda it, at: Visit(f"/detached?begin={_some(range(it.open_letters - 10), at)}", AGAIN),
        "one open letter": lambda it, at: Visit(f"/letters/{quote(_some(it.detached, at).name)}", AGAIN),
        "retries": _retries,
        "events": _events,
        "journal": lambda it, at: Visit(f"/journal?before={_some(range(it.events // 2, it.events), at)}", "INC-"),
    }
    return {name: [visit(planted, at) for at in range(count)] for name, visit in kinds.items()}


def _some(things: Sequence[Any], at: int) -> Any:
    """Return one of the things: others for other numbers, spread over all."""
    return things[at * 7_919_777 % len(things)]


def _dialogs(it: Planted, at: int) -> Visit:
    some = it.id(_some(range(it.dialogs // 2, it.dialogs), at)).hex()
    wanted = (
        "",
        "service=orders",
        "state=conversing",
        "waits=1",
        "failed=1",
        "service=billing&waits=1",
        "state=closed",
    )[at % 7]
    return Visit(f"/dialogs?{wanted}{f'&before={some}00' if at % 2 else ''}", "/dialogs/")


def _by_id(it: Planted, at: int) -> Visit:
    name = uuid_text(it.id(_some(range(it.dialogs), at)))
    return Visit(f"/dialogs?q={name[: (8, 11, 18, 36)[at % 4]]}", name[:8])


def _by_key(it: Planted, at: int) -> Visit:
    number = _some(range(it.dialogs // 2), at) * 2 + 1
    return Visit(f"/dialogs?q={it.key(number)[: (13, 12, 11)[at % 3]]}", "/dialogs/")


def _by_word(it: Planted, at: int) -> Visit:
    number = _some(it.waiting, at).dialog
    return Visit(f"/dialogs?q={word(number)}", uuid_text(it.id(number)))


def _group(it: Planted, at: int) -> Visit:
    exception = EXCEPTIONS[at % len(EXCEPTIONS)]
    since = f"&since={it.began(_some(range(it.dialogs // 2), at))}&after=x" if at % 2 else ""
    return Visit(f"/letters/of?service={BILLING}&exception={exception}&what={REQUEST}{since}", exception)


def _dialog(it: Planted, number: int) -> Visit:
    return Visit(f"/dialogs/{uuid_text(it.id(number))}", uuid_text(it.id(number)))


def _retries(it: Planted, at: int) -> Visit:
    since = f"&since={it.began(_some(range(it.dialogs // 2), at))}&after=x" if at % 2 else ""
    return Visit(f"/retries?service={(BILLING, '')[at % 3 == 0]}{since}", REQUEST)


def _events(it: Planted, at: int) -> Visit:
    wanted = ("", f"&service={BILLING}", *(f"&name={name}" for name in EVENTS), f"&service={ORDERS}")[at % 5]
    return Visit(f"/events?before={_some(range(it.events // 2, it.events), at)}{wanted}", "Events")
