"""Two services that count together: each number is echoed, the last echo brings the total back."""

import os
from pathlib import Path

from pydantic import BaseModel

from conversations import Contract, Dialog, Service

OUT = Path(os.environ.get("OUT", "."))


class Number(BaseModel):
    n: int
    of: int


class Echo(BaseModel):
    n: int
    of: int


class Total(BaseModel):
    count: int


class Progress(BaseModel):
    next: int = 0


COUNTING = Contract("Counting", sent_by_initiator=[Number, Total], sent_by_target=[Echo])
source = Service("source", initiates=[COUNTING], state=Progress)
sink = Service("sink", accepts=[COUNTING], state=Progress)


def write(name: str, *facts: object) -> None:
    """Append a line, whole whatever other processes do."""
    file = os.open(OUT / name, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(file, (" ".join(map(str, facts)) + "\n").encode())
    os.close(file)


def advance(dialog: Dialog[Progress], n: int) -> int:
    """Take the next number; whatever is repeated, lost or out of order ends up in a file."""
    state = dialog.group.state
    if n != state.next:
        write("disorder", dialog.id, n, state.next)
    state.next += 1
    return state.next


@sink.on(Number)
def echo(number: Number, dialog: Dialog[Progress]) -> None:
    write("numbers", dialog.id, number.n, os.getpid())
    advance(dialog, number.n)
    dialog.send(Echo(n=number.n, of=number.of))


@sink.on(Total)
async def finish(total: Total, dialog: Dialog[Progress]) -> None:
    write("totals", dialog.id, total.count, dialog.group.state.next)


@source.on(Echo)
async def count(echo: Echo, dialog: Dialog[Progress]) -> None:
    write("echoes", dialog.id, echo.n, os.getpid())
    if advance(dialog, echo.n) == echo.of:
        dialog.send(Total(count=dialog.group.state.next))
        dialog.end()
