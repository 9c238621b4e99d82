"""A real Chromium, and the real web console in a process of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from playwright.sync_api import Page, sync_playwright

from conversations import Kafka
from conversations_ops.web.users import Role, Users
from tests.acceptance.support.command_line import PROGRAM, environment
from tests.support.waiting import SLOWER, until

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
MISSING = "no Chromium (Debian: apt install chromium)"
PASSWORD = "a horse and a battery"
DESKTOP, PHONE = (1280, 900), (390, 844)
SCREENS = {"desktop": DESKTOP, "phone": PHONE}


class Console:
    """A ``conversations console`` in the background. At the end of the ``with`` block it gets SIGTERM."""

    def __init__(self, kafka: Kafka, out: Path, *arguments: str) -> None:
        self.address = ""
        self.users = Users(out / "users.json")
        self.users.add("ann", Role.OPERATOR, PASSWORD)
        self.users.add("ben", Role.VIEWER, PASSWORD)
        self.log = out / "console.log"
        self._command = [
            str(PROGRAM), "console", "--listen", "0", "--users", str(self.users.path), "--bootstrap", kafka.bootstrap,
            "--namespace", kafka.namespace, "--every", "0.2", *arguments,
        ]  # fmt: skip
        self._environment = environment(out)

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self._command, env=self._environment, stderr=log, stdout=log)
        until(lambda: bool(self._address()) or self.process.poll() is not None, "the console listens")
        assert self.process.poll() is None, self.log.read_text()
        self.address = self._address()
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(30 * SLOWER)
        finally:
            self.process.kill()

    def _address(self) -> str:
        found = re.search(r" is on (http\S+)", self.log.read_text(encoding="utf-8"))
        return found[1] if found else ""


class Browser:
    """Chromium. Each person gets a window without the cookies of the others."""

    def __init__(self, browser: Any, console: Console) -> None:
        self._browser, self._console = browser, console
        self.faults: list[str] = []
        """What the browser complained about: scripts that failed, and what the content security policy refused."""

    def window(self, screen: tuple[int, int] = DESKTOP) -> Page:
        """Open a window in which nobody has logged in."""
        width, height = screen
        context = self._browser.new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(20_000 * SLOWER)
        page: Page = context.new_page()
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda it: self.faults.append(it.text) if _is_fault(it) else None)
        return page

    def person(self, name: str, screen: tuple[int, int] = DESKTOP) -> Page:
        """Open a window, and log a user in."""
        page = self.window(screen)
        page.goto(self._console.address)
        page.fill("input[name=name]", name)
        page.fill("input[name=password]", PASSWORD)
        page.click("button")
        page.wait_for_url(f"{self._console.address}/")
        return page


def _is_fault(said: Any) -> bool:
    return said.type in ("error", "warning") and "the server responded with a status of" not in said.text


@contextmanager
def browser(console: Console) -> Iterator[Browser]:
    """Start Chromium."""
    with sync_playwright() as playwright:
        # Chromium's own sandbox needs rights that containers and the superuser do not give it. It opens our own pages only.
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield Browser(found, console)
        finally:
            found.close()


def overflow(page: Page) -> int:
    """Return how many pixels a page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def raw_ids(page: Page) -> list[str]:
    """Return the whole ids of dialogs that a page shows outside code."""
    text = page.evaluate(
        "() => { const it = document.querySelector('main').cloneNode(true); it.querySelectorAll('code, pre').forEach((e) => e.remove()); return it.innerText; }"
    )
    return re.findall(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", str(text))
