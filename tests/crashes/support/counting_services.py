"""Two services that count together, and keep in Kafka all they saw: what is lost, twice or out of order is told by their state."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from pydantic import BaseModel

from conversations import Contract, Dialog, Service


class Number(BaseModel):
    n: int


class Echo(BaseModel):
    n: int


class Seen(BaseModel):
    numbers: list[int] = []


COUNTING = Contract("CrashCounting", sent_by_initiator=[Number], sent_by_target=[Echo])


def counter() -> Service[Seen]:
    """Begins the dialogs; keeps the echoes."""
    service = Service("counter", initiates=[COUNTING], state=Seen)

    @service.on(Echo)
    def keep(echo: Echo, dialog: Dialog[Seen]) -> None:
        dialog.group.state.numbers.append(echo.n)

    return service


def echoer(out: Path) -> Service[Seen]:
    """Keeps the numbers and echoes them; does what it is told by files of ``out`` when it comes to a number.

    ``kill-7`` ends the process at number 7, once: it takes the file away. ``stop-7`` makes the handler not return.
    """
    service = Service("echoer", accepts=[COUNTING], state=Seen)

    @service.on(Number)
    def echo(number: Number, dialog: Dialog[Seen]) -> None:
        die_if_told(out, f"kill-{number.n}")
        dialog.group.state.numbers.append(number.n)
        if (out / f"stop-{number.n}").exists():
            (out / f"stopped-{number.n}").touch()
            threading.Event().wait()
        dialog.send(Echo(n=number.n))

    return service


def die_if_told(out: Path, point: str) -> None:
    """End this process as SIGKILL does, if there is an order for this point; it is carried out once."""
    try:
        (out / point).rename(out / f"{point}.done")
    except FileNotFoundError:
        return
    os.kill(os.getpid(), 9)
