"""A dialog on which a handler, a web hook and a terminal of the same service speak. As a program, this file is the terminal."""

import sys
from typing import Any

from pydantic import BaseModel

from conversations import Client, Contract, Dialog, Kafka, Service


class Open(BaseModel):
    pass


class Ping(BaseModel):
    n: int


class Line(BaseModel):
    by: str
    n: int


class Case(BaseModel):
    handle: str = ""


class Heard(BaseModel):
    lines: list[tuple[str, int]] = []


SUPPORT = Contract("Support", sent_by_initiator=[Open, Ping], sent_by_target=[Line])
support = Service("support", accepts=[SUPPORT], state=Case)
customer = Service("customer", initiates=[SUPPORT], state=Heard)


@support.on(Open)
def opened(body: Open, dialog: Dialog[Case]) -> None:
    dialog.group.state.handle = dialog.handle


@support.on(Ping)
def pinged(body: Ping, dialog: Dialog[Case]) -> None:
    dialog.send(Line(by="handler", n=body.n))


@customer.on(Line)
def heard(body: Line, dialog: Dialog[Heard]) -> None:
    dialog.group.state.lines.append((body.by, body.n))


def speak(client: Client, handle: str, by: str, lines: int) -> None:
    """Say lines on an accepted dialog, one after the other."""
    for n in range(lines):
        with client.dialog(handle) as dialog:
            dialog.send(Line(by=by, n=n))


def main(arguments: list[str]) -> Any:
    bootstrap, namespace, handle, lines = arguments
    with Client(support, Kafka(bootstrap, namespace=namespace)) as client:
        speak(client, handle, "terminal", int(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
