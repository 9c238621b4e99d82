"""Two services that count together, and keep all numbers in their state. The state shows each number that is lost, repeated or out of order."""

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
    """Return the service that begins the dialogs, and keeps the echoes in its state."""
    service = Service("counter", initiates=[COUNTING], state=Seen)

    @service.on(Echo)
    def keep(echo: Echo, dialog: Dialog[Seen]) -> None:
        dialog.group.state.numbers.append(echo.n)

    return service


def echoer(out: Path) -> Service[Seen]:
    """Return the service that keeps the numbers and echoes them. Files in ``out`` tell it what to do at a number.

    ``kill-7`` kills the process at number 7, once: the file is renamed. ``stop-7`` makes the handler of number 7 wait for ever.
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
    """Kill this process with SIGKILL, if there is a file with the name of this point. The file is renamed, so this happens once."""
    try:
        (out / point).rename(out / f"{point}.done")
    except FileNotFoundError:
        return
    os.kill(os.getpid(), 9)
