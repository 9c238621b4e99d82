"""Writes a picture of every page of the web console, with the dialogs of the demo, on a desktop, on a phone and in the dark.

``python docs/make_screenshots.py`` starts the demo, waits until flights are held, and opens Chromium. The pictures go to
``build/screenshots``. With ``--docs`` the pictures that the documentation shows go to ``docs/pictures``, too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "ops")]
from playwright.sync_api import Page, expect, sync_playwright  # noqa: E402 - the path comes first

from tests.acceptance.support.browser import CHROMIUM, DESKTOP, MISSING, PHONE  # noqa: E402

OUT = ROOT / "build" / "screenshots"
SHORT = ROOT / "build" / "pictures"
SHOWN = ("desktop-overview", "desktop-dialog")
"""Pictures in the documentation, cut off at ``TALL``."""
TALL = 1_180
"""Number of pixels that a page in the documentation may be high."""
PATIENCE = 600.0
"""Seconds until flights are held."""


def main(arguments: list[str]) -> int:
    """Write the pictures."""
    if not CHROMIUM:
        print(MISSING, file=sys.stderr)
        return 1
    for directory in (OUT, SHORT):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    with tempfile.TemporaryFile("w+") as said:
        demo = subprocess.Popen(
            [Path(sys.executable).with_name("conversations"), "demo", "--console", "--no-spark", "--json"],
            stderr=said,
            stdout=subprocess.DEVNULL,
        )
        try:
            link = _link(demo, said)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                Camera(browser, link).take_all()
                browser.close()
            code = demo.wait(PATIENCE)
        finally:
            demo.terminate()
            demo.wait()
    if "--docs" in arguments:
        for name in SHOWN:
            shutil.copy(SHORT / f"{name}.png", ROOT / "docs" / "pictures" / f"{name}.png")
    print(f"{len(list(OUT.iterdir()))} pictures in {OUT}")
    return code


def _link(demo: subprocess.Popen[bytes], said: Any) -> str:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and demo.poll() is None:
        said.seek(0)
        if found := re.search(r"http\S+/login\?link=\S+", said.read()):
            return found[0]
        time.sleep(0.5)
    said.seek(0)
    raise SystemExit(f"the demo has printed no link:\n{said.read()[-2_000:]}")


class Camera:
    """A browser in which the owner of the demo has logged in, in several windows."""

    def __init__(self, browser: Any, link: str) -> None:
        self._base = link.partition("/login")[0]
        first = browser.new_context(viewport={"width": DESKTOP[0], "height": DESKTOP[1]})
        page = first.new_page()
        page.goto(f"{self._base}/login")
        page.screenshot(path=OUT / "desktop-login.png")
        page.goto(link)
        kept = first.storage_state()
        self._windows = {"desktop": page}
        for name, (width, height), dark in (("phone", PHONE, False), ("dark", DESKTOP, True)):
            context = browser.new_context(
                viewport={"width": width, "height": height},
                storage_state=kept,
                color_scheme="dark" if dark else "light",
            )
            self._windows[name] = context.new_page()

    def take_all(self) -> None:
        """Take a picture of every page, then redrive the held flights and take pictures of that."""
        desktop = self._windows["desktop"]
        self._publish_metrics(desktop)
        desktop.goto(f"{self._base}/letters")
        group = str(desktop.locator("main table a").first.get_attribute("href"))
        desktop.goto(f"{self._base}{group}")
        letter = str(desktop.locator("section[aria-label=Letters] table a").first.get_attribute("href"))
        dialog = str(desktop.locator("section[aria-label=Letters] td a.mono").first.get_attribute("href"))
        pages = {
            "overview": "/", "dialogs": "/dialogs", "held": "/letters", "group": group, "letter": letter, "edit": f"{letter}/edit", "dialog": dialog,
            "why": f"{dialog}/why", "retries": "/retries", "open-letters": "/detached", "queues": "/queues", "queue": "/queues/aircraft-log",
            "redrives": "/redrives", "charts": "/charts?span=1h", "events": "/events", "journal": "/journal", "not-found": "/nothing", "no-match": "/dialogs?q=nothing",
        }  # fmt: skip
        for name, path in pages.items():
            for window, page in self._windows.items():
                page.goto(f"{self._base}{path}")
                self._take(page, f"{window}-{name}")
        self._redrive(desktop, f"{self._base}{group}")

    def _take(self, page: Page, name: str) -> None:
        page.screenshot(path=OUT / f"{name}.png", full_page=True)
        if name in SHOWN:
            size = page.viewport_size or {"width": DESKTOP[0]}
            height = min(int(page.evaluate("document.documentElement.scrollHeight")), TALL)
            clip = {"x": 0, "y": 0, "width": size["width"], "height": height}
            page.screenshot(path=SHORT / f"{name}.png", full_page=True, clip=clip)  # type: ignore[arg-type]  # a dict of numbers

    def _publish_metrics(self, page: Page) -> None:
        """Let Spark publish the metrics of the demo, whose Kafka the foot of each page names."""
        page.goto(self._base)
        bootstrap = page.locator("footer").inner_text().partition(" ")[0]
        namespace = page.locator(".brand small").inner_text()
        where = ["--bootstrap", bootstrap, "--namespace", namespace]
        soon = datetime.now(tz=UTC) + timedelta(minutes=1)  # the minute of the demo is not over
        until = ["--until", soon.strftime("%Y-%m-%dT%H:%M")]
        command = [
            Path(sys.executable).with_name("conversations"),
            "spark",
            "dialog-metrics",
            "--publish",
            *until,
            *where,
        ]
        subprocess.run(command, check=True)
        page.wait_for_timeout(3_000)  # the read model looks every second

    def _redrive(self, page: Page, group: str) -> None:
        page.goto(group)
        page.fill("input[name=rate]", "1")
        page.get_by_role("button", name="Make a plan").click()
        page.screenshot(path=OUT / "desktop-redrive-planned.png", full_page=True)
        page.fill("input[name=reason]", "mended: these flights were diverted")
        page.get_by_role("button", name="Start").click()
        expect(page.get_by_label("Progress")).to_contain_text("handled", timeout=60_000)
        self._take(page, "desktop-redrive-runs")
        for window in ("phone", "dark"):
            self._windows[window].goto(page.url)
            self._windows[window].screenshot(path=OUT / f"{window}-redrive-runs.png", full_page=True)
        self._windows["dark"].goto(f"{self._base}/journal")
        self._windows["dark"].screenshot(path=OUT / "dark-journal-after.png", full_page=True)
        expect(page.get_by_role("heading", level=1)).to_contain_text("done", timeout=120_000)
        page.screenshot(path=OUT / "desktop-redrive-done.png", full_page=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
