"""A service with a pool, and its target, which keeps the numbers of each key in its state, and answers each of them."""

from __future__ import annotations

from datetime import timedelta

from conversations import Contract, Dialog, Pool, Service
from tests.crashes.support.counting_services import Echo, Number, Seen

PUSHES = Contract("CrashPushes", sent_by_initiator=[Number], sent_by_target=[Echo], resend="automatic")
DEVICES = Pool("devices", to="gateway", contract=PUSHES, max_age=timedelta(seconds=5), max_messages=20)

alerts = Service("alerts", initiates=[PUSHES], state=Seen)
gateway = Service("gateway", accepts=[PUSHES], state=Seen)


@alerts.on(Echo)
def keep(echo: Echo, dialog: Dialog[Seen]) -> None:
    """Keep the answers."""
    dialog.group.state.numbers.append(echo.n)


@gateway.on(Number)
def push(number: Number, dialog: Dialog[Seen]) -> None:
    """Keep and answer a number."""
    dialog.group.state.numbers.append(number.n)
    dialog.send(Echo(n=number.n))
