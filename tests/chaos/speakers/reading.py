"""Asks readers of both services how the dialogs stand, again and again, and notes each answer with the time at which it was there."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

from conversations import DialogView, Kafka, Reader, Status
from tests.chaos.speakers.services import DESK, SHOP, desk_1, shop_1

PAUSE = 0.05
"""Seconds between two rounds through all dialogs."""


class Reading(threading.Thread):
    """Reads until told to stop; ``views.jsonl`` has a line for each view."""

    def __init__(self, kafka: Kafka, directory: Path) -> None:
        super().__init__(name="reading", daemon=True)
        self._kafka, self._file = kafka, directory / "views.jsonl"
        self.stopping = threading.Event()
        self.dialogs: dict[str, str] = {}
        """Handles at the shop by handle at the desk; the thread of the run adds to it."""
        self.views = 0
        self.over: set[tuple[str, str]] = set()
        """Services and dialogs whose last view was of the end."""
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Read, and note."""
        try:
            with (
                self._file.open("w", encoding="utf-8") as out,
                Reader(desk_1(), self._kafka) as desk,
                Reader(shop_1(), self._kafka) as shop,
            ):
                while not self.stopping.wait(PAUSE):
                    for dialog, handle in list(self.dialogs.items()):
                        self._note(out, DESK, dialog, desk.dialog(dialog))
                        self._note(out, SHOP, dialog, shop.dialog(handle))
        except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
            self.failure = error

    def _note(self, out: Any, service: str, dialog: str, view: DialogView[Any]) -> None:
        at = time.time_ns() // 1_000_000  # the broker's dates have milliseconds too
        told = {
            "at": at, "service": service, "dialog": dialog, "status": view.status.value, "sequenced": view.sent.sequenced,
            "acknowledged": view.sent.acknowledged, "accepted": view.received.accepted, "handled": view.received.handled,
            "counted": view.state.heard if service == DESK else None, "refused": len(view.refused),
        }  # fmt: skip
        out.write(json.dumps(told) + "\n")
        self.views += 1
        if view.status is Status.ENDED:
            self.over.add((service, dialog))
